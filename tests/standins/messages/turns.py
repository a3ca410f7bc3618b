"""Scenarios that are chosen by the model's name: a list of turns, indexed by the answers already in the history."""
import pathlib

HERE = pathlib.Path(__file__).parent
RUN = {"id": "toolu_1", "name": "run_command", "arguments": '{"cmd":"ls"}'}
READ = {"id": "toolu_2", "name": "read_file", "arguments": '{"path":"x"}'}
EXAMPLE = [{"type": "thinking", "thinking": "Run it.", "signature": "EqQBCkgIARAB"},
           {"type": "text", "text": "Running café 😀."},
           {"type": "tool_use", "id": "toolu_01A", "name": "run_command", "input": {"cmd": "echo hé"},
            "caller": {"type": "direct"}}]
SEARCH = [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
          {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}]
ANSWER = {"text": "the results were: {results}"}
HTML = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


def fault(status, kind, message=None, code=None, **more):
    error = {"type": kind, "message": message or f"status {status}", "details": {"error_code": code} if code else None}
    return {"status": status, "json": {"type": "error", "error": error, "request_id": "req_body"}, **more}


SCENARIOS = {
    "claude-opus-5-5": [{"raw": (HERE / "tool.sse").read_text("utf-8"), "content": EXAMPLE}, ANSWER],
    "text": [{"text": "hello"}],
    "echo": [{"text": "{user}"}],
    "two-calls": [{"thinking": "Two.", "text": "Let me look.", "calls": [RUN, READ]}, ANSWER],
    "hidden": [{"thinking": "", "calls": [RUN]}, ANSWER],
    "redacted": [{"redacted": "Em8=", "text": "hello"}],
    "pause": [{"server": SEARCH[:1], "stop": "pause_turn"}, {"server": SEARCH[1:], "text": "hello"}],
    "no-fragments": [{"calls": [{**RUN, "arguments": "{}"}]}, ANSWER],
    "fine-fragments": [{"calls": [{**RUN, "fragments": ["", *'{"cmd":"ls"}']}]}, ANSWER],
    "eager": [{"calls": [{**RUN, "arguments": '{"cmd":"l'}]}, ANSWER],
    "same-id": [{"form": "llamacpp", "calls": [RUN, {**READ, "id": "toolu_1"}]}, ANSWER],
    "no-id": [{"form": "llamacpp", "calls": [{**RUN, "id": None}]}, ANSWER],
    "calls-end-turn": [{"calls": [RUN], "stop": "end_turn"}, ANSWER],
    "length": [{"text": "and so", "stop": "max_tokens"}],
    "length-call": [{"calls": [{**RUN, "arguments": '{"cmd":"l'}], "stop": "max_tokens"}, ANSWER],
    "window": [{"text": "and so", "stop": "model_context_window_exceeded"}],
    "refusal": [{"text": "I", "stop": "refusal", "details": {"type": "refusal", "category": "cyber",
                                                             "explanation": "Not that."}}],
    "stop-sequence": [{"text": "hello", "stop": "stop_sequence"}],
    "new-reason": [{"text": "hello", "stop": "something_new"}],
    "empty-answer": [{"content": []}],
    "no-usage": [{"text": "hello", "usage": None}],
    "no-stop": [{"text": "hello", "no_stop": True}],
    "comments": [{"text": "hello", "comments": True}],
    "pings": [{"text": "hello", "pings": True}],
    "unknown": [{"text": "hello", "unknown": True}],
    "split-data": [{"text": "hello", "split_data": True}],
    "no-names": [{"text": "hello", "no_names": True}],
    "crlf": [{"text": "hello", "newline": "\r\n"}],
    "cr": [{"text": "hello", "newline": "\r"}],
    "bom": [{"text": "hello", "bom": True}],
    "bytewise": [{"text": "é漢😀", "split": 1}],
    "pair": [{"pieces": ["\ud83d", "\ude00"], "text": "😀"}],
    "empty": [{"length": True, "raw": ""}],
    "html": [{"html": HTML}],
    "html-502": [{"status": 502, "html": HTML}],
    "json-error-200": [fault(200, "api_error", "the model crashed")],
    "stall-headers": [{"text": "hello", "stall_headers": True}],
    "drop": [{"text": "hello", "drop_at": 200}],
    "reset": [{"text": "hello", "drop_at": 200, "reset": True}],
    "close-before-reply": [{"close_before_reply": True}],
    "overflow": [fault(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")],
    "spend": [fault(429, "rate_limit_error", "No more.", "enforced_spend_limit_reached")],
    "echo-request": [{"status": 400, "echo": True}],
}
SCENARIOS.update({f"form-{form}": [{"form": form, "thinking": "hm", "text": "Hm: so.", "calls": [RUN, READ]}, ANSWER]
                  for form in "anthropic llamacpp ollama bare".split()})
SCENARIOS.update({f"stream-error-{kind}": [{"text": "some text", "stream_error": kind}] for kind in (
    "overloaded_error", "api_error", "rate_limit_error", "timeout_error", "invalid_request_error", "json")})
SCENARIOS.update({f"http-{status}": [fault(status, kind)] for status, kind in (
    (400, "invalid_request_error"), (401, "authentication_error"), (402, "billing_error"), (403, "permission_error"),
    (404, "not_found_error"), (408, "timeout_error"), (409, "conflict_error"), (413, "request_too_large"),
    (429, "rate_limit_error"), (500, "api_error"), (504, "timeout_error"), (529, "overloaded_error"))})

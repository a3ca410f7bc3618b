"""Scenarios that are chosen by the model's name: a list of turns, indexed by the answers already in the history."""
import pathlib

HERE = pathlib.Path(__file__).parent
RUN = {"id": "a1", "name": "run_command", "arguments": '{"cmd":"ls"}'}
READ = {"id": "a2", "name": "read_file", "arguments": '{"path":"x"}'}
PARALLEL = [{"id": "call_AbC123", "name": "run_command", "arguments": '{"cmd":"echo hé"}'},
            {"id": "call_DeF456", "name": "read_file", "arguments": '{"path":"/etc/hosts"}'}]
ANSWER = {"text": "the results were: {results}"}
HTML = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


def call(*fragments, name="exec_command", index=0, call_id="c1"):
    """Deltas of one call whose argument fragments are exactly those given."""
    first = {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": fragments[0]}}
    return [{"tool_calls": [first]}] + [
        {"tool_calls": [{"index": index, "function": {"arguments": f}}]} for f in fragments[1:]]


def bare(function, **members):
    return {"tool_calls": [{**members, "function": function}]}


def fault(status, message, kind="invalid_request_error", code=None, **more):
    error = {"message": message, "type": kind, "param": None, "code": code}
    return {"status": status, "json": {"error": error}, **more}


# The forms of every server and the numbered quirks: each means the same two calls.
FORM_NAMES = ("ollama ollama-old llamacpp llamacpp-old vllm gemini gemini-array groq deepseek mistral gateway-index "
              "gateway-repeat gateway-blank gateway-late-name gateway-object q1 q2 q3 q4 q5 q6 q11").split()
SCENARIOS = {name: [{"form": name, "calls": [RUN, READ]}, ANSWER] for name in FORM_NAMES}
SCENARIOS.update({
    "gpt-4.1": [{"raw": (HERE / "parallel.sse").read_text("utf-8"), "calls": PARALLEL}, ANSWER],
    "text": [{"text": "hello"}],
    "echo": [{"text": "{user}"}],
    "mistral": [{"form": "mistral", "reasoning": "hm", "calls": [
        {**RUN, "id": "aaaaaaaa1"}, {**READ, "id": "aaaaaaaa2"}]}, ANSWER],
    "gemini": [{"form": "gemini", "calls": [{**RUN, "thought_signature": "sig1"},
                                            {**READ, "thought_signature": "sig2"}]}, ANSWER],
    "deepseek": [{"form": "deepseek", "reasoning": "hm", "calls": [RUN, READ]}, ANSWER],
    "vllm": [{"form": "vllm", "reasoning": "hm", "calls": [RUN, READ], "finish": "stop"}, ANSWER],
    "q7": [{"calls": [RUN, READ], "finish": "stop"}, ANSWER],
    "q8": [{"text": "cut", "no_finish": True}],
    "q9": [{"text": "some text", "stream_error": "object"}],
    "q10": [{"raw": ""}],
    # Faults that other clients had, as reported by their users.
    "f01": [{"text": "é漢😀"}],
    "f03": [{"deltas": call("", '{"cm', 'd":"ls"}')}, ANSWER],
    "f04-absent": [{"deltas": [bare({"name": "list_files"}, index=0, id="c1", type="function")]}, ANSWER],
    "f04-null": [{"deltas": call(None, name="list_files")}, ANSWER],
    "f04-empty": [{"deltas": call("", name="list_files")}, ANSWER],
    "f05": [{"deltas": call("", "{}", '""')}, ANSWER],
    "f06": [{"deltas": call('{"k":', "1}", name="x", call_id="a") + call("", name="y", call_id="b")
             + [bare({"arguments": '{"k":2}'}, index=1)]}, ANSWER],
    "f07": [{"deltas": call("") + [bare({"arguments": '{"a":1}'}, index=0, id="")]}, ANSWER],
    "f08": [{"deltas": call('{"a"', ":1}")}, ANSWER],
    "f09": [{"calls": [{"id": "c1", "name": "exec_command", "arguments": '{"cmd":"echo 1"}'},
                       {"id": "c2", "name": "exec_command", "arguments": '{"cmd":"echo 2"}'}]}, ANSWER],
    "f10-length": [{"deltas": call('{"path": "/a", "content": "hel', name="write_file"), "finish": "length"}, ANSWER],
    "f10-calls": [{"deltas": call('{"path": "/a", "content": "hel', name="write_file")}, ANSWER],
    "f11-empty": [{"calls": [{**RUN, "arguments": ""}]}, ANSWER],
    "f11-cut": [{"calls": [{**RUN, "fragments": ['{"cmd":"l']}]}, ANSWER],
    "f11-object": [{"form": "gateway-object", "calls": [RUN]}, ANSWER],
    "f43-64": [{"calls": [{"id": f"c{i}", "name": "exec_command", "arguments": f'{{"cmd":"echo {i}"}}'}
                          for i in range(64)]}, ANSWER],
    "f43-lone": [{"pieces": ["a\ud83db"]}],
    "f43-pair": [{"pieces": ["\ud83d", "\ude00"]}],
    "refusal": [{"refusal": "I cannot help with that."}],
    "length": [{"text": "and so", "finish": "length"}],
    "content-filter": [{"text": "", "finish": "content_filter"}],
    "no-usage": [{"text": "hello", "usage": None}],
    "comments": [{"text": "hello", "comments": True}],
    "keepalive": [{"text": "hello", "keepalive": True}],
    "split-data": [{"text": "hello", "split_data": True}],
    "crlf": [{"text": "hello", "newline": "\r\n"}],
    "cr": [{"text": "hello", "newline": "\r"}],
    "bom": [{"text": "hello", "bom": True}],
    "bytewise": [{"text": "é漢😀", "split": 1}],
    "no-done": [{"text": "hello", "no_done": True}],
    "html": [{"html": HTML}],
    "html-502": [{"status": 502, "html": HTML}],
    "empty": [{"length": True, "raw": ""}],
    "json-error-200": [fault(200, "the model crashed", "server_error")],
    "stall": [{"text": "hello", "stall_at": 20}],
    "stall-headers": [{"text": "hello", "stall_headers": True}],
    "drop": [{"text": "hello", "drop_at": 200}],
    "reset": [{"text": "hello", "drop_at": 200, "reset": True}],
    "close-before-reply": [{"close_before_reply": True}],
    "overflow": [fault(400, "This model's maximum context length is 8192 tokens. However, your messages resulted in "
                       "9000 tokens.", code="context_length_exceeded")],
    "overflow-llamacpp": [{"status": 400, "json": {"error": {
        "code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192,
        "message": "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it"}}}],
    "quota": [fault(429, "You exceeded your current quota, please check your plan and billing details.",
                    "insufficient_quota", "insufficient_quota")],
    "echo-request": [{"status": 400, "echo": True}],
})
SCENARIOS.update({f"http-{status}": [fault(status, f"status {status}", kind, code)] for status, kind, code in (
    (400, "invalid_request_error", None), (401, "invalid_request_error", "invalid_api_key"),
    (403, "invalid_request_error", None), (404, "invalid_request_error", "model_not_found"), (408, "timeout", None),
    (409, "conflict", None), (429, "requests", "rate_limit_exceeded"), (500, "server_error", None),
    (503, "server_error", None))})
SCENARIOS.update({f"stream-error-{kind}": [{"text": "some text", "stream_error": kind, "no_done": True}]
                  for kind in "object string event field finish json ollama".split()})

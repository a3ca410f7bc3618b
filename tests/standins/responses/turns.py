"""Scenarios that are chosen by the model's name: a list of turns, indexed by the answers already in the history."""
import pathlib

HERE = pathlib.Path(__file__).parent
RUN = {"id": "call_1", "name": "run_command", "arguments": '{"cmd":"ls"}'}
READ = {"id": "call_2", "name": "read_file", "arguments": '{"path":"x"}'}
EXAMPLE = [{"id": "rs_01", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA-done"},
           {"id": "fc_01", "type": "function_call", "status": "completed", "arguments": '{"cmd":"echo hé"}',
            "call_id": "call_AbC123", "name": "run_command"}]
ANSWER = {"text": "the results were: {results}"}
HTML = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


def fault(status, message, kind="invalid_request_error", code=None, **more):
    return {"status": status, "json": {"error": {"message": message, "type": kind, "param": None, "code": code}},
            **more}


SCENARIOS = {
    "gpt-5.6-sol": [{"raw": (HERE / "tool.sse").read_text("utf-8"), "output": EXAMPLE}, ANSWER],
    "text": [{"text": "hello"}],
    "echo": [{"text": "{user}"}],
    "phases": [{"text": "Let me look.", "phase": "commentary", "reasoning": "", "calls": [RUN]},
               {**ANSWER, "phase": "final_answer"}],
    "two-calls": [{"reasoning": "one\n\ntwo", "calls": [RUN, READ]}, ANSWER],
    "custom": [{"custom": [{"id": "call_1", "name": "patch", "input": "*** Begin"}]}, ANSWER],
    "thinking": [{"thinking": "hm", "text": "hello"}],
    "refusal": [{"refusal": "I cannot help with that."}],
    "length": [{"text": "and so", "incomplete": "max_output_tokens"}],
    "length-call": [{"calls": [{**RUN, "arguments": '{"cmd":"l'}], "incomplete": "max_output_tokens"}, ANSWER],
    "content-filter": [{"output": [], "incomplete": "content_filter"}],
    "reasoning-only": [{"reasoning": "hm"}],
    "empty-output": [{"text": "hello", "empty_output": True}],
    "no-terminal": [{"text": "hello", "no_terminal": True}],
    "no-usage": [{"text": "hello", "usage": None}],
    "few-counts": [{"text": "hello", "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}],
    "no-call-id": [{"calls": [{**RUN, "id": None}]}, ANSWER],
    "same-id": [{"calls": [RUN, {**READ, "id": "call_1"}]}, ANSWER],
    "no-arguments": [{"calls": [{**RUN, "arguments": ""}]}, ANSWER],
    "removed": [{"text": "hello", "transformations": [
        {"type": "reasoning", "id": "rs_09", "action": "removed", "reason": "model_mismatch"}]}],
    "unknown-items": [{"output": [{"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAA-c"},
                                  {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
                                   "content": [{"type": "output_text", "text": "hello", "annotations": []}]}]}],
    "comments": [{"text": "hello", "comments": True}],
    "split-data": [{"text": "hello", "split_data": True}],
    "crlf": [{"text": "hello", "newline": "\r\n"}],
    "cr": [{"text": "hello", "newline": "\r"}],
    "bom": [{"text": "hello", "bom": True}],
    "bytewise": [{"text": "é漢😀", "split": 1}],
    "no-names": [{"text": "hello", "no_names": True}],
    "done": [{"text": "hello", "done": True}],
    "obfuscation": [{"text": "hello", "obfuscation": True}],
    "lone": [{"pieces": ["a\ud83db"]}],
    "pair": [{"pieces": ["\ud83d", "\ude00"], "text": "😀"}],
    "empty": [{"length": True, "raw": ""}],
    "html": [{"html": HTML}],
    "html-502": [{"status": 502, "html": HTML}],
    "json-error-200": [fault(200, "the model crashed", "server_error")],
    "stall": [{"text": "hello", "stall_at": 20}],
    "stall-headers": [{"text": "hello", "stall_headers": True}],
    "drop": [{"text": "hello", "drop_at": 200}],
    "reset": [{"text": "hello", "drop_at": 200, "reset": True}],
    "close-before-reply": [{"close_before_reply": True}],
    "overflow": [fault(400, "Your input exceeds the context window of this model. Please adjust your input and try "
                       "again.", code="context_length_exceeded")],
    "quota": [fault(429, "You exceeded your current quota, please check your plan and billing details.",
                    "insufficient_quota", "insufficient_quota")],
    "stale-reasoning": [fault(400, "The encrypted content gAAA...done could not be verified.",
                              code="invalid_encrypted_content")],
    "echo-request": [{"status": 400, "echo": True}],
}
SCENARIOS.update({f"form-{form}": [{"form": form, "text": "Hm: so.", "calls": [RUN, READ]}, ANSWER]
                  for form in "openai llamacpp ollama sparse done-only other-ids".split()})
SCENARIOS.update({f"failed-{code}": [{"text": "some", "failed": code}] for code in (
    "server_error", "rate_limit_exceeded", "vector_store_timeout", "invalid_prompt", "bio_policy", "invalid_image",
    "something_new")})
SCENARIOS.update({f"stream-error-{kind}": [{"text": "some text", "stream_error": kind}]
                  for kind in "flat object json".split()})
SCENARIOS.update({f"http-{status}": [fault(status, f"status {status}", kind, code)] for status, kind, code in (
    (400, "invalid_request_error", None), (401, "invalid_request_error", "invalid_api_key"),
    (403, "invalid_request_error", None), (404, "invalid_request_error", "model_not_found"), (408, "timeout", None),
    (409, "conflict", None), (422, "invalid_request_error", None), (429, "requests", "rate_limit_exceeded"),
    (500, "server_error", None), (503, "server_error", None))})

"""What a client library hides: the stand-in's exact bytes, its breaks, its rules of other vendors."""
import http.client
import json
import pathlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ASK = [{"role": "user", "content": "hé"}]
CALL = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "done"}
REASONING = {"type": "reasoning", "summary": [], "encrypted_content": "x"}


def post(standin, body, path="/v1/responses", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", standin.port, timeout=120)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request("POST", path, raw, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def events(standin, model):
    body = post(standin, {"model": model, "input": ASK, "stream": True})[1].decode()
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]


def test_the_documented_example_is_byte_exact(responses):
    expected = (HERE / "../../standins/responses/tool.sse").read_bytes()
    assert post(responses, {"model": "gpt-5.6-sol", "input": ASK, "stream": True}) == (200, expected)
    assert len(expected) == 2925 and expected.count(b"obfuscation") == 2 and b"h\xc3\xa9" in expected


def test_numbers_and_order(responses):
    found = events(responses, "two-calls")
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert found[0]["type"] == "response.created" and found[-1]["type"] == "response.completed"
    assert {event["output_index"] for event in found if "output_index" in event} == {0, 1, 2}


def test_forms_lack_what_their_servers_lack(responses):
    llamacpp = events(responses, "form-llamacpp")
    assert not any({"sequence_number", "output_index", "content_index"} & set(event) for event in llamacpp)
    assert not any(event["type"].endswith("arguments.done") for event in llamacpp)
    sparse = events(responses, "form-sparse")
    assert sparse[-1]["response"]["output"] == [] and not any("item_id" in event for event in sparse)
    assert not any(event["type"].endswith(".delta") for event in events(responses, "form-done-only"))
    ids = {event["item_id"] for event in events(responses, "form-other-ids") if "item_id" in event}
    assert len(ids) > 4


def test_the_partial_reasoning_is_not_the_whole(responses):
    items = [event["item"]["encrypted_content"] for event in events(responses, "two-calls")
             if event.get("item", {}).get("type") == "reasoning"]
    assert items == ["gAAAA-partial", "gAAAA-done"]


REFUSED = [
    ("/deepseek/v1", ASK + [CALL, *ASK, RESULT], "insufficient tool messages"),
    ("/llamacpp/v1", ASK + [REASONING, CALL, RESULT], "item['content'] is not an array"),
    ("/llamacpp/v1", ASK + [CALL, {**RESULT, "output": [{"type": "input_image", "image_url": "data:"}]}], "of parts"),
    ("/v1", ASK + [CALL], "No tool output found for function call c1"),
    ("/v1", ASK + [CALL, RESULT, RESULT], "No tool call found"),
    ("/v1", ASK + [CALL, CALL, RESULT], "Duplicate function call"),
    ("/v1", ASK + [{**CALL, "tool": 1}, RESULT], "Unknown parameter: 'input[1].tool'"),
    ("/v1", ASK + [{**CALL, "arguments": {}}, RESULT], "strings"),
    ("/v1", ASK + [{"type": "item_reference", "id": "rs_1"}], "not persisted"),
    ("/v1", [{"role": "tool", "content": "x"}], "Supported values"),
    ("/v1", [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "supported types"),
    ("/v2", ASK, "Invalid URL"),
]


@pytest.mark.parametrize("base,items,text", REFUSED)
def test_what_is_refused(responses, base, items, text):
    status, body = post(responses, {"model": "m", "input": items, "store": False}, path=base + "/responses")
    assert status >= 400 and text in json.loads(body)["error"]["message"]


@pytest.mark.parametrize("vendor", ["llamacpp", "ollama", "vllm", "deepseek"])
def test_other_servers_have_no_custom_tools(responses, vendor):
    body = {"model": "m", "input": ASK, "tools": [{"type": "custom", "name": "patch"}]}
    status, answer = post(responses, body, path=f"/{vendor}/v1/responses")
    assert status == 400 and "'custom' tools are not supported" in json.loads(answer)["error"]["message"]


def test_a_scenario_cannot_call_what_was_not_declared(responses):
    status, answer = post(responses, {"model": "custom", "input": ASK})
    assert status == 400 and "no custom tool" in json.loads(answer)["error"]["message"]


def test_orders_that_are_fine(responses):
    other = {"call_id": "c2"}
    for items in (ASK + [CALL, *ASK, RESULT], ASK + [CALL, {**CALL, **other}, {**RESULT, **other}, RESULT], "plain"):
        assert post(responses, {"model": "m", "input": items})[0] == 200


def test_the_key_comes_back_when_the_request_is_quoted(responses):
    key = {"Authorization": "Bearer sk-quoted"}
    status, body = post(responses, {"model": "echo-request", "input": ASK}, headers=key)
    assert status == 400 and b"sk-quoted" in body


def test_turns_follow_the_history(responses):
    responses.control(model="agent", turns=[{"calls": [{"id": "c1", "name": "run", "arguments": {"cmd": "id"}}]},
                                            {"text": "it said {result}"}])
    assert events(responses, "agent")[2]["item"]["name"] == "run"
    body = post(responses, {"model": "agent", "input": ASK + [CALL, RESULT]})[1]
    assert b"it said done" in body

"""What a client library hides: the stand-in's exact bytes, its rules of other vendors, its headers."""
import http.client
import json
import pathlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
VERSION = {"anthropic-version": "2026-10-21"}
ASK = [{"role": "user", "content": "hé"}]


def post(standin, body, path="/v1/messages", headers=VERSION):
    connection = http.client.HTTPConnection("127.0.0.1", standin.port, timeout=120)
    try:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, raw, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def events(standin, model):
    body = post(standin, {"model": model, "max_tokens": 9, "messages": ASK, "stream": True})[1].decode()
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]


def test_the_documented_example_is_byte_exact(messages):
    expected = (HERE / "../../standins/messages/tool.sse").read_bytes()
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": ASK, "stream": True}
    assert post(messages, body) == (200, expected)
    assert len(expected) == 2391 and expected.endswith(b'data: {"type":"message_stop"}\n\n')
    assert "café 😀".encode() in expected


def test_forms_lack_what_their_servers_lack(messages):
    found = events(messages, "form-llamacpp")
    kinds = [event["type"] for event in found]
    assert kinds[-6:] == ["content_block_stop"] * 4 + ["message_delta", "message_stop"]
    assert "input" not in next(event["content_block"] for event in found
                               if event.get("content_block", {}).get("type") == "tool_use")
    assert not any(event.get("delta", {}).get("type") == "signature_delta" for event in found)
    bare = events(messages, "form-bare")
    assert {event["index"] for event in bare if "index" in event} == {0} and bare[0]["type"] == "content_block_start"


@pytest.mark.parametrize("headers,text", [({}, "header is required"),
                                          ({"anthropic-version": "2020-01-01"}, "not a valid version")])
def test_the_version_is_demanded(messages, headers, text):
    status, body = post(messages, {"model": "text", "max_tokens": 9, "messages": ASK}, headers=headers)
    assert status == 400 and text in json.loads(body)["error"]["message"]


def test_errors_have_their_form(messages):
    status, body = post(messages, {"model": "text", "messages": ASK})
    said = json.loads(body)
    assert status == 400 and said["request_id"].startswith("req_") and said["type"] == "error"
    assert said["error"] == {"type": "invalid_request_error", "message": "max_tokens: Field required"}


def test_the_key_of_x_api_key_wins(messages):
    messages.control(key="right")
    body = {"model": "text", "max_tokens": 9, "messages": ASK}
    for headers, status in (({"x-api-key": "right", "authorization": "Bearer wrong"}, 200),
                            ({"x-api-key": "wrong", "authorization": "Bearer right"}, 401),
                            ({"authorization": "Bearer right"}, 200), ({}, 401)):
        assert post(messages, body, headers={**VERSION, **headers})[0] == status


@pytest.mark.parametrize("part,text", [({"type": "string", "format": "uuid"}, None), ({"anyOf": [{"enum": [1]}]}, None),
                                       ({"type": "integer", "minimum": 1}, "'minimum' is not supported"),
                                       ({"type": "object"}, "must be explicitly set to false"),
                                       ({"items": {"format": "regex"}}, "'format' is not supported")])
def test_schemas_of_answers_are_judged(messages, part, text):
    answer = {"type": "object", "properties": {"n": part}, "required": ["n"], "additionalProperties": False}
    body = {"model": "text", "max_tokens": 9, "messages": ASK,
            "output_config": {"format": {"type": "json_schema", "schema": answer}}}
    status, why = post(messages, body)
    assert (status, text is None or text in json.loads(why)["error"]["message"]) == (400 if text else 200, True)


CALL = {"type": "tool_use", "id": "c1", "name": "run", "input": {}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "done"}]}


def test_rules_of_other_vendors(messages):
    body = {"model": "m", "max_tokens": 9, "messages": ASK + [{"role": "assistant", "content": [CALL]}, RESULT]}
    assert post(messages, body)[0] == 200
    status, why = post(messages, body, path="/deepseek/v1/messages")
    assert status == 400 and b"must be passed back" in why
    odd = {**body, "repeat_penalty": 1.1}
    assert post(messages, odd)[0] == 400 and post(messages, odd, path="/llamacpp/v1/messages")[0] == 200


def test_turns_follow_the_history(messages):
    messages.control(model="agent", turns=[{"calls": [{"id": "c1", "name": "run", "arguments": {"cmd": "id"}}]},
                                           {"text": "it said {result}"}])
    assert events(messages, "agent")[1]["content_block"]["name"] == "run"
    made = {"role": "assistant", "content": [CALL]}
    body = post(messages, {"model": "agent", "max_tokens": 9, "messages": ASK + [made, RESULT]})[1]
    assert b"it said done" in body

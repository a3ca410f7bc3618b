"""What a client library hides: the stand-in's exact bytes, its breaks, its rules of other vendors."""
import json
import pathlib
import socket
import ssl
import subprocess

import pytest
from standin import Standin

HERE = pathlib.Path(__file__).resolve().parent
ASK = [{"role": "user", "content": "hé"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
ASSISTANT = {"role": "assistant", "content": "", "tool_calls": [CALL]}
CUT = {**ASSISTANT, "tool_calls": [{**CALL, "function": {"name": "run", "arguments": '{"a":'}}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "done"}


def receive(connection):
    data = b""
    try:
        while part := connection.recv(65536):
            data += part
    except ConnectionResetError:
        data += b"<reset>"
    return data


def request(body, path="/v1/chat/completions", headers=""):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{headers}"
            f"Content-Length: {len(raw)}\r\n\r\n").encode() + raw


def dechunk(data):
    out = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        if int(size, 16) == 0:
            return out, True
        out, data = out + data[:int(size, 16)], data[int(size, 16) + 2:]
    return out, False


def post(standin, body, **more):
    """Status, body, and whether the body came to its proper end."""
    with socket.create_connection(("127.0.0.1", standin.port), timeout=120) as connection:
        connection.sendall(request(body, **more))
        connection.shutdown(socket.SHUT_WR)
        head, _, rest = receive(connection).partition(b"\r\n\r\n")
    status = int(head.split()[1]) if head else 0
    if b"Transfer-Encoding: chunked" in head:
        return status, *dechunk(rest.removesuffix(b"<reset>"))
    return status, rest, True


def stream(standin, model="m", messages=ASK, **more):
    body = {"model": model, "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
    return post(standin, body, **more)


def deltas(text):
    """The tool call fragments of a stream, and its finish reasons."""
    found, ends = [], []
    for line in text.decode().splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:]).get("choices", []):
                found += choice["delta"].get("tool_calls", [])
                ends += [choice["finish_reason"]] if choice.get("finish_reason") else []
    return found, ends


def test_two_parallel_calls_are_byte_exact(chat):
    expected = (HERE / "../../standins/chat/parallel.sse").read_bytes()
    status, body, whole = stream(chat, "gpt-4.1")
    assert (status, body, whole) == (200, expected, True)
    assert len(expected) == 2345 and expected.endswith(b"\n\ndata: [DONE]\n\n")


@pytest.mark.parametrize("model", "q1 q2 q4 q5 q11 ollama ollama-old gemini gemini-array groq mistral".split())
def test_every_form_names_both_calls(chat, model):
    found, ends = deltas(stream(chat, model)[1])
    names = {call["function"].get("name") for call in found} - {None, ""}
    assert names == {"run_command", "read_file"} and ends == ["tool_calls"]


def test_quirks_are_those_described(chat):
    q1 = deltas(stream(chat, "q1")[1])[0]
    assert q1[0] == {"id": "a1", "type": "function", "function": {"name": "run_command", "arguments": '{"cmd":"ls"}'}}
    assert [call["index"] for call in deltas(stream(chat, "q2")[1])[0]] == [0, 0]
    q3 = deltas(stream(chat, "q3")[1])[0]
    assert q3[0]["function"]["arguments"] == "{" and q3[1] == {"index": 0, "function": {"arguments": '"cmd":"ls"}'}}
    q4 = deltas(stream(chat, "q4")[1])[0]
    assert all(call["id"] and call["function"]["name"] for call in q4) and len(q4) > 2
    q5 = deltas(stream(chat, "q5")[1])[0]
    assert (q5[1]["id"], q5[1]["function"]["name"]) == ("", "")
    q6 = deltas(stream(chat, "q6")[1])[0]
    assert q6[:2] == [{"index": 0, "id": "a1", "function": {"arguments": '{"cmd"'}},
                      {"index": 0, "function": {"name": "run_command", "arguments": ':"ls"}'}}]
    assert deltas(stream(chat, "q7")[1])[1] == ["stop"]
    q8 = stream(chat, "q8")
    assert q8[2] and b"cut" in q8[1] and b"[DONE]" not in q8[1] and deltas(q8[1])[1] == []
    q9 = stream(chat, "q9")[1].split(b"\n\n")
    assert len(q9) == 4 and json.loads(q9[2][6:])["error"]["code"] == 500
    assert stream(chat, "q10") == (200, b"", True)
    assert [call["id"] for call in deltas(stream(chat, "q11")[1])[0]] == ["a1", "a1"]
    assert [call["function"]["arguments"] for call in deltas(stream(chat, "gateway-object")[1])[0]] == [
        {"cmd": "ls"}, {"path": "x"}]


def test_a_drop_comes_at_the_byte(chat):
    for at in (0, 1, 77):
        chat.queue({"text": "hello", "drop_at": at})
        status, body, whole = stream(chat)
        assert (status, len(body), whole) == (200, at, False)
    chat.wait(requests=3, aborted=3)


def test_a_reset_is_a_reset(chat):
    chat.queue({"text": "hello", "drop_at": 10, "reset": True})
    with socket.create_connection(("127.0.0.1", chat.port), timeout=120) as connection:
        connection.sendall(request({"model": "m", "messages": ASK, "stream": True}))
        assert receive(connection).endswith(b"<reset>")


def test_framing_switches(chat):
    def sent(**switches):
        chat.queue({"text": "hello", **switches})
        return stream(chat)[1]

    plain = sent()
    assert sent(newline="\r\n") == plain.replace(b"\n", b"\r\n")
    assert sent(newline="\r") == plain.replace(b"\n", b"\r")
    assert sent(bom=True) == b"\xef\xbb\xbf" + plain
    assert sent(split=1) == plain
    assert sent(comments=True).replace(b": keep-alive\n\n", b"") == plain


def test_a_stall_ends_when_told(chat):
    chat.queue({"text": "hello", "stall_at": 5})
    with socket.create_connection(("127.0.0.1", chat.port), timeout=120) as connection:
        connection.sendall(request({"model": "m", "messages": ASK, "stream": True}))
        chat.wait(requests=1)
        chat.control(release=True)
        connection.shutdown(socket.SHUT_WR)
        data = receive(connection)
    assert data.endswith(b"0\r\n\r\n") or b"[DONE]" not in data


def test_peer_that_leaves_a_stall_is_seen(chat):
    chat.queue({"text": "hello", "stall_at": 5})
    with socket.create_connection(("127.0.0.1", chat.port), timeout=120) as connection:
        connection.sendall(request({"model": "m", "messages": ASK, "stream": True}))
        chat.wait(requests=1)
    chat.wait(requests=1, aborted=1)
    assert chat.requests()[0]["aborted"]


def test_a_request_on_a_dying_reused_connection_is_recorded(chat):
    chat.queue({"text": "one", "length": True}, {"close_before_reply": True})
    with socket.create_connection(("127.0.0.1", chat.port), timeout=120) as connection:
        body = {"model": "m", "messages": ASK}
        connection.sendall(request(body))
        answer = b""
        while b"one" not in answer:
            part = connection.recv(65536)
            assert part
            answer += part
        connection.sendall(request(body))
        receive(connection)
    first, second = chat.requests()
    assert first["connection"] == second["connection"] and second["on_connection"] == 1


def test_the_key_comes_back_when_the_request_is_quoted(chat):
    status, body, _ = stream(chat, "echo-request", headers="Authorization: Bearer sk-quoted-key\r\n")
    assert status == 400 and b"sk-quoted-key" in body


def test_turns_follow_the_history(chat):
    chat.control(model="agent", turns=[{"calls": [{"id": "c1", "name": "run", "arguments": {"cmd": "id"}}]},
                                       {"text": "it said {result}"}])
    assert deltas(stream(chat, "agent")[1])[0][0]["function"]["name"] == "run"
    assert b"it said done" in stream(chat, "agent", ASK + [ASSISTANT, RESULT])[1]


REFUSED = [
    ("/v1", ASK + [ASSISTANT], "did not have response messages: c1"),
    ("/v1", ASK + [ASSISTANT, *ASK, RESULT], "did not have response messages: c1"),
    ("/v1", ASK + [RESULT], "preceeding message with 'tool_calls'"),
    ("/v1", ASK + [ASSISTANT, RESULT, RESULT], "preceeding message with 'tool_calls'"),
    ("/v1", [{"role": "user", "content": None}], "expected a string, got null"),
    ("/v1", ASK + [{"role": "assistant", "content": None}], "expected a string, got null"),
    ("/v1", ASK + [{"role": "assistant", "content": "", "tool_calls": []}], "[] is too short"),
    ("/v1", [], "[] is too short"),
    ("/v1", ASK + [{"role": "assistant", "content": "", "reasoning_content": "x"}], "Unknown parameter"),
    ("/deepseek/v1", ASK + [{**ASSISTANT, "reasoning_content": ""}], "insufficient tool messages"),
    ("/deepseek/v1", ASK + [ASSISTANT, RESULT], "Missing `reasoning_content`"),
    ("/mistral/v1", ASK + [ASSISTANT, RESULT], "Tool call id was c1 but must be"),
    ("/gemini/v1", ASK + [ASSISTANT, RESULT], "thought_signature"),
    ("/llamacpp/v1", ASK + [{"role": "system", "content": "x"}], "must be at the beginning"),
    ("/ollama/v1", ASK + [{"role": "assistant", "content": None}], "<nil>"),
    ("/ollama/v1", ASK + [CUT, RESULT], "invalid tool call arguments"),
    ("/llamacpp/v1", ASK + [CUT, RESULT], "Failed to parse tool call arguments as JSON"),
    ("/v2", ASK, "Invalid URL"),
]


@pytest.mark.parametrize("base,messages,text", REFUSED)
def test_what_is_refused(chat, base, messages, text):
    status, body, _ = post(chat, {"model": "m", "messages": messages}, path=base + "/chat/completions")
    assert status >= 400 and text in json.loads(body)["error"]["message"]


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"model":"m"', b'{"model":"\xff","messages":[]}',
                                 b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}'])
def test_bodies_that_are_not_utf8_json_are_refused(chat, raw):
    status, body, _ = post(chat, raw)
    assert status == 400 and b"could not parse" in body


def test_tools_with_reasoning_are_refused_for_new_models(chat):
    tools = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
    body = {"model": "gpt-5.4", "messages": ASK, "tools": tools}
    assert b"use /v1/responses or set reasoning_effort to 'none'" in post(chat, body)[1]
    assert post(chat, {**body, "reasoning_effort": "none"})[0] == 200


def test_tls(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    with Standin("chat", "--tls", str(cert), str(key)) as standin:
        context = ssl.create_default_context(cafile=str(cert))
        with socket.create_connection(("127.0.0.1", standin.port), timeout=120) as plain, \
                context.wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(request({"model": "text", "messages": ASK}, headers="Connection: close\r\n"))
            assert b"200 OK" in connection.recv(65536)
        with socket.create_connection(("127.0.0.1", standin.port), timeout=120) as plain:
            with pytest.raises(ssl.SSLCertVerificationError):
                ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
        assert len(standin.requests()) == 1

"""A real model on this machine: examples/local-model.sh, alone and under `waldo run`."""
import json
import os
import pathlib
import secrets
import subprocess
import urllib.error
import urllib.request

import pytest
from recorder import Recorder

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "examples" / "local-model.sh"
WALDO = pathlib.Path(os.environ.get("WALDO_BUILD", ROOT / "build")) / "examples" / "cli" / "waldo"
TOOL = {"type": "function", "function": {
    "name": "exec_command", "description": "Run a shell command.",
    "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"],
                   "additionalProperties": False}}}


def local_model(state, action, check=True):
    # The output goes to a file: a pipe would stay open for as long as the server lives.
    with open(f"{state}.out", "w+") as out:
        done = subprocess.run(["sh", SCRIPT, "--state", state, action], stdout=out, timeout=600)
        out.seek(0)
        text = out.read()
    assert not check or done.returncode == 0, f"local-model.sh {action} failed, see above"
    return text


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The base URL of a server of this test's own; a server that does not start is a failure."""
    state = tmp_path_factory.mktemp("local-model") / "server"
    url, _ = local_model(state, "start").split()
    yield url
    local_model(state, "stop")


def chat(url, messages, **more):
    body = {"model": "smollm2-135m", "messages": messages, "temperature": 0, "tools": [TOOL], **more}
    request = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as response:
        return response.read().decode()


def tool_calls(stream):
    """The calls of a streamed reply, joined by index."""
    calls = {}
    for line in stream.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:]).get("choices", []):
            for part in choice["delta"].get("tool_calls") or []:
                call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                call["id"] = call["id"] or part.get("id", "")
                call["name"] = call["name"] or part["function"].get("name", "")
                call["arguments"] += part["function"].get("arguments", "")
    return [calls[index] for index in sorted(calls)]


def test_a_running_server_is_used_again_and_ends(tmp_path):
    state = tmp_path / "server"
    first = local_model(state, "start")
    try:
        assert local_model(state, "start") == first == local_model(state, "status")
    finally:
        local_model(state, "stop")
    pid = int(first.split()[1])
    left = pathlib.Path(f"/proc/{pid}/cmdline")
    assert not left.exists() or left.read_bytes() == b""  # gone, or waiting to be reaped by init
    assert local_model(state, "status", check=False) == ""
    local_model(state, "stop")


def test_stop_does_not_touch_a_process_that_is_not_the_server(tmp_path):
    state = tmp_path / "server"
    other = subprocess.Popen(["sleep", "60"])
    try:
        state.write_text(f"http://127.0.0.1:1/v1 {other.pid}\n")
        local_model(state, "stop")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_the_model_calls_a_tool_when_it_must_and_then_answers(server):
    asked = [{"role": "user", "content": "Run the command: echo hello-waldo"}]
    for choice in ("required", "auto"):
        stream = chat(server, asked, tool_choice=choice, stream=True)
        call, = tool_calls(stream)
        assert call["name"] == "exec_command" and call["id"]
        assert json.loads(call["arguments"]) == {"cmd": "echo hello-waldo"}
        assert '"finish_reason":"tool_calls"' in stream and stream.endswith("data: [DONE]\n\n")
    history = asked + [
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": call["id"], "type": "function",
             "function": {"name": call["name"], "arguments": call["arguments"]}}]},
        {"role": "tool", "tool_call_id": call["id"], "content": "hello-waldo\n"}]
    answer = json.loads(chat(server, history))["choices"][0]
    assert answer["finish_reason"] == "stop" and "hello-waldo" in answer["message"]["content"]


def refusal(url, messages, **more):
    with pytest.raises(urllib.error.HTTPError) as caught:
        chat(url, messages, **more)
    with caught.value as answer:
        return answer.code, json.loads(answer.read())["error"]


def test_what_the_stand_in_says_of_llama_cpp_is_so(server):
    """The adapter's rules for this server were written from these answers."""
    status, error = refusal(server, [{"role": "user", "content": "word " * 9000}])
    assert (status, error["type"], error["n_ctx"]) == (400, "exceed_context_size_error", 8192)
    assert error["n_prompt_tokens"] > 9000 and "exceeds the available context size" in error["message"]

    cut = {"id": "c1", "type": "function", "function": {"name": "exec_command", "arguments": '{"cmd":'}}
    status, error = refusal(server, [{"role": "user", "content": "x"},
                                     {"role": "assistant", "content": "", "tool_calls": [cut]},
                                     {"role": "tool", "tool_call_id": "c1", "content": "x"}])
    assert status == 500 and "Failed to parse tool call arguments as JSON" in error["message"]

    status, error = refusal(server, [{"role": "user", "content": "x"}], tool_choice="sometimes")
    assert status == 400 and "tool_choice" in error["message"]


def events(stream):
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]


def chat_call(stream):
    call = tool_calls(stream)[0]
    return call["id"], call["name"], call["arguments"]


def responses_call(stream):
    call = next(event["item"] for event in events(stream)
                if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call")
    return call["call_id"], call["name"], call["arguments"]


def messages_call(stream):
    at, block = next((event["index"], event["content_block"]) for event in events(stream)
                     if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use")
    parts = [event["delta"]["partial_json"] for event in events(stream)
             if event["type"] == "content_block_delta" and event["index"] == at]
    return block["id"], block["name"], "".join(parts)


def chat_results(body):
    return [(message["tool_call_id"], message["content"]) for message in body["messages"] if message["role"] == "tool"]


def responses_results(body):
    return [(item["call_id"], item["output"]) for item in body["input"] if item.get("type") == "function_call_output"]


def messages_results(body):
    blocks = [block for message in body["messages"] if isinstance(message["content"], list)
              for block in message["content"] if block["type"] == "tool_result"]
    return [(block["tool_use_id"], json.dumps(block["content"])) for block in blocks]


# Of each API (this server offers all): path, list of what was said, how a call is demanded, how to read it.
APIS = {
    "chat": ("/chat/completions", "messages", "required", chat_call, chat_results),
    "openai": ("/responses", "input", "required", responses_call, responses_results),
    "anthropic": ("/messages", "messages", {"type": "any"}, messages_call, messages_results),
}


@pytest.mark.parametrize("api", APIS)
def test_waldo_runs_what_the_model_asks_for(server, tmp_path, api):
    """The call is valid, runs in the sandbox, and its output is in request 2."""
    path, said, demand, call_of, results_of = APIS[api]
    token = secrets.token_hex(16)
    work = tmp_path / "work"
    work.mkdir()
    (work / "token.txt").write_text(token + "\n")
    # The model must copy the command; the namespace's number tells where it ran.
    prompt = "Run the command: cat token.txt && readlink /proc/self/ns/mnt"
    with Recorder(server) as recorder:
        done = subprocess.run(
            [WALDO, "run", "-m", f"{api}:{recorder.url}#smollm2-135m", "-s", "local:", "-w", work,
             "--temperature", "0", "--tool-choice", "required", "--max-output", "256", prompt],
            capture_output=True, text=True, timeout=600, env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)})
    # A model this small may not find the end of its sentence.
    assert done.returncode in (0, 3), done.stderr
    exchanges = [exchange for exchange in recorder.exchanges if exchange[1].endswith(path)]
    assert len(exchanges) >= 2, done.stderr
    first, second = (json.loads(exchange[2]) for exchange in exchanges[:2])
    assert first["tool_choice"] == demand and first["temperature"] == 0

    call_id, name, arguments = call_of(exchanges[0][3].decode())
    assert name == "exec_command" and "token.txt" in json.loads(arguments)["cmd"]
    assert token not in exchanges[0][2].decode(), "the token was told before it was read"

    result_id, result = results_of(second)[0]
    assert result_id == call_id and token in result
    assert "mnt:[" in result and os.readlink("/proc/self/ns/mnt") not in result
    assert second[said][:len(first[said])] == first[said]

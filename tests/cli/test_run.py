"""`waldo run` against the stand-in model server and a local sandbox."""
import json
import os
import re
import socket
import subprocess

import pytest
from program import ROOT, Sleep, call

EVENTS = {row for row in re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/events.md").read_text().split("## Items")[0],
                                    re.M)} | {"end"}


def lines(done):
    """The objects of --json: each line is one, of a type that is documented, with a string for its text."""
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.stdout == "" or done.stdout.endswith("\n")
    for event in found:
        assert event["type"] in EVENTS, event
        assert isinstance(event.get("text", ""), str)
    return found


def test_the_answer_and_nothing_else_is_on_stdout(agent, chat):
    chat.queue(call(cmd="echo from-$((40 + 2)); readlink /proc/self/ns/pid"), {"text": "it said: {result}"})
    done = agent("run", "say it")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("it said: ") and "from-42" in done.stdout and done.stdout.endswith("\n")
    assert os.readlink("/proc/self/ns/pid") not in done.stdout
    assert "> exec_command" in done.stderr and "\033" not in done.stderr + done.stdout


def test_quiet_shows_no_progress(agent, chat):
    chat.queue(call(cmd="true"), {"text": "done"})
    done = agent("run", "-q", "x")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_an_answer_that_ends_its_line_gets_no_second_end(agent, chat):
    chat.queue({"text": "one\n"})
    assert agent("run", "x").stdout == "one\n"


@pytest.mark.parametrize("prompt", ["it's $HOME, \"quoted\" `id`", "-m --json", "a\nb\tc", "é漢😀"])
def test_a_prompt_arrives_as_it_was_given(agent, chat, prompt):
    chat.queue({"text": "ok"}, {"text": "ok"})
    for done in (agent("run", "--", prompt), agent("run", "-", input=prompt)):
        assert done.returncode == 0, done.stderr
    for request in chat.requests():
        users = [message for message in request["json"]["messages"] if message["role"] == "user"]
        assert users[-1]["content"] == prompt


def test_options_may_stand_behind_the_prompt(agent, chat):
    chat.queue({"text": "ok"})
    assert agent("run", "hello", "--instructions", "be brief", "--temperature", "0").returncode == 0
    request = chat.requests()[0]["json"]
    assert request["temperature"] == 0 and "be brief" in json.dumps(request["messages"][0])


def test_an_answer_can_be_bounded(agent, chat):
    chat.queue({"text": "and so", "finish": "length"})
    done = agent("run", "--max-output", "7", "x")
    assert done.returncode == 3 and "output limit" in done.stderr
    request = chat.requests()[0]["json"]
    assert 7 in (request.get("max_tokens"), request.get("max_completion_tokens"))
    assert agent("run", "--max-output", "0", "x").returncode == 2 and len(chat.requests()) == 1


@pytest.mark.parametrize("prompt", [b"\xff", b"caf\xe9", b"\xed\xa0\x80"])
def test_a_prompt_that_is_not_utf8_is_refused_before_any_request(agent, chat, prompt):
    for done in (agent("run", prompt), agent("run", "-", input=prompt, text=False)):
        assert done.returncode == 2 and "UTF-8" in str(done.stderr)
    assert chat.requests() == []


def test_stdin_with_a_nul_byte_is_refused(agent, chat):
    done = agent("run", "-", input=b"a\0b", text=False)
    assert done.returncode == 2 and b"NUL" in done.stderr and chat.requests() == []


def test_a_limit_has_its_own_code(agent, chat):
    chat.queue(*[call(cmd="true")] * 4)
    done = agent("run", "--max-turns", "2", "x")
    assert done.returncode == 3 and "turn" in done.stderr, done.stderr
    assert len(chat.requests()) == 2


def test_a_limit_of_time(agent, chat):
    sleep = Sleep()
    chat.queue(call(cmd=sleep.words))
    done = agent("run", "--max-time", "0.5", "x")
    assert done.returncode == 3, done.stderr
    sleep.wait(0)


def test_where_nobody_can_be_asked_nothing_is_run(agent, chat, tmp_path):
    chat.queue(call(cmd="touch made"))
    (tmp_path / "work").mkdir()
    done = agent("run", "--approve", "ask", "-w", tmp_path / "work", "--mode", "rw", "x")
    assert done.returncode == 4 and "approval" in done.stderr, done.stderr
    assert list((tmp_path / "work").iterdir()) == []


def test_calls_that_only_read_are_not_asked_about(agent, chat):
    chat.queue(call("ls", path="."), {"text": "done"})
    done = agent("run", "--approve", "ask", "x")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("approve", ["never", "always"])
def test_calls_run_when_nothing_is_asked(agent, chat, approve):
    chat.queue(call(cmd="echo made"), {"text": "{result}"})
    done = agent("run", "--approve", approve, "x")
    assert done.returncode == 0 and "made" in done.stdout, done.stderr


def test_tool_choice_and_environment_are_passed_on(agent, chat):
    chat.queue(call(cmd="echo $WHAT"), {"text": "{result}"})
    done = agent("run", "--tool-choice", "required", "--env", "WHAT=that and this", "x")
    assert done.returncode == 0 and "that and this" in done.stdout, done.stderr
    assert chat.requests()[0]["json"]["tool_choice"] == "required"


# ---- --json ----

def test_json_is_pure(agent, chat):
    chat.queue(call(cmd="printf 'a\\377b'; echo wrong >&2"), {"text": "done"})
    done = agent("run", "--json", "x")
    assert done.returncode == 0, done.stderr
    events = lines(done)
    types = [event["type"] for event in events]
    assert {"text", "item", "tool_call", "tool_result", "state", "end"} <= set(types) and types[-1] == "end"
    assert events[-1]["exit_code"] == 0 and events[-1]["status"] == "WALDO_OK"
    asked = next(event for event in events if event["type"] == "tool_call")
    result = next(event for event in events if event["type"] == "tool_result")
    assert asked["tool"] == "exec_command" and asked["call_id"] == result["call_id"]
    assert "a\ufffdb" in result["text"] and "wrong" in result["text"]


@pytest.mark.parametrize("reply,code,status,http", [
    ({"status": 401, "json": {"error": {"message": "wrong key", "code": "invalid_api_key"}}}, 5, "WALDO_EAUTH", 401),
    ({"status": 404, "json": {"error": {"message": "gone", "code": "model_not_found"}}}, 5, "WALDO_ENOTFOUND", 404),
    ({"status": 400, "json": {"error": {"message": "odd"}}}, 1, "WALDO_EINVAL", 400)])
def test_json_says_how_it_ended(agent, chat, reply, code, status, http):
    chat.queue(*[reply] * 8)
    done = agent("run", "--json", "x")
    assert done.returncode == code
    end = lines(done)[-1]
    assert (end["type"], end["exit_code"], end["status"], end["http_status"]) == ("end", code, status, http)
    assert end["message"]


# ---- what a server may do ----

BROKEN = {
    "401": ({"status": 401, "json": {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}}, 5, "key"),
    "404": ({"status": 404, "json": {"error": {"message": "no such model", "code": "model_not_found"}}}, 5, "model"),
    "500": ({"status": 500, "json": {"error": {"message": "it crashed"}}}, 5, "crashed"),
    "html": ({"status": 200, "html": "<html>sign in</html>", "content_type": "text/html"}, 1, ""),
    "html-502": ({"status": 502, "html": "<html>Bad Gateway</html>"}, 5, "502"),
    "truncated": ({"text": "half an", "no_finish": True}, 1, "end"),
    "error-in-stream": ({"text": "some text", "stream_error": "object"}, 5, "crashed"),
    "json-cut": ({"text": "some text", "stream_error": "json"}, 1, ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_server_that_fails_is_named(agent, chat, name):
    reply, code, says = BROKEN[name]
    chat.queue(*[{**reply, "headers": {"Retry-After": "0"}}] * 8)
    done = agent("run", "--key", "MY_KEY", "x", env={"MY_KEY": "sk-not-to-be-shown"})
    assert done.returncode == code, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("waldo: ") and says in last, done.stderr
    assert "sk-not-to-be-shown" not in done.stdout + done.stderr


def test_a_rate_limit_is_waited_for_and_told(agent, chat):
    limit = {"status": 429, "json": {"error": {"message": "slow down", "code": "rate_limit_exceeded"}},
             "headers": {"Retry-After": "0"}}
    chat.queue(limit, {"text": "at last"})
    done = agent("run", "x")
    assert (done.returncode, done.stdout) == (0, "at last\n") and "! " in done.stderr, done.stderr
    chat.queue(*[limit] * 8)
    done = agent("run", "x")
    assert done.returncode == 5, done.stderr


def test_an_unreachable_server(agent):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        agent.args = ("-m", f"chat:http://127.0.0.1:{closed.getsockname()[1]}/v1#none", "-s", "local:")
        done = agent("run", "x")
    assert done.returncode == 5 and "connect" in done.stderr, done.stderr


def test_a_server_cannot_drive_the_terminal_through_an_error(agent, chat):
    chat.queue(*[{"status": 400, "json": {"error": {"message": "\033[2J\u009b2J"}}}] * 4)
    with agent.terminal("run", "x") as terminal:
        assert terminal.end() == 1
    assert b"\033[2J" not in terminal.shown and b"\xc2\x9b" not in terminal.shown


# ---- what the machine may lack ----

def test_without_bubblewrap_it_says_so(agent, chat):
    chat.queue(call(cmd="true"), {"text": "done"})
    done = agent("run", "x", env={"PATH": "/nonexistent"})
    if done.returncode == 0:  # the model is told, and may answer
        results = [m["content"] for m in chat.requests()[1]["json"]["messages"] if m["role"] == "tool"]
        assert "bubblewrap" in str(results) or "bwrap" in str(results)
    else:
        assert done.returncode == 5 and "bubblewrap" in done.stderr


def test_output_that_cannot_be_written_ends_the_run(agent, chat):
    chat.queue({"text": "much"})
    with open("/dev/full", "w") as full:
        done = agent("run", "x", stdout=full)
    assert done.returncode == 1 and "No space left" in done.stderr, done.stderr


def test_a_closed_pipe_ends_the_run_and_its_commands(agent, chat):
    sleep = Sleep()
    chat.queue({"text": "first", "calls": call(cmd=sleep.words)["calls"]})
    read, write = os.pipe()
    process = agent.start("run", "x", stdout=write)
    os.close(write)
    os.close(read)
    assert process.wait(timeout=120) == 1
    process.stderr.close()
    sleep.wait(0)


def test_a_key_of_a_vendor_goes_to_no_other_server(agent, chat):
    chat.queue({"text": "ok"})
    assert agent("run", "x", env={"OPENAI_API_KEY": "sk-0123456789abcdef"}).returncode == 0
    assert "authorization" not in chat.requests()[0]["headers"]


def test_the_key_reaches_the_server_and_nothing_else(agent, chat):
    key = "sk-0123456789abcdef"
    chat.queue(call(cmd="env; tr '\\0' '\\n' </proc/1/environ"), {"text": "{result}"})
    done = agent("run", "-v", "--key", "MY_KEY", "x", env={"MY_KEY": key})
    assert done.returncode == 0, done.stderr
    assert chat.requests()[0]["headers"]["authorization"] == f"Bearer {key}"
    assert key not in done.stdout + done.stderr + "".join(request["body"] for request in chat.requests())


def test_closed_descriptors_do_no_harm(agent, chat):
    chat.queue(call(cmd="echo fine"), {"text": "{result}"})
    command = [str(word) for word in agent.command("run", "x")]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True,
                          env=agent.env, timeout=120)
    assert done.returncode == 0 and "fine" in done.stdout, done.stderr


PRICES = '{"models":[{"match":"chat:*","input":1000000,"output":2000000}]}'


def test_usage_is_told_at_the_end(agent, chat, tmp_path):
    (tmp_path / "facts").write_text(PRICES)
    chat.queue({"text": "done"}, {"text": "done"})
    assert agent("run", "x").stderr.splitlines()[-1] == "= 280 tokens in, 41 out"
    done = agent("run", "--facts", tmp_path / "facts", "x")
    assert done.stderr.splitlines()[-1] == "= 280 tokens in, 41 out, cost 0.000362"


def test_a_limit_of_money(agent, chat, tmp_path):
    (tmp_path / "facts").write_text(PRICES)
    chat.queue(*[call(cmd="true")] * 4)
    done = agent("run", "--facts", tmp_path / "facts", "--max-cost", "0.0009", "x")
    assert done.returncode == 3 and "max_cost" in done.stderr, done.stderr
    assert len(chat.requests()) == 2
    done = agent("run", "--max-cost", "1", "x")
    assert done.returncode == 2 and "no prices are known of model chat:" in done.stderr
    assert len(chat.requests()) == 2


def test_a_limit_of_money_with_the_built_in_prices(agent):
    for model, says, code in (("openai:gpt-6.2-sol", "max_cost", 3), ("anthropic:claude-opus-5-5", "max_cost", 3),
                              ("openai:gpt-1", "no prices are known of model openai:gpt-1", 2)):
        agent.args = ("-m", model, "-s", "local:")
        done = agent("run", "--max-cost", "0.000001", "x" * 4000, env={"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": "x"})
        assert done.returncode == code and says in done.stderr, done.stderr


def test_facts_that_cannot_be_used_are_named(agent, chat, tmp_path):
    (tmp_path / "facts").write_text('{"models":[{}]}')
    for file, says in ((tmp_path / "facts", "entry 1"), (tmp_path / "none", "No such file"), ("/dev/null", "not JSON")):
        done = agent("run", "--facts", file, "x")
        assert done.returncode == 2 and says in done.stderr, done.stderr
    assert chat.requests() == []


def test_another_model_goes_on(agent, chat):
    chat.queue({"status": 401, "json": {"error": {"message": "no key"}}}, {"text": "from the second"})
    done = agent("run", "-m", f"chat:{chat.url}#second", "x")
    assert (done.returncode, done.stdout) == (0, "from the second\n"), done.stderr
    assert [json.loads(request["body"])["model"] for request in chat.requests()] == ["none", "second"]


PNG = b"\x89PNG\r\n\x1a\n"


def test_images_go_with_the_prompt(agent, chat, tmp_path):
    chat.queue({"text": "a cat"})
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.gif").write_bytes(b"GIF89a")
    done = agent("run", "--image", tmp_path / "a.png", "--image", tmp_path / "b.gif", "what?")
    assert (done.returncode, done.stdout) == (0, "a cat\n"), done.stderr
    request = chat.requests()[-1]["json"]
    assert request["messages"][-1]["content"] == [
        {"type": "text", "text": "what?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lGODlh"}}]
    assert "view_image" in [tool["function"]["name"] for tool in request["tools"]]


def test_images_that_cannot_be_sent_are_named(agent, chat, tmp_path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "large").write_bytes(PNG + bytes(10 << 20))
    for file, says in ((tmp_path / "text", "takes PNG, JPEG, GIF and WebP"), (tmp_path / "none", "No such file"),
                       (tmp_path / "large", "larger than 10 MiB"), (tmp_path, "Is a directory")):
        done = agent("run", "--image", file, "x")
        assert done.returncode == 2 and says in done.stderr, done.stderr
    done = agent("run", "--each", "*", "--image", tmp_path / "text", "x")
    assert done.returncode == 2 and "without --each" in done.stderr
    assert chat.requests() == []

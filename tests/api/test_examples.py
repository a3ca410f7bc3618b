"""The example programs as a user would build them: against the installed headers and the shared library."""
import os
import subprocess

import pytest

from example import MODEL, ROOT, STRICT, build, call, model, run

COMPILERS = {"gcc": ["gcc", "-std=c11"], "clang": ["clang", "-std=c11"]}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", ["first", "stream", "host_tool", "migrate", "own_test", "anywhere"])
def test_an_example_compiles_without_a_warning(name, compiler):
    subprocess.run([*COMPILERS[compiler], *STRICT, "-I", ROOT / "include", "-fsyntax-only",
                    ROOT / "examples" / f"{name}.c"], check=True)


def test_a_test_of_ones_own_fails_when_it_should(tmp_path):
    assert "Test 3 fails" in run(build(tmp_path, "own_test"), tmp_path).stdout
    for old, new, told in [('"make *"', '"dog"', 'command 1 is "make test" in /workspace, the script has "dog"'),
                           ('"1 of 7 failed\\n"', '"fine"', 'turn 2 does not hold "1 of 7 failed"'),
                           ('.path = "test.log"', '.path = "else"', 'turn 3 does not hold "SIGFPE"'),
                           ('.text = "Test 3 fails: it divides by zero."', '.fail = WALDO_EQUOTA', "turn 3 fails"),
                           ('.text = "Test 3 fails: it divides by zero."',
                            '.call = "exec_command", .args = "{\\"cmd\\":\\"ls\\"}"', "script has no more commands"),
                           ('make test\\"}"', 'make test\\"}", .more = 1', 'turn 2 does not hold'),
                           ('.text = "Let me see. ", .call = "exec_command", .args = "{\\"cmd\\":\\"make test\\"}"',
                            '.text = "Test 3 fails"',
                            'the script has "make *", which came 0 of 1 times')]:
        assert told in run(build(tmp_path, "own_test", (old, new)), tmp_path, code=1).stderr


def test_the_first_program_is_short():
    lines = (ROOT / "examples" / "first.c").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 16


def test_the_first_program_runs_a_command_in_the_sandbox(chat, tmp_path):
    chat.queue({"calls": [call("exec_command", cmd="echo $((6*7)); readlink /proc/self/ns/pid")]},
               {"text": "it said: {result}"})
    done = run(build(tmp_path, "first", model(chat)), tmp_path)
    assert "42" in done.stdout and "pid:[" in done.stdout
    assert os.readlink("/proc/self/ns/pid") not in done.stdout
    assert "sandbox access" in chat.requests()[0]["json"]["messages"][0]["content"]


@pytest.mark.parametrize("strings, message", [
    ([(MODEL, '"nobody:some-model"')], "chat:"),
    ([(MODEL, '"chat:no-url"')], "chat:"),
    ([('"local:"', '"nowhere:"')], "local"),
    ([('"local:"', '"local:,colour=red"')], "colour"),
])
def test_bad_strings_list_what_is_known(tmp_path, strings, message):
    done = run(build(tmp_path, "first", *strings), tmp_path, code=1)
    assert message in done.stdout


def test_a_missing_key_is_named(chat, tmp_path):
    chat.control(key="sk-wanted-0123456789")
    done = run(build(tmp_path, "first", model(chat)), tmp_path, code=1, OPENAI_API_KEY="")
    assert "401" in done.stdout or "key" in done.stdout.lower()


def test_streaming_keeps_conversation_and_machine(chat, tmp_path):
    chat.queue({"calls": [call("exec_command", cmd="echo kept > note")]}, {"text": "first;"},
               {"calls": [call("exec_command", cmd="cat note")]}, {"text": "{result}"})
    done = run(build(tmp_path, "stream", model(chat)), tmp_path)
    assert done.stdout.startswith("first;") and "kept" in done.stdout
    assert len(chat.requests()) == 4


def test_a_host_tool_runs_in_this_process(chat, tmp_path):
    chat.queue({"calls": [call("order_state", order_id="A-1042")]}, {"text": "{result}"})
    program = build(tmp_path, "host_tool", model(chat))
    assert run(program, tmp_path).stdout == "order A-1042 is packed\n"
    chat.queue({"calls": [call("order_state", order_id="B-1")]}, {"text": "{result}"})
    assert "no order B-1" in run(program, tmp_path).stdout
    tools = {tool["function"]["name"]: tool["function"] for tool in chat.requests()[0]["json"]["tools"]}
    assert tools["order_state"]["parameters"] == {
        "type": "object", "properties": {"order_id": {"type": "string", "description": "such as A-1042"}},
        "required": ["order_id"], "additionalProperties": False}
    assert "web_fetch" in tools and "exec_command" in tools


@pytest.mark.parametrize("url, said", [
    ("https://example.com/", "not among the hosts"),
    ("https://wikipedia.org/", "not among the hosts"),
    ("https://evil-wikipedia.org/", "not among the hosts"),
    ("http://docs.python.org/", "https://"),
    ("https://docs.python.org:8443/", "https://"),
    ("https://user@docs.python.org/", "https://"),
    ("https://docs.python.org.evil.com/", "not among the hosts"),
    ("https://[::1]/", "https://"),
    ("file:///etc/passwd", "https://"),
])
def test_web_fetch_keeps_to_its_list(chat, tmp_path_factory, url, said):
    tmp_path = tmp_path_factory.mktemp("fetch")
    chat.queue({"calls": [call("web_fetch", url=url)]}, {"text": "{result}"})
    assert said in run(build(tmp_path, "host_tool", model(chat)), tmp_path).stdout


def test_web_fetch_refuses_private_addresses(chat, tmp_path):
    """An allowed name that leads to this machine: refused when connecting."""
    chat.queue({"calls": [call("web_fetch", url="https://localhost/")]}, {"text": "{result}"})
    program = build(tmp_path, "host_tool", model(chat), ('"docs.python.org, *.wikipedia.org"', '"localhost"'))
    said = run(program, tmp_path).stdout
    assert "not a public address" in said, said


def test_one_bad_run_spoils_no_other(chat, tmp_path):
    for name in ("billing", "mail"):
        (tmp_path / "services" / name).mkdir(parents=True)
        (tmp_path / "services" / name / "api.py").write_text("chat\n")
    chat.control(model="scripted", turns=[{"calls": [call("exec_command", cmd="echo responses > api.py")]},
                                          {"text": "done"}])
    done = run(build(tmp_path, "migrate", model(chat)), tmp_path, code=1)
    assert "search:" in done.stderr and "services/search" in done.stderr
    assert not (tmp_path / "search.patch").exists()
    for name in ("billing", "mail"):
        assert (tmp_path / "services" / name / "api.py").read_text() == "chat\n"  # a copy was changed
        subprocess.run(["git", "apply", f"../../{name}.patch"], cwd=tmp_path / "services" / name, check=True)
        assert (tmp_path / "services" / name / "api.py").read_text() == "responses\n"

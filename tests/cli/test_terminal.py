"""On a terminal: Ctrl-C, questions, colours, chat."""
import json
import re

import pytest
from program import Sleep, call

CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]")
EVIL = "\x1b]0;title\x07\x1b[2J\x7f\u009b31m\u202edrowssap\b"


def test_ctrl_c_once_ends_the_work_and_everything_of_it(agent, chat):
    sleep = Sleep()
    chat.queue(call(cmd=f"{sleep.words} & {sleep.words}"))
    with agent.terminal("run", "--approve", "never", "x") as terminal:
        sleep.wait(2)
        terminal.send("\x03")
        terminal.expect("stopping")
        assert terminal.end() == 130
    sleep.wait(0)


def test_ctrl_c_twice_leaves_at_once(agent, chat):
    sleep = Sleep()
    chat.queue(call(cmd=f"trap '' TERM INT; {sleep.words} & {sleep.words}"))
    with agent.terminal("run", "--approve", "never", "x") as terminal:
        sleep.wait(2)
        terminal.send("\x03")
        terminal.expect("stopping")
        terminal.send("\x03")
        assert terminal.end() == 130
    sleep.wait(0)


def test_ctrl_c_while_the_model_is_asked(agent, chat):
    chat.queue({"text": "never said", "stall_headers": True})
    with agent.terminal("run", "x") as terminal:
        chat.wait(requests=1)
        terminal.send("\x03")
        assert terminal.end() == 130
    chat.wait(aborted=1)


def test_what_changed_before_ctrl_c_is_saved(agent, chat, tmp_path):
    sleep = Sleep()
    (tmp_path / "work").mkdir()
    chat.queue(call(cmd="echo kept > file"), call(cmd=sleep.words))
    with agent.terminal("run", "--approve", "never", "-w", tmp_path / "work", "--patch", tmp_path / "p",
                        "x") as terminal:
        sleep.wait(1)
        terminal.send("\x03")
        assert terminal.end() == 130
    assert b"+kept" in (tmp_path / "p").read_bytes()
    sleep.wait(0)


# ---- approvals ----

QUESTION = "or no and why: "


def results(chat):
    return [message["content"] for request in chat.requests()[-1:] for message in request["json"]["messages"]
            if message["role"] == "tool"]


@pytest.mark.parametrize("answer,runs", [("y", True), ("YES", True), ("n", False), ("", False),
                                         ("use the other file", False), ("yes but quickly", False), ("\x04", False)])
def test_a_change_is_asked_about(agent, chat, answer, runs):
    chat.queue(call(cmd="echo ran-$((1 + 1))"), {"text": "done"})
    with agent.terminal("run", "x") as terminal:
        terminal.expect("exec_command")
        terminal.expect(QUESTION)
        terminal.send(answer + ("" if answer == "\x04" else "\n"))
        terminal.expect("done")
        assert terminal.end() == 0
    result, = results(chat)
    assert ("ran-2" in result) == runs
    if len(answer) > 4:
        assert answer in result


def test_all_calls_of_a_tool(agent, chat):
    chat.queue(call(cmd="echo 1"), call(cmd="echo 2", call_id="c2"), {"text": "done"})
    with agent.terminal("run", "x") as terminal:
        terminal.expect(QUESTION)
        terminal.send("a\n")
        terminal.expect("done")
        assert terminal.end() == 0
    assert terminal.shown.count(QUESTION.encode()) == 1


def test_what_is_asked_cannot_hide(agent, chat):
    chat.queue(call(cmd="echo " + EVIL), call("write_file", path="f" + EVIL, content=EVIL), {"text": EVIL})
    with agent.terminal("run", "--color", "never", "x") as terminal:
        for _ in range(2):
            terminal.expect(QUESTION)
            terminal.send("y\n")
        assert terminal.end() == 0
    assert not CONTROL.search(terminal.shown), terminal.shown
    assert b"drowssap" in terminal.shown


def test_a_tool_with_a_name_from_hell(agent, chat):
    chat.queue({"calls": [{"id": "c1", "name": "x\x1b[2J", "arguments": "{\"a\":\"\x1b[2J\"}"}]}, {"text": "done"})
    chat.control(strict=False)
    with agent.terminal("run", "--color", "never", "x") as terminal:
        terminal.expect("done")
        assert terminal.end() == 0
    assert not CONTROL.search(terminal.shown), terminal.shown


def test_long_arguments_are_counted_and_can_be_seen(agent, chat):
    chat.queue(call("write_file", path="f", content="start " + "x" * 9000 + " MIDDLE " + "y" * 9000 + " end"),
               {"text": "done"})
    with agent.terminal("run", "x") as terminal:
        terminal.expect("bytes are not shown")
        terminal.expect(QUESTION)
        before = terminal.shown[terminal.shown.index(b"May the agent"):]
        assert b"MIDDLE" not in before and b"start" in before and b" end" in before
        terminal.send("v\n")
        terminal.expect("MIDDLE")
        terminal.expect(QUESTION)
        terminal.send("n\n")
        assert terminal.end() == 0


def test_what_was_typed_before_the_question_is_no_answer(agent, chat):
    chat.queue({**call(cmd="echo ran"), "stall_headers": True}, {"text": "done"})
    with agent.terminal("run", "x") as terminal:
        chat.wait(requests=1)
        terminal.send("y\ny\n")
        terminal.expect("y\r\ny\r\n")  # the terminal has taken it
        chat.control(release=True)
        terminal.expect(QUESTION)
        terminal.send("n\n")
        assert terminal.end() == 0
    assert "ran\n" not in results(chat)[0]


def test_ctrl_c_at_the_question_runs_nothing(agent, chat):
    sleep = Sleep()
    chat.queue(call(cmd=sleep.words))
    with agent.terminal("run", "x") as terminal:
        terminal.expect(QUESTION)
        terminal.send("\x03")
        assert terminal.end() == 130
    assert sleep.processes() == []


# ---- changes ----

@pytest.mark.parametrize("answer,content", [("y", "two\n"), ("n", "one\n"), ("", "one\n")])
def test_a_patch_is_shown_and_applied_on_consent(agent, chat, tmp_path, answer, content):
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("one\n")
    chat.queue(call(cmd="echo two >a"), {"text": "done"})
    with agent.terminal("run", "--approve", "never", "-w", work, "x") as terminal:
        terminal.expect("+two")
        terminal.expect("Apply these changes")
        terminal.send(answer + "\n")
        assert terminal.end() == 0
    assert (work / "a").read_text() == content
    assert len(list(agent.temp.iterdir())) == (0 if content == "two\n" else 1)


def test_a_patch_cannot_drive_the_terminal(agent, chat, tmp_path):
    (tmp_path / "work").mkdir()
    chat.queue(call(cmd=r"printf '\033[2J\n\302\233x\n' >a"), {"text": "done"})
    with agent.terminal("run", "--color", "never", "--approve", "never", "-w", tmp_path / "work", "x") as terminal:
        terminal.expect("Apply these changes")
        terminal.send("n\n")
        assert terminal.end() == 0
    assert not CONTROL.search(terminal.shown), terminal.shown


# ---- colours ----

@pytest.mark.parametrize("words,env,colored", [
    ([], {}, True), ([], {"NO_COLOR": "1"}, False), ([], {"NO_COLOR": ""}, True), ([], {"TERM": "dumb"}, False),
    (["--color", "always"], {"NO_COLOR": "1"}, True), (["--color", "never"], {}, False)])
def test_colours(agent, chat, words, env, colored):
    chat.queue(call(cmd="true"), {"text": "done"})
    with agent.terminal("run", "--approve", "never", *words, "x", env=env) as terminal:
        assert terminal.end() == 0
    assert (b"\033[" in terminal.shown) == colored


def test_text_and_progress_do_not_share_a_line(agent, chat):
    chat.queue({"text": "I look.", "calls": call(cmd="true")["calls"]}, {"text": "done"})
    with agent.terminal("run", "--color", "never", "--approve", "never", "x") as terminal:
        assert terminal.end() == 0
    assert b"I look.\r\n> exec_command" in terminal.shown


# ---- chat ----

def test_a_conversation(agent, chat):
    chat.queue(call(cmd="echo 1 > file"), {"text": "first answer"}, call(cmd="cat file", call_id="c2"),
               {"text": "second: {result}"})
    with agent.terminal("chat", "--approve", "never") as terminal:
        terminal.expect("you> ")
        terminal.send("first\n")
        terminal.expect("first answer")
        terminal.expect("you> ")
        terminal.send("\n")  # nothing said
        terminal.expect("you> ")
        terminal.send("second\n")
        terminal.expect("second: ")
        terminal.expect("you> ")
        terminal.send("\x04")
        assert terminal.end() == 0
    messages = chat.requests()[-1]["json"]["messages"]
    assert [m["content"] for m in messages if m["role"] == "user"] == ["first", "second"]
    assert "1" in [m["content"] for m in messages if m["role"] == "tool"][-1]


def test_ctrl_c_stops_the_turn_and_the_conversation_goes_on(agent, chat):
    sleep = Sleep()
    chat.queue(call(cmd=sleep.words), {"text": "going on"})
    with agent.terminal("chat", "--approve", "never") as terminal:
        terminal.expect("you> ")
        terminal.send("first\n")
        sleep.wait(1)
        terminal.send("\x03")
        terminal.expect("you> ")
        sleep.wait(0)
        terminal.send("second\n")
        terminal.expect("going on")
        terminal.expect("you> ")
        terminal.send("\x03")
        assert terminal.end() == 130
    messages = chat.requests()[-1]["json"]["messages"]
    assert [m["content"] for m in messages if m["role"] == "user"] == ["first", "second"]
    assert len([m for m in messages if m["role"] == "tool"]) == 1  # the history is intact


def test_a_turn_that_fails_does_not_end_a_conversation(agent, chat):
    chat.queue(*[{"status": 400, "json": {"error": {"message": "odd request"}}}], {"text": "better"})
    with agent.terminal("chat") as terminal:
        terminal.expect("you> ")
        terminal.send("first\n")
        terminal.expect("odd request")
        terminal.expect("you> ")
        terminal.send("second\n")
        terminal.expect("better")
        terminal.expect("you> ")
        terminal.send("\x04")
        assert terminal.end() == 0


def test_chat_through_pipes(agent, chat):
    chat.queue({"text": "one"}, {"text": "two"})
    done = agent("chat", input="first\r\n\nsecond")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n"), done.stderr
    users = [m["content"] for m in chat.requests()[-1]["json"]["messages"] if m["role"] == "user"]
    assert users == ["first", "second"]


def test_chat_through_pipes_ends_at_the_first_failure(agent, chat):
    chat.queue({"text": "one"}, *[{"status": 401, "json": {"error": {"message": "no"}}}] * 2, {"text": "three"})
    done = agent("chat", input="first\nsecond\nthird\n")
    assert (done.returncode, done.stdout) == (5, "one\n"), done.stderr


def test_chat_refuses_a_line_that_is_not_utf8(agent, chat):
    done = agent("chat", input=b"\xff\n", text=False)
    assert done.returncode == 2 and b"UTF-8" in done.stderr and chat.requests() == []


def test_chat_in_json(agent, chat):
    chat.queue({"text": "one"}, {"text": "two"})
    done = agent("chat", "--json", input="first\nsecond\n")
    ends = [event for event in map(json.loads, done.stdout.splitlines()) if event["type"] == "end"]
    assert done.returncode == 0 and len(ends) == 2, done.stderr

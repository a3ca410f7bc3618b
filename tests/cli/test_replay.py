"""`waldo run --record`, and the recording read again: the same answer without server, key or tool."""
import os
import stat

from program import call

KEY = "sk-secret-0123456789abcdef"


def test_a_recording_is_read_again_offline(agent, chat, tmp_path):
    file = tmp_path / "r.jsonl"
    chat.queue(call(cmd="echo from-$((40 + 2)); date +%N >mark"), {"text": f"it said: {{result}} {KEY}"})
    first = agent("run", "--key", "SOME_KEY", "--record", file, "say it", env={"SOME_KEY": KEY})
    assert first.returncode == 0 and "from-42" in first.stdout, first.stderr
    assert KEY not in file.read_text() and "[SOME_KEY]" in file.read_text()
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    asked = len(chat.requests())
    assert asked == 2
    agent.args = ("-m", f"replay:{file}", "-s", "local:")
    for _ in range(2):
        again = agent("run", "say it")
        assert again.returncode == 0 and again.stdout == first.stdout, again.stderr
    other = agent("run", "say something else")
    assert other.returncode == 1 and "replay: request 1 is not the one in" in other.stderr
    assert len(chat.requests()) == asked


def test_a_conversation_is_recorded(agent, chat, tmp_path):
    file = tmp_path / "r.jsonl"
    chat.queue({"text": "one"}, {"text": "two"})
    assert agent("chat", "--record", file, input="a\nb\n").returncode == 0
    agent.args = ("-m", f"replay:{file}", "-s", "local:")
    again = agent("chat", input="a\nb\n")
    assert again.returncode == 0 and "one" in again.stdout and "two" in again.stdout, again.stderr


def test_what_is_no_recording_is_refused(agent, chat, tmp_path):
    file = tmp_path / "r.jsonl"
    file.write_text("{}\n")
    agent.args = ("-m", f"replay:{file}", "-s", "local:")
    done = agent("run", "x")
    assert done.returncode != 0 and "line 1: this is no recording" in done.stderr
    agent.args = ("-m", f"chat:{chat.url}#none", "-s", "local:")
    done = agent("run", "--record", tmp_path / "no/such/folder", "x")
    assert done.returncode != 0 and "no/such/folder: " in done.stderr and chat.requests() == []

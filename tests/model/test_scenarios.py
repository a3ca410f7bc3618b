"""Every answer that the stand-in server can give, read by the adapter: the same calls from every server's form."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", HERE.parent.parent / "build"))
sys.path.insert(0, str(HERE.parent / "standins" / "chat"))
import replies  # noqa: E402
import scenarios  # noqa: E402

FIRST = {name: turns[0] for name, turns in scenarios.SCENARIOS.items()}
CALLS = sorted(name for name, reply in FIRST.items() if reply.get("calls") and "fragments" not in reply["calls"][0])
TEXTS = sorted(name for name, reply in FIRST.items()
               if set(reply) <= {"text", "usage", "comments", "keepalive", "split_data", "no_done", "finish"})
ERRORS = {"stream-error-object": "EPROVIDER", "stream-error-string": "EPROVIDER", "stream-error-event": "EPROVIDER",
          "stream-error-finish": "EPROVIDER", "stream-error-json": "EPROTO", "stream-error-ollama": "ETRUNCATED",
          "stream-error-field": "ETRUNCATED", "q8": "ETRUNCATED", "q9": "EPROVIDER", "q10": "ETRUNCATED"}
FINISH = {"length": "length", "content_filter": "filter"}


def read(body, content_type="text/event-stream", step="0"):
    program = [BUILD / "tests/model/read-answer", "chat:http://h/v1#m"]
    done = subprocess.run([*program, content_type, step], input=body.encode(), capture_output=True, check=True,
                          timeout=120)
    return done.stdout.decode().splitlines()


def calls_in(lines):
    found = [line.split(" ", 3)[1:] for line in lines if line.startswith("tool_call ")]
    return [(call_id, name, json.loads(args.split(" {\"extra_content\"")[0])) for call_id, name, args in found]


def check_calls(name, lines):
    wanted = FIRST[name]["calls"]
    found = calls_in(lines)

    assert lines[-1].startswith("finish calls")
    assert [call[1:] for call in found] == [(c["name"], json.loads(c["arguments"] or "{}")) for c in wanted]
    if name != "q11":
        assert [call[0] for call in found] == [c["id"] for c in wanted]
    assert [line for line in lines if line.startswith("warning")] == []


@pytest.mark.parametrize("step", ["0", "1", "7"])
@pytest.mark.parametrize("name", CALLS)
def test_streamed_calls(name, step):
    check_calls(name, read(replies.stream(FIRST[name], name, True), step=step))


@pytest.mark.parametrize("name", [name for name in CALLS if "raw" not in FIRST[name] and name != "q11"])
def test_calls_of_whole_answers(name):
    body = replies.completion(FIRST[name], name)

    check_calls(name, read(replies.dump(body), "application/json"))


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    reply = FIRST[name]
    lines = read(replies.stream(reply, name, True))
    finish = FINISH.get(reply.get("finish"), "answer")

    assert lines[-1].startswith("finish " + finish)
    assert [line for line in lines if line.startswith("assistant ")] == (
        ["assistant " + reply["text"]] if reply["text"] else [])


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name):
    lines = read(replies.stream(FIRST[name], name, True))

    assert lines[-1].startswith(f"WALDO_{ERRORS[name]} ")
    assert not any(line.startswith("finish") for line in lines)


def test_reasoning_is_not_text():
    for name in ("mistral", "deepseek", "vllm"):
        lines = read(replies.stream(FIRST[name], name, True))

        assert "reasoning hm" in lines
        assert not any(line.startswith("assistant") for line in lines)


def test_enough_is_tested():
    assert len(CALLS) >= 25 and len(TEXTS) >= 8

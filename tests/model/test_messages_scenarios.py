"""Every answer that the Messages stand-in can give, read by the adapter, in the form of every server."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", HERE.parent.parent / "build"))
sys.path.insert(0, str(HERE.parent / "standins" / "messages"))
import blocks  # noqa: E402

# `turns` is also the name of the Responses stand-in's module: this one is loaded by its path.
SOURCE = HERE.parent / "standins" / "messages" / "turns.py"
SPACE = {"__file__": str(SOURCE)}
exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), SPACE)  # noqa: S102

FIRST = {name: scenario[0] for name, scenario in SPACE["SCENARIOS"].items()}
CALLS = sorted(name for name, reply in FIRST.items() if reply.get("calls") and reply.get("stop") != "max_tokens")
TEXTS = sorted(name for name, reply in FIRST.items() if reply.get("text") == "hello"
               and not {"no_stop", "drop_at", "stall_headers"} & set(reply))
ERRORS = {"no-stop": "ETRUNCATED", "window": "EOVERFLOW", "json-error-200": "EPROVIDER",
          "stream-error-overloaded_error": "EPROVIDER", "stream-error-api_error": "EPROVIDER",
          "stream-error-rate_limit_error": "ERATE", "stream-error-timeout_error": "ETIMEDOUT",
          "stream-error-invalid_request_error": "EINVAL", "stream-error-json": "EPROTO", "empty": "ETRUNCATED"}


def read(body, content_type="text/event-stream", step="0"):
    done = subprocess.run([BUILD / "tests/model/read-answer", "anthropic:m", content_type, step], input=body.encode(),
                          capture_output=True, check=True, timeout=120)
    return done.stdout.decode().splitlines()


def check_calls(name, lines):
    wanted = FIRST[name]["calls"]
    found = [line.split(" ", 3)[1:] for line in lines if line.startswith("tool_call ")]

    assert lines[-1].startswith("finish calls")
    assert [call[1] for call in found] == [call["name"] for call in wanted]
    for call, given in zip(found, wanted):
        assert call[2] == given["arguments"] or call[2].startswith(given["arguments"] + " {")
    if name not in ("no-id", "same-id"):
        assert [call[0] for call in found] == [call["id"] for call in wanted]


@pytest.mark.parametrize("step", ["0", "1", "7"])
@pytest.mark.parametrize("name", CALLS)
def test_streamed_calls(name, step):
    check_calls(name, read(blocks.stream(FIRST[name], "m"), step=step))


@pytest.mark.parametrize("name", [name for name in CALLS if name != "eager"])
def test_calls_of_whole_answers(name):
    check_calls(name, read(blocks.dump(blocks.whole(FIRST[name], "m")), "application/json"))


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    lines = read(blocks.stream(FIRST[name], "m"))

    assert lines[-1].startswith("finish answer")
    assert [line for line in lines if line.startswith("~text")] == ["~text hello"]
    assert "assistant hello" in lines
    warnings = [line for line in lines if line.startswith("warning")]
    unknown = ["warning the model stopped for a reason that is not known: something_new"]
    assert warnings == (unknown if name == "new-reason" else [])


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name):
    reply = FIRST[name]
    lines = read(blocks.dump(reply["json"]) if "json" in reply else blocks.stream(reply, "m"))

    assert lines[-1].startswith(f"WALDO_{ERRORS[name]} ")
    assert not any(line.startswith("finish") for line in lines)


@pytest.mark.parametrize("name,finish", [("length", "length"), ("length-call", "length"), ("refusal", "refusal"),
                                         ("pause", "pause"), ("empty-answer", "answer")])
def test_finishes(name, finish):
    assert read(blocks.stream(FIRST[name], "m"))[-1].startswith(f"finish {finish}")


@pytest.mark.parametrize("name", ["two-calls", "hidden", "redacted", "pause", "form-ollama", "form-llamacpp"])
def test_thinking_is_kept_as_it_was(name):
    lines = read(blocks.stream(FIRST[name], "m"))
    raw = [json.loads(line[line.index("{"):]) for line in lines if line.startswith("reasoning")]

    assert raw == [block for block in blocks.content(FIRST[name]) if block["type"] not in ("text", "tool_use")]


def test_usage():
    assert read(blocks.stream(FIRST["text"], "m"))[-1] == "finish answer usage 412 47 300 9"
    assert read(blocks.stream(FIRST["no-usage"], "m"))[-1] == "finish answer"


def test_enough_is_tested():
    assert len(CALLS) >= 11 and len(TEXTS) >= 13

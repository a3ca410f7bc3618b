"""Every answer that the Responses stand-in can give, read by the adapter, in the form of every server."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", HERE.parent.parent / "build"))
sys.path.insert(0, str(HERE.parent / "standins" / "responses"))
import events  # noqa: E402
import turns  # noqa: E402

FIRST = {name: scenario[0] for name, scenario in turns.SCENARIOS.items()}
CALLS = sorted(name for name, reply in FIRST.items() if reply.get("calls") and not reply.get("incomplete"))
TEXTS = sorted(name for name, reply in FIRST.items() if reply.get("text") == "hello" and "no_terminal" not in reply
               and not {"drop_at", "stall_at", "stall_headers"} & set(reply))
ERRORS = {"no-terminal": "ETRUNCATED", "reasoning-only": "EPROVIDER", "stream-error-flat": "EPROVIDER",
          "stream-error-object": "EPROVIDER", "stream-error-json": "EPROTO", "failed-server_error": "EPROVIDER",
          "failed-rate_limit_exceeded": "ERATE", "failed-vector_store_timeout": "EPROVIDER",
          "failed-invalid_prompt": "EINVAL", "failed-bio_policy": "EFILTER", "failed-invalid_image": "EHTTP",
          "failed-something_new": "EHTTP"}
BODY = {"model": "m", "stream": True}


def read(body, content_type="text/event-stream", step="0"):
    done = subprocess.run([BUILD / "tests/model/read-answer", "openai:m", content_type, step], input=body.encode(),
                          capture_output=True, check=True, timeout=120)
    return done.stdout.decode().splitlines()


def check_calls(name, lines):
    wanted = FIRST[name]["calls"]
    found = [line.split(" ", 3)[1:] for line in lines if line.startswith("tool_call ")]

    assert lines[-1].startswith("finish calls")
    assert [call[1] for call in found] == [call["name"] for call in wanted]
    for call, given in zip(found, wanted):
        text = given["arguments"] or "{}"
        assert call[2] == text or call[2].startswith(text + " {")
    if name not in ("no-call-id", "same-id"):
        assert [call[0] for call in found] == [call["id"] for call in wanted]


@pytest.mark.parametrize("step", ["0", "1", "7"])
@pytest.mark.parametrize("name", CALLS)
def test_streamed_calls(name, step):
    check_calls(name, read(events.stream(FIRST[name], BODY), step=step))


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_whole_answers(name):
    check_calls(name, read(events.dump(events.whole(FIRST[name], {"model": "m"})), "application/json"))


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    lines = read(events.stream(FIRST[name], BODY))

    assert lines[-1].startswith("finish answer")
    assert [line for line in lines if line.startswith("~text")] == ["~text hello"]
    assert [line for line in lines if line.startswith("assistant hello")]


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_errors(name):
    lines = read(events.stream(FIRST[name], BODY))

    assert lines[-1].startswith(f"WALDO_{ERRORS[name]} ")
    assert not any(line.startswith("finish") for line in lines)


@pytest.mark.parametrize("name,finish", [("length", "length"), ("length-call", "length"), ("content-filter", "filter"),
                                         ("refusal", "refusal")])
def test_finishes(name, finish):
    assert read(events.stream(FIRST[name], BODY))[-1].startswith(f"finish {finish}")


def test_items_are_kept_as_they_were():
    lines = read(events.stream(FIRST["phases"], BODY))
    raw = [json.loads(line[line.index("{"):]) for line in lines if line.startswith(("reasoning", "assistant"))]

    assert raw == events.items(FIRST["phases"])[:2]


def test_enough_is_tested():
    assert len(CALLS) >= 11 and len(TEXTS) >= 14

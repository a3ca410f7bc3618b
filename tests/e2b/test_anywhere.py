"""One agent program, compiled once, on every backend: only its argument changes, and what the model hears does not."""
import os
import re

import pytest

from dockerd import IMAGE
from example import build, call, model, run

PLACES = ["fake:", "local:", f"docker:{IMAGE}", "e2b:base"]
CALLS = [
    call("exec_command", cmd="printf 'one\\ntwo\\n' > haiku.txt; cat haiku.txt; pwd; echo aside >&2; exit 3"),
    call("write_file", path="notes/first.txt", content="red\ngreen\nblue\n"),
    call("edit_file", path="notes/first.txt", old_text="green", new_text="yellow"),
    call("read_file", path="notes/first.txt"),
    call("exec_command", cmd="cat notes/first.txt && rm haiku.txt && ls"),
    call("ls", path="."),
    call("glob", pattern="**/*.txt"),
    call("read_file", path="haiku.txt"),
    call("exec_command", cmd="sleep 30", timeout_ms=300),
]

WORDS = ["one two /workspace aside 3", "notes/first.txt", "notes/first.txt", "red yellow blue", "yellow notes",
         "notes/", "notes/first.txt", "haiku.txt not exist", "Timed out 300"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="machines of the stand-in have one user then")


def heard(chat):
    """What the model got for its calls."""
    return [message["content"] for message in chat.requests()[-1]["json"]["messages"] if message["role"] == "tool"]


def untimed(texts):
    return [re.sub(r"Wall time: [0-9.]+ s", "Wall time: TIME", text) for text in texts]


@pytest.fixture
def places(engine, e2b):
    return {"DOCKER_HOST": engine.url, "E2B_API_KEY": "e2b_" + "0" * 40, "E2B_API_URL": e2b.url,
            "E2B_SANDBOX_URL": e2b.url}


def test_one_program_runs_on_all_by_changing_one_string(chat, e2b, engine, places, tmp_path):
    program = build(tmp_path, "anywhere", model(chat))
    results = {}
    for place in PLACES:
        chat.reset()
        chat.queue(*({"calls": [each]} for each in CALLS), {"text": "done: {result}"})
        printed = run(program, tmp_path, place, **places).stdout
        assert printed.startswith("done: "), printed
        results[place] = untimed([*heard(chat), printed])
    told = results["local:"]
    assert len(told) == len(CALLS) + 1
    for text, words in zip(told, WORDS):
        assert all(word in text for word in words.split()), (text, words)
    for place in PLACES:
        assert results[place] == told, place
    assert engine.wait(lambda: not engine.containers()), engine.containers()
    e2b.ask("GET", "/_wait?processes=0")


def test_a_place_that_cannot_be_had_is_said_by_the_same_program(chat, places, tmp_path):
    program = build(tmp_path, "anywhere", model(chat))
    for place, env, words in [("e2b:nowhere", places, "template 'nowhere' not found"),
                              ("e2b:base", {**places, "E2B_API_KEY": ""}, "E2B_API_KEY"),
                              (f"docker:{IMAGE}-not-there", places, f"{IMAGE}-not-there")]:
        chat.queue({"calls": [call("exec_command", cmd="true")]}, {"text": "{result}"})
        assert words in run(program, tmp_path, place, **env).stdout, place

"""From a sandbox at E2B to a container and back, and past an E2B that has no room, against the stand-in."""
import pytest

from dockerd import IMAGE
from failover import go_on, kill_local, notices, wait_for
from patience import PATIENCE
from program import Sleep, call


@pytest.fixture
def place(e2b):
    """The sandbox string of a machine there, and what the program needs for it in its environment."""
    return f"e2b:base,api={e2b.url},envd={e2b.url}", {"E2B_API_KEY": "e2b_" + "0" * 40}


def vanish(e2b):
    return lambda _process, _sleep: e2b.control(vanish="*")


def empty(e2b):
    e2b.ask("GET", "/_wait?processes=0")


def test_from_e2b_to_docker(waldo, engine, chat, e2b, tmp_path, place):
    text, env = place
    go_on(waldo, chat, tmp_path, text, f"docker:{IMAGE}", vanish(e2b), {**env, "DOCKER_HOST": engine.url})
    assert engine.wait(lambda: not engine.containers()), engine.containers()
    empty(e2b)


def test_from_docker_to_e2b(waldo, engine, chat, e2b, tmp_path, place):
    text, env = place

    def kill(_process, _sleep):
        container, = engine.containers()
        assert engine.ask("DELETE", f"/v1.41/containers/{container['Id']}?force=1&v=1")[0] == 204

    go_on(waldo, chat, tmp_path, f"docker:{IMAGE}", text, kill, {**env, "DOCKER_HOST": engine.url})
    empty(e2b)


def test_from_local_to_e2b(waldo, chat, e2b, tmp_path, place):
    text, env = place
    go_on(waldo, chat, tmp_path, "local:", text, kill_local, env)
    empty(e2b)


def test_from_one_to_the_next_at_e2b(waldo, chat, e2b, tmp_path, place):
    text, env = place
    go_on(waldo, chat, tmp_path, text, text, vanish(e2b), env)
    empty(e2b)


@pytest.mark.parametrize("refusal", [
    {"status": 429}, {"status": 503}, {"status": 401}, {"status": 500},
], ids=lambda fault: str(fault["status"]))
def test_an_e2b_that_refuses_is_passed_over(waldo, chat, e2b, place, refusal):
    text, env = place
    e2b.control(faults=[{"on": "POST /v2/sandboxes", "times": None, **refusal},
                        {"on": "POST /sandboxes", "times": None, **refusal}])
    chat.queue(call(cmd="echo here"), {"text": "{result}"})
    done = waldo("run", "-m", f"chat:{chat.url}#none", "-s", text, "-s", "local:", "go", env=env)
    assert done.returncode == 0 and "here" in done.stdout, done.stderr
    assert "! refused: e2b: no machine: " in done.stderr
    empty(e2b)


def test_without_a_key_it_is_passed_over(waldo, chat, e2b, place):
    chat.queue(call(cmd="echo here"), {"text": "{result}"})
    done = waldo("run", "-m", f"chat:{chat.url}#none", "-s", place[0], "-s", "local:", "go")
    assert done.returncode == 0 and "here" in done.stdout, done.stderr
    assert "! refused: e2b: no machine: " in done.stderr and "E2B_API_KEY" in done.stderr
    assert e2b.requests() == []


def test_lost_by_name_when_the_next_has_no_room(waldo, chat, e2b, place):
    text, env = place
    e2b.control(faults=[{"on": "POST /v2/sandboxes", "times": None, "status": 503}])
    sleep = Sleep()
    chat.queue(call(cmd=sleep.words), call(call_id="c2", cmd="true"), {"text": "{result}"})
    process = waldo.start("run", "-m", f"chat:{chat.url}#none", "-s", "local:", "-s", text, "go", env=env)
    wait_for(sleep, process)
    kill_local(process, sleep)
    out, err = (text.decode() for text in process.communicate(timeout=PATIENCE))
    assert process.returncode == 0 and "no other machine could take its place" in out, err
    assert notices(chat.requests()[-1]) == []
    empty(e2b)

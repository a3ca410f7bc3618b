"""A machine dies in the middle of a conversation, and the run goes on in one of another kind."""
import pytest

from dockerd import IMAGE
from failover import go_on, kill_local, notices, wait_for
from patience import PATIENCE
from program import Sleep, call


@pytest.fixture
def kill_container(engine):
    def kill(_process, _sleep):
        container, = engine.containers()
        assert engine.ask("DELETE", f"/v1.41/containers/{container['Id']}?force=1&v=1")[0] == 204
    return kill


@pytest.mark.parametrize("first, second", [
    (f"docker:{IMAGE}", "local:"),
    (f"docker:{IMAGE},lease=600", "local:"),
    ("local:", f"docker:{IMAGE}"),
    ("local:", f"docker:{IMAGE},hand=never"),
    (f"docker:{IMAGE}", f"docker:{IMAGE}"),
], ids=["docker-local", "kept-local", "local-docker", "local-plain", "docker-docker"])
def test_the_run_goes_on(waldo, engine, chat, tmp_path, kill_container, first, second):
    kill = kill_local if first == "local:" else kill_container
    go_on(waldo, chat, tmp_path, first, second, kill, {"DOCKER_HOST": engine.url})
    assert engine.wait(lambda: not engine.containers()), engine.containers()


def test_one_that_is_refused_is_passed_over_in_front_and_behind(waldo, engine, chat):
    sleep = Sleep()
    chat.queue(call(cmd=sleep.words), call(call_id="c2", cmd="echo here"), {"text": "{result}"})
    process = waldo.start("run", "-m", f"chat:{chat.url}#none", "-s", "docker:no-such-image", "-s", "local:", "-s",
                          "docker:no-such-image", "-s", f"docker:{IMAGE}", "go", env={"DOCKER_HOST": engine.url})
    wait_for(sleep, process)
    kill_local(process, sleep)
    out, err = (text.decode() for text in process.communicate(timeout=PATIENCE))
    assert process.returncode == 0 and "here" in out, err
    assert err.count("refused: docker: no machine: ") == 2 and "no-such-image" in err
    assert engine.wait(lambda: not engine.containers()), engine.containers()


def test_when_none_is_left(waldo, engine, chat, kill_container):
    sleep = Sleep()
    chat.queue(call(cmd=sleep.words), call(call_id="c2", cmd="echo here"), {"text": "{result}"})
    process = waldo.start("run", "-m", f"chat:{chat.url}#none", "-s", f"docker:{IMAGE}", "-s", "docker:no-such-image",
                          "go", env={"DOCKER_HOST": engine.url})
    wait_for(sleep, process)
    kill_container(process, sleep)
    out, err = (text.decode() for text in process.communicate(timeout=PATIENCE))
    assert process.returncode == 0 and "no other machine could take its place" in out, err
    assert notices(chat.requests()[-1]) == []

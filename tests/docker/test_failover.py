"""A machine dies in the middle of a conversation, and the run goes on in one of another kind."""
import os
import pathlib
import signal

import pytest

from dockerd import IMAGE
from program import Sleep, call


def kill_container(engine, _process, _sleep):
    container, = engine.containers()
    assert engine.ask("DELETE", f"/v1.41/containers/{container['Id']}?force=1&v=1")[0] == 204


def kill_local(_engine, process, sleep):
    """The child of waldo that the command descends from."""
    pid, = sleep.processes()
    while (parent := int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])) != process.pid:
        pid = parent
    os.kill(pid, signal.SIGKILL)


def texts(request, role=None):
    return [message["content"] for message in request["json"]["messages"] if role in (None, message["role"])]


def notices(request):
    return [text for text in texts(request) if text and "has taken its place" in text]


@pytest.mark.parametrize("first, second, kill", [
    (f"docker:{IMAGE}", "local:", kill_container),
    (f"docker:{IMAGE},lease=600", "local:", kill_container),
    ("local:", f"docker:{IMAGE}", kill_local),
], ids=["docker-local", "kept-local", "local-docker"])
def test_the_run_goes_on(waldo, engine, chat, tmp_path, first, second, kill):
    """The model is told, the workspace is as of the last round, nothing is run again, the patch holds all."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "readme").write_text("from the host\n")
    sleep, kept = Sleep(), Sleep()
    log = "echo x >> runs; chmod 640 runs; ln -s runs link"
    chat.queue(call(call_id="c1", cmd=log),
               call(call_id="c2", cmd=kept.words, yield_time_ms=0),
               # Late, so that the snapshot of the round before is whole.
               {**call(call_id="c3", cmd=f"echo x >> runs; {sleep.words}"), "stall_at": 20, "stall_ms": 1500},
               call(call_id="c4", cmd="cat readme link; stat -c %a runs; readlink link; ls"),
               {"text": "{result}"})
    process = waldo.start("run", "-m", f"chat:{chat.url}#none", "-s", first, "-s", second, "-w", str(folder),
                          "--patch", str(tmp_path / "patch"), "go", env={"DOCKER_HOST": engine.url})
    sleep.wait(1)
    kill(engine, process, sleep)
    out, err = (text.decode() for text in process.communicate(timeout=120))
    assert process.returncode == 0, err
    assert "from the host\nx\n640\nruns\nlink\nreadme\nruns\n" in out, err
    names = [text.partition(":")[0] for text in (first, second)]
    assert "lost: " in err and f"moved: The sandbox ({names[0]}) was lost" in err
    asked = chat.requests()
    assert len(asked) == 5
    assert [len(notices(request)) for request in asked] == [0, 0, 0, 1, 1]
    told, = notices(asked[3])
    assert texts(asked[3])[-1] == told and "outcome unknown" in texts(asked[3])[-2]
    assert f"Another one ({names[1]}) has taken its place" in told and "gone: 1." in told
    assert "/workspace is as it was" in told
    for line in ("+x", "+++ b/runs"):
        assert line in (tmp_path / "patch").read_text().splitlines()
    assert (tmp_path / "patch").read_text().count("+x") == 1
    sleep.wait(0)
    kept.wait(0)
    assert engine.wait(lambda: not engine.containers()), engine.containers()


def test_one_that_is_refused_is_passed_over_in_front_and_behind(waldo, engine, chat):
    sleep = Sleep()
    chat.queue(call(cmd=sleep.words), call(call_id="c2", cmd="echo here"), {"text": "{result}"})
    process = waldo.start("run", "-m", f"chat:{chat.url}#none", "-s", "docker:no-such-image", "-s", "local:", "-s",
                          "docker:no-such-image", "-s", f"docker:{IMAGE}", "go", env={"DOCKER_HOST": engine.url})
    sleep.wait(1)
    kill_local(engine, process, sleep)
    out, err = (text.decode() for text in process.communicate(timeout=120))
    assert process.returncode == 0 and "here" in out, err
    assert err.count("refused: docker: no machine: ") == 2 and "no-such-image" in err
    assert engine.wait(lambda: not engine.containers()), engine.containers()


def test_when_none_is_left(waldo, engine, chat):
    sleep = Sleep()
    chat.queue(call(cmd=sleep.words), call(call_id="c2", cmd="echo here"), {"text": "{result}"})
    process = waldo.start("run", "-m", f"chat:{chat.url}#none", "-s", f"docker:{IMAGE}", "-s", "docker:no-such-image",
                          "go", env={"DOCKER_HOST": engine.url})
    sleep.wait(1)
    kill_container(engine, process, sleep)
    out, err = (text.decode() for text in process.communicate(timeout=120))
    assert process.returncode == 0 and "no other machine could take its place" in out, err
    assert notices(chat.requests()[-1]) == []

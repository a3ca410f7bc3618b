"""A run whose machine dies in the middle of a conversation and that goes on in another, by the waldo command."""
import os
import pathlib
import signal
import time

from patience import PATIENCE
from program import Sleep, call


def kill_local(process, sleep):
    """The child of waldo that the command descends from."""
    pid, = sleep.processes()
    while (parent := int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])) != process.pid:
        pid = parent
    os.kill(pid, signal.SIGKILL)


def wait_for(sleep, process):
    """Until the command runs, while the program does."""
    while not sleep.processes():
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.02)


def until_snapshot(process):
    """What it says until the workspace of a round is held in memory."""
    said = ""
    while "a snapshot of" not in said:
        line = process.stderr.readline().decode()
        assert line, said
        said += line
    return said


def texts(request, role=None):
    return [message["content"] for message in request["json"]["messages"] if role in (None, message["role"])]


def notices(request):
    return [text for text in texts(request) if text and "has taken its place" in text]


def go_on(waldo, chat, folder, first, second, kill, env):
    """The model is told, the workspace is as of the last round, nothing is run again, the patch holds all."""
    patch = folder / "patch"
    project = folder / "project"
    project.mkdir()
    (project / "readme").write_text("from the host\n")
    sleep, kept = Sleep(), Sleep()
    log = "echo x >> runs; chmod 640 runs; ln -s runs link"
    chat.queue({"calls": [*call(call_id="c1", cmd=log)["calls"],
                          *call(call_id="c2", cmd=kept.words, yield_time_ms=0)["calls"]]},
               {**call(call_id="c3", cmd=f"echo x >> runs; {sleep.words}"), "stall_at": 20},
               call(call_id="c4", cmd="cat readme link; stat -c %a runs; readlink link; ls"),
               {"text": "{result}"})
    process = waldo.start("run", "-v", "-m", f"chat:{chat.url}#none", "-s", first, "-s", second, "-w", str(project),
                          "--patch", str(patch), "go", env=env, bufsize=0)
    said = until_snapshot(process)
    chat.wait(requests=2)
    chat.control(release=True)
    wait_for(sleep, process)
    kill(process, sleep)
    out, err = (text.decode() for text in process.communicate(timeout=PATIENCE))
    assert process.returncode == 0, said + err
    assert "from the host\nx\n640\nruns\nlink\nreadme\nruns\n" in out, err
    names = [text.partition(":")[0] for text in (first, second)]
    assert "lost: " in err and f"moved: The sandbox ({names[0]}) was lost" in err
    asked = chat.requests()
    assert len(asked) == 4
    assert [len(notices(request)) for request in asked] == [0, 0, 1, 1]
    told, = notices(asked[2])
    assert texts(asked[2])[-1] == told and "outcome unknown" in texts(asked[2])[-2]
    assert f"Another one ({names[1]}) has taken its place" in told and "gone: 1." in told
    assert "/workspace is as it was" in told
    for line in ("+x", "+++ b/runs"):
        assert line in patch.read_text().splitlines()
    assert patch.read_text().count("+x") == 1
    sleep.wait(0)
    kept.wait(0)

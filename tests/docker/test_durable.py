"""Machines that outlive their host process, on a real engine."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from dockerd import IMAGE
from host import GO, Host, count, counted, kill_all, read_all
from patience import PATIENCE
from program import call

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
EXEC = BUILD / "tests" / "contract" / "exec-tool"
WALDO = BUILD / "examples" / "cli" / "waldo"


class Durable:
    def __init__(self, engine, folder):
        self.engine = engine
        self.state = folder / "state"
        self.hosts = []

    def host(self, options=",lease=600", sandbox=None, state=None):
        text = sandbox if sandbox is not None else f"docker:{IMAGE}{options}"
        host = Host(text, state or self.state, {"DOCKER_HOST": self.engine.url})
        self.hosts.append(host)
        return host

    def one(self):
        found = self.engine.containers()
        assert len(found) == 1, found
        return found[0]

    def inspect(self):
        return self.engine.ask("GET", f"/v1.41/containers/{self.one()['Id']}/json")[1]

    def remove_all(self):
        for container in self.engine.containers():
            self.engine.ask("DELETE", f"/v1.41/containers/{container['Id']}?force=1&v=1")


@pytest.fixture
def durable(engine, tmp_path):
    before = engine.volumes()
    made = Durable(engine, tmp_path)
    yield made
    kill_all(made.hosts)
    made.remove_all()
    assert engine.wait(lambda: not engine.containers()), engine.containers()
    assert engine.wait(lambda: engine.volumes() <= before), engine.volumes() - before


def test_killed_host_and_the_next_one(durable):
    """The exact remaining output from where the first had come to, and the exit code."""
    a = durable.host()
    assert a.good("open") == ""
    number = a.start(count(waits=True))
    a.good("save")
    head, offset, over = a.heard(number, b"line 0\n")
    assert over is None and offset == len(head)
    a.kill()
    b = durable.host()
    b.good("open")
    assert b.good("list") == f"{number}+"
    b.run(f"touch {GO}")
    rest, over = read_all(b, number, offset)
    assert head + rest == counted()
    assert over == (1, 7)
    assert b.start("echo next") > number
    b.good("close")
    b.finish()
    assert durable.engine.wait(lambda: not durable.engine.containers())


def test_ended_meanwhile(durable):
    a = durable.host()
    a.good("open")
    number = a.start("echo done; exit 3")
    other = a.start("cat; exit 4")
    a.good("save")
    assert a.read(number, 0, 20000)[2] == (1, 3)
    a.kill()
    b = durable.host()
    b.good("open")
    assert b.good("list") == f"{number} {other}+"
    assert b.read(number, 0, 0) == (b"done\n", 5, (1, 3))
    assert b.good(f"write {other} from the second") == ""
    assert b.good(f"eof {other}") == ""
    assert b.read(other, 0, 20000) == (b"from the second\n", 16, (1, 4))
    b.good("close")


def test_plain_commands_end_with_their_host(durable):
    """What nobody would ever hear of again is not left running; nor is it while the host lives on."""
    a = durable.host()
    a.good("open")
    a.good("save")
    a.say("exec sleep 1234")
    assert durable.engine.wait(lambda: "1234" in running(durable))
    a.kill()
    assert durable.engine.wait(lambda: "1234" not in running(durable))
    assert durable.inspect()["State"]["Running"]


def running(durable):
    top = durable.engine.ask("GET", f"/v1.41/containers/{durable.one()['Id']}/top?ps_args=-eo%20pid,args")[1]
    return "\n".join(row[-1] for row in top["Processes"])


def test_taken_over(durable):
    """The newer host has it; the older one is told so, and ends nothing."""
    a = durable.host()
    a.good("open")
    number = a.start("while sleep 0.1; do echo tick; done")
    a.good("save")
    b = durable.host()
    b.good("open")
    assert a.ask("exec true").startswith("OK end=6")  # sent, and then it was lost
    lost = a.ask("exec true")
    assert lost.startswith("WALDO_ELOST") and "another process has opened the same machine" in lost
    a.finish()
    assert b.good("list") == f"{number}+"
    assert b.run("echo mine") == "mine\n"
    b.good(f"cancel {number}")
    _, _, over = b.read(number, 0, 20000)
    assert over[0] == 4
    b.good("close")
    assert durable.engine.wait(lambda: not durable.engine.containers())


def test_the_lease_ends_it(durable):
    """Volumes, too: the fixture looks. While a host is there it does not run."""
    a = durable.host()
    a.good("open")
    assert durable.inspect()["Config"]["Cmd"][-1] == "600000"
    a.start("sleep 1000")
    a.good("save")
    a.kill()
    b = durable.host(",lease=1500ms")  # a new one would have to be reached within it
    b.good("open")
    time.sleep(2)
    assert b.run("echo alive") == "alive\n"
    b.kill()
    assert durable.engine.wait(lambda: not durable.engine.containers())
    c = durable.host(",lease=1500ms")
    gone = c.ask("open")
    assert gone.startswith("WALDO_ENOTFOUND") and "its lease ended" in gone


def test_lease_of_one_that_is_reached(durable):
    """Asked for anew it is changed; else it stays."""
    a = durable.host()
    a.good("open")
    a.good("save")
    a.kill()
    b = durable.host(",lease=1")
    b.good("open")
    b.good("detach")
    assert b.ask("open").startswith("WALDO_ECLOSED")
    assert durable.engine.wait(lambda: not durable.engine.containers())


def test_detach_and_close(durable):
    a = durable.host()
    a.good("open")
    number = a.start("echo up; sleep 1000")
    a.good("save")
    assert a.heard(number, b"up\n")[0] == b"up\n"
    a.good("detach")
    a.finish()
    assert durable.inspect()["State"]["Running"]
    b = durable.host("")  # the saved bytes say enough
    b.good("open")
    assert b.good("list") == f"{number}+"
    b.finish()  # the last user of one without a name ends it
    assert durable.engine.wait(lambda: not durable.engine.containers())


def test_what_was_sent_before_detach_arrives(durable):
    a = durable.host()
    a.good("open")
    number = a.start("cat > got; sleep 1000")
    a.good("save")
    for _ in range(20):
        a.good(f"write {number} {'x' * 9999}")
    a.good("detach")
    b = durable.host()
    b.good("open")
    assert durable.engine.wait(lambda: b.run("wc -c < got") == "200000\n"), b.run("wc -c < got")
    b.good("close")


def test_workspace_is_as_it_was_left(durable):
    a = durable.host()
    assert a.run("echo 1 > file; pwd") == "/workspace\n"
    a.good("save")
    a.kill()
    b = durable.host()
    assert b.run("cat file; echo 2 >> file") == "1\n"
    assert b"+1\n+2\n" in bytes.fromhex(b.good("changes")[1:])
    b.good("close")


def test_named_from_two_processes_at_once(durable):
    """One machine, whoever made it; the later session has it, the other is told."""
    state = durable.state.with_name("none")
    for _ in range(3):
        hosts = [durable.host(",name=lab", state=state) for _ in range(4)]
        for host in hosts:
            host.say("open")
        answers = [host.hear() for host in hosts]
        assert sum(answer == "OK" for answer in answers) >= 1, answers
        for answer in answers:
            assert answer == "OK" or "another process has opened the same machine" in answer, answers
        assert durable.one()["Names"] == ["/waldo-lab"]
        assert durable.one()["Labels"]["dev.waldo.name"] == "lab"
        assert durable.one()["Labels"]["dev.waldo.lease"] == "86400000"
        for host in hosts:
            host.finish()
        assert durable.inspect()["State"]["Running"]
        durable.remove_all()
        assert durable.engine.wait(lambda: not durable.engine.containers())


def test_named_goes_on(durable):
    state = durable.state.with_name("none")
    a = durable.host(",name=lab", state=state)
    refused = a.ask("start sleep 1000")
    assert refused.startswith("WALDO_EBUSY") and "opened before" in refused
    assert a.run("echo kept > file") == ""
    number = a.start("sleep 1000")
    a.finish()
    b = durable.host(sandbox="@lab", state=state)
    assert b.run("cat file") == "kept\n"
    assert b.good("list") == f"{number}+"
    changes = b.ask("changes")
    assert changes.startswith("WALDO_ENOTSUP") and "was there before" in changes
    b.good("close")  # lets it go
    b.finish()
    assert durable.inspect()["State"]["Running"]


def test_named_one_whose_maker_died(durable):
    """A container that was made but never started is gone on with."""
    state = durable.state.with_name("none")
    a = durable.host(",name=lab", state=state)
    a.good("open")
    old = durable.inspect()
    a.finish()
    durable.remove_all()
    assert durable.engine.wait(lambda: not durable.engine.containers())
    body = {**old["Config"], "HostConfig": {**old["HostConfig"], "Binds": None}}
    status, made = durable.engine.ask("POST", "/v1.41/containers/create?name=waldo-lab", json.dumps(body))
    assert status == 201, made
    missing = durable.host(sandbox="@lab", state=state).ask("open")
    assert missing.startswith("WALDO_ELOST") and "created" in missing
    b = durable.host(",name=lab", state=state)
    assert b.run("echo works > f; cat f") == "works\n"
    assert durable.one()["Id"] == made["Id"]


def test_no_machine_of_that_name(durable):
    answer = durable.host(sandbox="@nobody").ask("open")
    assert answer.startswith("WALDO_ENOTFOUND") and "no machine named nobody" in answer


def forged(durable, container, run="x" * 16):
    inner = json.dumps({"container": container, "run": run})
    durable.state.write_text(json.dumps({"waldo": "sandbox", "version": 1, "backend": "docker", "background": 0,
                                         "workspace": "empty", "machine": inner}))
    return durable.host().ask("open")


def test_forged_states(durable):
    """No container of others is entered, whatever the bytes say."""
    status, made = durable.engine.ask("POST", "/v1.41/containers/create?name=waldo-theirs",
                                      f'{{"Image":"{IMAGE}","Cmd":["sleep","1000"]}}')
    assert status == 201
    durable.engine.ask("POST", f"/v1.41/containers/{made['Id']}/start")
    try:
        answer = forged(durable, made["Id"])
        assert answer.startswith("WALDO_EACCESS") and "not one of waldo's" in answer
        answer = durable.host(",name=theirs", state=durable.state.with_name("none")).ask("open")
        assert answer.startswith("WALDO_EACCESS") and "not one of waldo's" in answer
    finally:
        assert durable.engine.ask("DELETE", f"/v1.41/containers/{made['Id']}?force=1")[0] == 204
    assert forged(durable, made["Id"]).startswith("WALDO_ENOTFOUND")
    for bad in ["", "../../version", made["Id"][:12], made["Id"].upper() + "x", made["Id"][:-1] + "/"]:
        answer = forged(durable, bad)
        assert answer.startswith("WALDO_EINVAL") and "names no container" in answer
    assert forged(durable, made["Id"], run="a b").startswith("WALDO_EINVAL")


def test_states_of_other_machines_of_ours(durable):
    """One without a lease belongs to its process; one that was made anew is another."""
    process = subprocess.Popen([EXEC, f"docker:{IMAGE}", "-", "copy", "echo up; sleep 1000"], stdout=subprocess.PIPE,
                               env={**os.environ, "DOCKER_HOST": durable.engine.url})
    assert process.stdout.readline() == b"up\n"
    ephemeral = durable.one()
    answer = forged(durable, ephemeral["Id"], ephemeral["Labels"]["dev.waldo.run"])
    process.kill()
    process.communicate()
    assert answer.startswith("WALDO_EACCESS") and "has no lease" in answer
    assert durable.engine.wait(lambda: not durable.engine.containers())
    durable.state.unlink()
    a = durable.host()
    a.good("open")
    answer = forged(durable, durable.one()["Id"])
    assert answer.startswith("WALDO_EACCESS") and "not the one that was saved" in answer
    assert a.run("echo undisturbed") == "undisturbed\n"
    a.good("close")


def test_paused(durable):
    a = durable.host()
    a.good("open")
    a.good("save")
    a.kill()
    container = durable.one()["Id"]
    assert durable.engine.ask("POST", f"/v1.41/containers/{container}/pause")[0] == 204
    b = durable.host()
    assert b.run("echo again") == "again\n"
    b.good("close")


def test_container_of_a_durable_machine(durable):
    a = durable.host()
    a.good("open")
    info = durable.inspect()
    assert not info["Config"]["OpenStdin"] and not info["Config"]["StdinOnce"]
    assert info["HostConfig"]["AutoRemove"] and info["HostConfig"]["CapDrop"] == ["ALL"]
    assert info["Config"]["User"] == "1000:1000"
    # The process that passes the streams on is root without any right, and the commands are not.
    assert a.run("id -u; grep -c 'CapEff:.*0000000000000000' /proc/self/status").split() == ["1000", "1"]
    # From inside nobody attaches: the session goes on.
    address = info["Config"]["Cmd"][1]
    assert a.run(f"/run/waldo/waldo-hand attach {address} < /dev/null > /dev/null 2>&1; echo $?") == "4\n"
    assert a.run("echo undisturbed") == "undisturbed\n"
    a.good("close")


def test_many_sessions(durable):
    """Each leaves nothing behind: no process, and the numbers go on."""
    a = durable.host()
    a.good("open")
    first = a.start("sleep 1000")
    a.good("save")
    a.kill()
    for i in range(10):
        b = durable.host()
        b.good("open")
        assert b.start("true") == first + 1 + i
        b.kill() if i % 2 else b.good("detach")
    assert durable.engine.wait(lambda: len(running(durable).splitlines()) <= 4), running(durable)


def attached(durable):
    """The host's pids of the process that passes the streams on."""
    top = durable.engine.ask("GET", f"/v1.41/containers/{durable.one()['Id']}/top?ps_args=-eo%20pid,args")[1]
    return [int(row[0]) for row in top["Processes"] if "waldo-hand attach" in row[-1]]


@pytest.mark.skipif(os.geteuid() != 0, reason="ends a process of the container from outside")
def test_stream_that_breaks(durable):
    """The machine is reached again by itself: background commands go on, plain ones end as lost."""
    a = durable.host()
    a.good("open")
    number = a.start(count(60, waits=True))
    ended = a.start("echo over")
    assert a.read(ended, 0, 20000)[2] == (1, 0)
    time.sleep(1.1)  # sooner it is not tried
    a.say("exec sleep 1000")
    assert durable.engine.wait(lambda: "sleep 1000" in running(durable))
    os.kill(attached(durable)[0], signal.SIGKILL)
    assert a.hear().startswith("OK end=6")
    assert a.run("echo here") == "here\n"
    assert a.good("list") == f"{number}+ {ended}"
    a.run(f"touch {GO}")
    text, over = read_all(a, number)
    assert text == counted(60) and over == (1, 7)
    assert a.read(ended, 0, 0)[2] == (1, 0)
    assert a.start("true") == ended + 1
    a.good("close")
    assert durable.engine.wait(lambda: not durable.engine.containers())


@pytest.mark.skipif(os.geteuid() != 0, reason="ends a process of the container from outside")
def test_stream_that_breaks_while_it_is_read(durable):
    a = durable.host()
    a.good("open")
    number = a.start("echo 1; read x; echo 2; exit 3")
    assert a.heard(number, b"1\n")[:2] == (b"1\n", 2)
    time.sleep(1.1)
    assert a.ask(f"follow {number} 0 600000") == "OK"
    os.kill(attached(durable)[0], signal.SIGKILL)
    assert "running" in a.hear()  # what there was; it goes on
    for _ in range(100):
        if a.ask(f"write {number} go") == "OK":
            break
        a.run("true")  # drives its loop
    assert read_all(a, number) == (b"1\n2\n", (1, 3))
    a.good("close")


def test_container_that_ends(durable):
    a = durable.host()
    a.good("open")
    number = a.start("sleep 1000")
    time.sleep(1.1)
    a.say("exec sleep 1000")
    assert durable.engine.wait(lambda: running(durable).count("sleep 1000") >= 2)
    assert durable.engine.ask("POST", f"/v1.41/containers/{durable.one()['Id']}/kill")[0] == 204
    assert a.hear().startswith("OK end=6")
    lost = a.ask("exec true")
    assert lost.startswith("WALDO_ELOST") and "nor can it be reached again" in lost, lost
    assert "end=6" in a.ask(f"read {number} 0 0")
    a.finish()


def cli(durable, *words):
    return subprocess.run([WALDO, "exec", *words], capture_output=True, timeout=PATIENCE, check=False, text=True,
                          env={**os.environ, "DOCKER_HOST": durable.engine.url})


def test_command_line(durable):
    done = cli(durable, "-s", f"docker:{IMAGE},name=lab", "--", "sh", "-c", "echo kept > file; exit 6")
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    done = cli(durable, "-s", "@lab", "--", "cat", "file")
    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr
    done = cli(durable, "-s", "@other", "--", "true")
    assert done.returncode == 125 and "docker:IMAGE,name=other" in done.stderr
    assert durable.one()["State"] == "running"


def test_sessions_of_one_run_in_the_next(durable, waldo, chat):
    """What a model left running is there, under its number, for the run of another process."""
    words = ["-m", f"chat:{chat.url}#any", "-s", f"docker:{IMAGE},name=lab"]
    env = {"DOCKER_HOST": durable.engine.url}
    chat.queue(call(cmd="echo first; read line; echo got $line; exit 5", yield_time_ms=300), {"text": "{result}"})
    done = waldo("run", *words, "start it", env=env)
    assert done.returncode == 0 and "Still running as session 1" in done.stdout, (done.stdout, done.stderr)
    chat.queue(call(cmd="exit 3", yield_time_ms=20000), call("write_stdin", session_id=1, chars="word\n",
                                                            yield_time_ms=20000), {"text": "{result}"})
    done = waldo("run", *words, "go on", env=env)
    assert done.returncode == 0, done.stderr
    assert "Exit code: 5" in done.stdout and "got word" in done.stdout

"""`attach=`: a container that waldo has not made is used, left as it was, and never ended."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from dockerd import IMAGE, tar_of
from host import Host, kill_all, read_all
from program import PROGRAM

PROGRAM_S = 180
WAITS = ("sh", "-c", "trap exit TERM; [ -d /tmp ] || mkdir /tmp; chmod 1777 /tmp; echo up; "
                     "while :; do sleep 0.1 & wait $!; done")


class Foreign:
    """A container of somebody else's."""

    def __init__(self, engine, image=IMAGE, cmd=WAITS, host=None, says=b"up", **config):
        self.engine = engine
        status, made = engine.ask("POST", "/v1.41/containers/create", json.dumps(
            {"Image": image, "Cmd": list(cmd), "Labels": {"whose": "another's"}, "HostConfig": host or {}, **config}))
        assert status == 201, made
        self.id = made["Id"]
        status, answer = engine.ask("POST", f"/v1.41/containers/{self.id}/start")
        assert status == 204, answer
        assert engine.wait(lambda: says in engine.ask("GET", f"/v1.41/containers/{self.id}/logs?stdout=1")[1])
        self.pid = self.inspect()["State"]["Pid"]

    def post(self, what):
        return self.engine.ask("POST", f"/v1.41/containers/{self.id}/{what}")[0]

    def inspect(self):
        return self.engine.ask("GET", f"/v1.41/containers/{self.id}/json")[1]

    def files(self):
        """What was made or changed in its own layer."""
        return {each["Path"] for each in self.engine.ask("GET", f"/v1.41/containers/{self.id}/changes")[1] or []}

    def top(self):
        return self.engine.ask("GET", f"/v1.41/containers/{self.id}/top?ps_args=-eo%20pid,args")[1]["Processes"]

    def running(self):
        return {int(row[0]): row[-1] for row in self.top()}

    def is_clean(self):
        return (not any(".waldo" in path for path in self.files())
                and all("waldo" not in words and "<defunct>" not in words and "hand" not in words
                        for words in self.running().values()))

    def waldo(self, *words, options=""):
        return subprocess.run([PROGRAM, "exec", "-s", f"docker:,attach={self.id}{options}", *words], timeout=PROGRAM_S,
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "DOCKER_HOST": self.engine.url})

    def expect_untouched(self):
        """Alive under the same process, and nothing of ours in it."""
        assert self.engine.wait(self.is_clean), (self.files(), self.running())
        state = self.inspect()["State"]
        assert state["Status"] == "running" and state["Pid"] == self.pid


@pytest.fixture
def make(engine):
    made = []

    def one(*args, **config):
        made.append(Foreign(engine, *args, **config))
        return made[-1]
    yield one
    for each in made:
        engine.ask("DELETE", f"/v1.41/containers/{each.id}?force=1&v=1")


@pytest.fixture
def foreign(make):
    one = make()
    yield one
    one.expect_untouched()


@pytest.fixture
def host(engine, tmp_path):
    made = []

    def one(container, options=""):
        made.append(Host(f"docker:,attach={container.id}{options}", tmp_path / "state", {"DOCKER_HOST": engine.url}))
        return made[-1]
    yield one
    kill_all(made)


def test_command_line(foreign):
    done = foreign.waldo("--", "sh", "-c", "id -u; pwd; echo kept > file; exit 6")
    assert (done.returncode, done.stdout) == (6, "1000\n/workspace\n"), done.stderr
    foreign.expect_untouched()
    done = foreign.waldo("--timeout", "100", "--", "cat", "file")  # the work is there
    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr
    done = foreign.waldo("--", "sh", "-c", "sleep 1000 & sleep 1000 & kill -9 $$")
    assert done.returncode == 137, done.stderr


def test_whose_commands_run(make):
    one = make(User="7:8", host={"Tmpfs": {"/tmp": "exec,mode=1777"}})
    assert one.waldo("--", "sh", "-c", "id -u; id -g").stdout == "7\n8\n"
    assert one.waldo("--", "id", "-u", options=",user=5").stdout == "5\n"
    assert one.waldo("--", "id", "-u", options=",user=0").stdout == "0\n"
    one.expect_untouched()


def test_the_hand_belongs_to_root(foreign, host):
    """What a command cannot replace, root does not run for it."""
    a = host(foreign)
    assert a.run("exec 2>/dev/null; for d in /tmp/.waldo-*; do cat x > $d/h; rm -rf $d; mv $d /tmp/x || echo kept; "
                 "done; ls -d /tmp/x") == "kept\n"
    attach = "set -- /tmp/.waldo-*; \"$1/h\" attach waldo-${1#/tmp/.waldo-}"
    assert a.run(f"{attach} </dev/null >/dev/null; echo $?") == "4\n"
    a.good("close")
    a.finish()


@pytest.mark.parametrize("unsafe", ["chmod 777 /tmp", "chown 1000 /tmp; chmod 1777 /tmp",
                                    "chgrp 1000 /tmp; chmod 775 /tmp"])
def test_places_that_others_may_change(make, host, unsafe):
    """Nor is a program of theirs run by its name."""
    one = make(cmd=("sh", "-c", f"mkdir /tmp /evil /run; {unsafe}; echo '#!/bin/sh' > /evil/mkdir; "
                                "echo 'echo > /evil/ran' >> /evil/mkdir; chmod -R 777 /evil; echo up; "
                                "while :; do sleep 0.1 & wait $!; done"), Env=["PATH=/evil:/bin"])
    a = host(one)
    assert a.run("ls -d /tmp/.waldo-* /evil/ran 2>/dev/null; ls -d /run/.waldo-*").startswith("/run/.waldo-")
    a.finish()
    one.expect_untouched()


def test_the_end_of_the_runtime_ends_the_hand(foreign, host):
    a = host(foreign)
    a.start("sleep 1000")
    assert a.run("echo here") == "here\n"
    a.finish()


def test_killed_host(foreign, host):
    """Plain commands end at once, those in the background and the hand with the lease."""
    first = host(foreign, ",lease=600")
    first.good("open")
    first.good("save")
    first.kill()
    a = host(foreign, ",lease=1")  # a new hand would have to be reached within it
    a.good("open")
    a.start("sleep 1001")
    a.say("exec sleep 1002")
    assert foreign.engine.wait(lambda: "sleep 1002" in foreign.running().values())
    a.kill()
    assert foreign.engine.wait(lambda: "sleep 1002" not in foreign.running().values())
    assert foreign.engine.wait(lambda: "sleep 1001" not in foreign.running().values())


def test_saved_and_reached_again(foreign, host):
    a = host(foreign, ",lease=600")
    a.good("open")
    number = a.start("echo 1; read x; echo 2; exit 3")
    a.good("save")
    a.kill()
    b = host(foreign, ",lease=600")
    b.good("open")
    assert b.good("list") == f"{number}+"
    b.good(f"write {number} go")
    assert read_all(b, number) == (b"1\n2\n", (1, 3))
    b.good("detach")
    b.finish()
    c = host(foreign)
    assert c.good("open") == "" and c.good("list") == str(number)
    c.good("close")
    c.finish()
    foreign.expect_untouched()
    d = host(foreign)
    assert d.ask("open").startswith("WALDO_"), "its hand has ended"


@pytest.mark.skipif(os.geteuid() != 0, reason="ends a process of the container from outside")
def test_stream_that_breaks(foreign, host):
    """No lease is needed for the way back."""
    a = host(foreign)
    a.good("open")
    number = a.start("echo 1; read x; echo 2; exit 3")
    time.sleep(1.1)  # sooner it is not tried
    a.say("exec sleep 1000")
    assert foreign.engine.wait(lambda: "sleep 1000" in foreign.running().values())
    os.kill(next(pid for pid, words in foreign.running().items() if "h attach" in words), signal.SIGKILL)
    assert a.hear().startswith("OK end=6")
    assert a.run("echo here") == "here\n"
    a.good(f"write {number} go")
    assert read_all(a, number) == (b"1\n2\n", (1, 3))
    a.good("close")


@pytest.mark.skipif(os.geteuid() != 0, reason="ends a process of the container from outside")
def test_hand_that_is_killed(foreign, host):
    a = host(foreign)
    a.good("open")
    a.say("exec sleep 1000")
    assert foreign.engine.wait(lambda: "sleep 1000" in foreign.running().values())
    os.kill(next(pid for pid, words in foreign.running().items() if "h durable" in words), signal.SIGKILL)
    assert a.hear().startswith("OK end=6")
    assert a.ask("exec true").startswith("WALDO_ELOST")
    a.finish()


def test_gc_and_the_like_do_not_know_it(foreign, host):
    a = host(foreign)
    a.good("open")
    env = {**os.environ, "DOCKER_HOST": foreign.engine.url}
    listed = subprocess.run([PROGRAM, "ps", "--all", "--json"], env=env, capture_output=True, text=True, check=True)
    assert foreign.id not in listed.stdout
    for words in ((), (foreign.id,), ("--all",)):
        subprocess.run([PROGRAM, "gc", *words], env=env, capture_output=True, check=False)
    assert a.run("echo here") == "here\n"
    a.good("close")


def test_several_at_once(foreign, host):
    hosts = [host(foreign) for _ in range(3)]
    for i, each in enumerate(hosts):
        assert each.run(f"echo {i} > {i}; cat {i}") == f"{i}\n"
    hosts[0].good("close")
    assert hosts[1].run("cat 0 1 2") == "0\n1\n2\n"
    for each in hosts:
        each.finish()


def test_a_place_where_programs_may_run(make):
    """Read-only, and /tmp may not be run from."""
    one = make(cmd=("sh", "-c", "echo up; while :; do sleep 0.1 & wait $!; done"),
               host={"ReadonlyRootfs": True, "Tmpfs": {"/tmp": "", "/run": "exec", "/workspace": "mode=1777"},
                     "CapDrop": ["ALL"]})
    done = one.waldo("--", "sh", "-c", "echo x > f; cat f; ls -d /run/.waldo-*")
    assert done.returncode == 0 and done.stdout.startswith("x\n/run/.waldo-"), done.stderr
    one.expect_untouched()
    shut = make(cmd=("sh", "-c", "echo up; while :; do sleep 0.1 & wait $!; done"), host={"ReadonlyRootfs": True})
    done = shut.waldo("--", "true")
    assert done.returncode == 125 and "a folder of root's that files may be run from" in done.stderr, done.stderr
    shut.expect_untouched()


def test_refused(make, engine):
    one = make()
    for options, words in ((",memory=1g", "memory cannot be asked of it"), (",cpus=1", "cpus cannot"),
                           (",pids=10", "pids cannot"), (",net=none", "net cannot"), (",name=lab", "name cannot"),
                           (",spares=1", "spares cannot"), (",pull=missing", "leave the image, pull"),
                           (",hand=never", "hand=never out"), (",tmp=1g", "tmp and"),
                           (",min_isolation=vm", "separates by container only")):
        done = one.waldo("--", "true", options=options)
        assert done.returncode in (2, 125) and words in done.stderr, (options, done.stderr)
    done = one.waldo("-w", ".", "--", "true")
    assert done.returncode in (2, 125) and "a workspace cannot be asked of it" in done.stderr
    env = {**os.environ, "DOCKER_HOST": engine.url}
    for sandbox, words in ((f"docker:{IMAGE},attach={one.id}", "leave the image"),
                           ("docker:,attach=a/b", "id or name"), ("docker:,attach=", "attach must be"),
                           ("fake:,attach=x", "cannot use machines made elsewhere"),
                           ("docker:,attach=nothing-of-this-name", "No such container")):
        done = subprocess.run([PROGRAM, "exec", "-s", sandbox, "--", "true"], capture_output=True, text=True,
                              check=False, env=env)
        assert done.returncode in (2, 125) and words in done.stderr, (sandbox, done.stderr)
    assert one.post("pause") == 204
    done = one.waldo("--", "true")
    assert done.returncode in (5, 125) and f"docker unpause {one.id}" in done.stderr, done.stderr
    assert one.post("unpause") == 204
    one.expect_untouched()
    assert one.post("kill") == 204
    assert engine.wait(lambda: one.inspect()["State"]["Status"] == "exited")
    done = one.waldo("--", "true")
    assert done.returncode in (5, 125) and f"docker start {one.id}" in done.stderr, done.stderr


def test_one_of_ours(engine, host, make):
    """It has a hand and a lease of its own."""
    one = make(Labels={"dev.waldo.run": "x"})
    done = one.waldo("--", "true")
    assert done.returncode == 125 and "one of waldo's own" in done.stderr, done.stderr
    assert one.is_clean()


def test_without_a_shell(make, engine):
    engine.load("waldo-test-sleeper", tar_of({"bin/sleep": pathlib.Path("/bin/busybox").read_bytes()}))
    one = make(image="waldo-test-sleeper", cmd=("/bin/sleep", "1000"), says=b"")
    done = one.waldo("--", "true")
    assert done.returncode in (5, 125) and "needs /bin/sh" in done.stderr, done.stderr
    one.expect_untouched()


def test_looked_for(foreign, host):
    """Without opening it."""
    a = host(foreign)
    a.good(f"check docker:,attach={foreign.id}")
    assert a.ask("check docker:,attach=nothing-of-this-name").startswith("WALDO_ENOTFOUND")
    assert foreign.is_clean() and "/workspace" not in foreign.files()
    a.finish()


def test_copies(foreign, tmp_path):
    env = {**os.environ, "DOCKER_HOST": foreign.engine.url}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("text\n")
    for source, target in ((tmp_path / "in", ":in"), (":in/a", tmp_path / "out")):
        done = subprocess.run([PROGRAM, "cp", "-s", f"docker:,attach={foreign.id}", source, target], env=env,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text() == "text\n"


def test_podman(podman):
    one = Foreign(podman, image=f"localhost/{IMAGE}", cmd=WAITS)
    try:
        done = one.waldo("--", "sh", "-c", "id -u; echo x > f; cat f; exit 3")
        assert (done.returncode, done.stdout) == (3, "1000\nx\n"), done.stderr
        assert podman.wait(lambda: "h durable" not in str(one.top()))
        assert one.inspect()["State"]["Pid"] == one.pid
        done = one.waldo("--", "sh", "-c", "ls -d /tmp/.waldo-* | wc -l")
        assert done.stdout == "1\n"  # its own: the first one's is gone
    finally:
        podman.ask("DELETE", f"/v1.41/containers/{one.id}?force=1&v=1")

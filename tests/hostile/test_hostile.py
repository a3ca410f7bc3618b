"""Sandboxes whose code means harm: what happens is named, bounded, and nobody else's concern."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse

import pytest

from dockerd import IMAGE
from patience import PATIENCE
from program import call

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
HANG_S = 300
GROWTH_MAX_KB = 64 << 10  # of the host, whatever was thrown at it
SANITIZERS = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4"}


class Answer:
    def __init__(self, line):
        words = [urllib.parse.unquote_to_bytes(word) for word in line.rstrip("\n").split(" ")]
        assert len(words) == 5, line
        self.end = words[0].decode()
        self.code = int(words[1])
        self.out = words[2].decode(errors="replace")
        self.err = words[3].decode(errors="replace")
        self.total = int(words[4])

    def __repr__(self):
        return f"{self.end} {self.code} {self.out[:300]!r} {self.err[:300]!r} {self.total}"


class Host:
    """A process that embeds the library, with the sandboxes a and b."""

    def __init__(self, kind, spec, workspace, env):
        self.kind = kind
        self.process = subprocess.Popen([BUILD / "tests" / "hostile" / "host-tool", spec, workspace], env=env,
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(self, *words):
        self.process.stdin.write(" ".join(urllib.parse.quote(str(word)) for word in words) + "\n")
        self.process.stdin.flush()

    def ask(self, *words):
        self.say(*words)
        line = self.process.stdout.readline()
        assert line, "the host died"
        return line

    def run(self, cmd, ms=100000, where="a"):
        return Answer(self.ask("run", where, ms, cmd))

    def start(self, cmd, ms=600000, where="a"):
        line = self.ask("start", where, ms, f"echo up; {cmd}")
        assert line == "started\n", line

    def wait(self):
        """How those that were started ended."""
        ends = []
        line = self.ask("wait")
        while line != "waited\n":
            ends.append(Answer(line))
            line = self.process.stdout.readline()
            assert line, "the host died"
        return ends

    def do(self, verb, *words):
        return Answer(self.ask(verb, "a", *words))

    def peak_kb(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0
        self.process.stdout.close()


class Place:
    """Makes hosts of one kind of sandbox, and knows what may not be left of them."""

    def __init__(self, kind, engine, folder):
        self.kind = kind
        self.engine = engine
        self.folder = folder
        self.temp = folder / "temp"
        self.hosts = []
        self.volumes = engine.volumes() if engine else set()
        for name in ("temp", "work"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
        shutil.copy(BUILD / "tests" / "hostile" / "attack", folder / "work" / "attack")
        (folder / "work" / "file").write_text("old\n")
        self.env = {**os.environ, **SANITIZERS, "TMPDIR": str(self.temp)}
        if engine:
            self.env["DOCKER_HOST"] = engine.url

    def spec(self, options=""):
        return f"docker:{IMAGE}{options}" if self.kind == "docker" else f"local:{options}"

    def host(self, options=""):
        """Both sandboxes are open."""
        host = Host(self.kind, self.spec(options), self.folder / "work", self.env)
        self.hosts.append(host)
        assert host.run("echo a", where="a").out == "a\n"
        assert host.run("echo b", where="b").out == "b\n"
        return host

    def mine(self):
        """Processes on this machine that came from here: of hosts and sandboxes."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                root = os.readlink(f"/proc/{pid}/cwd")
            except OSError:
                continue
            if any(word.endswith(b"attack") for word in words[:1]) or str(self.folder) in root:
                found.append((pid, words))
        return found

    def finish(self):
        for host in self.hosts:
            if host.process.poll() is None:
                host.end()
        late = time.monotonic() + PATIENCE
        while (left := self.left()) and time.monotonic() < late:
            time.sleep(0.05)
        assert not left, left

    def left(self):
        found = [*self.mine(), *os.listdir(self.temp)]
        if self.engine:
            found += self.engine.containers()
        return found


@pytest.fixture(params=["local", "docker"])
def place(request):
    engine = request.getfixturevalue("engine") if request.param == "docker" else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="waldo-hostile-"))
    folder.chmod(0o755)
    made = Place(request.param, engine, folder)
    try:
        yield made
        made.finish()
        assert not engine or engine.wait(lambda: engine.volumes() <= made.volumes), engine.volumes() - made.volumes
    finally:
        for host in made.hosts:
            host.process.kill()
        shutil.rmtree(folder)


def lives(host, where="a"):
    """A sandbox that still does what it is for."""
    done = host.run("echo $((40 + 2)); cat file", where=where)
    assert (done.end, done.code, done.out) == ("exited", 0, "42\nold\n"), done


def lost_by_name(host, *words):
    """The sandbox is gone: said at once to every later command and request, with what became of it."""
    later = host.run("true")
    assert later.end == "WALDO_ELOST" and "lost" in later.err, later
    for word in words:
        assert word in later.err, later
    assert host.do("read", "file").end == "WALDO_ELOST"


# ---- signals ----

def test_it_kills_all_it_can(place):
    """Its own tree and its neighbours end by name; the hand cannot be killed, and the sandbox lives on."""
    host = place.host()
    host.start("sleep 600")
    done = host.run("./attack signal 9; echo survived")
    neighbour, = host.wait()
    assert neighbour.end in ("signaled", "lost") and done.end in ("exited", "signaled", "lost"), (neighbour, done)
    lives(host)
    lives(host, "b")


def test_it_stops_all_it_can(place):
    """What is stopped can neither answer nor end by itself: limits of time end it all the same."""
    host = place.host()
    host.start("sleep 6000", ms=10000)
    started = time.monotonic()
    done = host.run("./attack signal 19; echo survived", ms=10000)
    ends = [done, *host.wait()]
    assert time.monotonic() - started < HANG_S
    assert all(end.end in ("exited", "timed-out", "lost") for end in ends), ends
    lives(host, "b")


def test_it_asks_the_hand_to_end(place):
    host = place.host()
    done = host.run("kill -TERM 1 2 3; sleep 600", ms=100000)
    assert done.end in ("lost", "signaled"), done
    lives(host, "b")


# ---- the stream to the host ----

def test_it_cannot_reach_what_the_hand_holds(place):
    host = place.host()
    host.start("sleep 600")
    done = host.run("./attack invade")
    tried, = done.out.split("\n")[-2:-1]
    assert done.out == tried + "\n" and int(tried.split()[1]) >= 2, done
    lives(host)
    lives(host, "b")


def test_frames_in_output_are_output(place):
    host = place.host()
    before = host.peak_kb()
    done = host.run("./attack flood 200", ms=300000)
    assert (done.end, done.code, done.total) == ("exited", 0, 400 << 20), done
    assert "\x87" not in done.err[:10] and host.peak_kb() - before < GROWTH_MAX_KB
    lives(host)


def test_many_floods_at_once(place):
    """Without end: bounded memory, and the other sandbox is served meanwhile."""
    host = place.host()
    before = host.peak_kb()
    for _ in range(4):
        host.start("./attack flood 1000000", ms=10000)
    lives(host, "b")
    ends = host.wait()
    assert [end.end for end in ends] == ["timed-out"] * 4 and all(end.total > 1 << 20 for end in ends), ends
    assert host.peak_kb() - before < GROWTH_MAX_KB
    lives(host)


# ---- resources ----

def test_fork_bomb(place):
    host = place.host(",pids=60")
    done = host.run("./attack fork & ./attack fork & sleep 600", ms=5000)
    assert done.end in ("timed-out", "lost"), done
    if done.end == "timed-out":
        lives(host)
    lives(host, "b")


def test_one_process_eats_memory(place):
    host = place.host(",memory=48m" if place.kind == "docker" else ",memory=100m")
    done = host.run("./attack eat 2000")
    if place.kind == "docker":
        assert done.end == "oom", done
    else:  # a limit of each process: the kernel refuses
        assert (done.end, done.code) == ("exited", 9) and "refused after" in done.out, done
    lives(host)
    lives(host, "b")


def test_memory_that_no_kill_gives_back(place):
    """Files in memory count as well; when the hand itself has to go the reason is told."""
    if place.kind == "local":
        pytest.skip("memory= is a limit of each process there")
    for _ in range(5):
        host = place.host(",memory=16m,tmp=200m")
        for number in range(20):
            done = host.run(f"./attack fill 100 /tmp/a{number} & ./attack fill 100 /tmp/b{number} & wait; true")
            assert done.end in ("exited", "oom", "signaled", "lost", "WALDO_EBUSY", "WALDO_ESTART", "WALDO_ELOST"), done
            if done.end == "WALDO_ELOST":
                break
        lost_by_name(host)
        lives(host, "b")
        why = host.run("true").err
        if "memory" in why:
            break
        # The engine may have forgotten it before it was asked, or be slower than the host waits for a reason.
        assert "ended and is gone" in why or "or hangs" in why, why
    assert "memory" in why


@pytest.mark.parametrize("where", ["/tmp", "/dev/shm"])
def test_full_places_in_memory(place, where):
    host = place.host(",tmp=8m")
    done = host.run(f"./attack fill 500 {where}/big")
    assert done.end == "exited" and "No space left" in done.out, done
    assert host.run("ls /dev; echo x > /dev/x").code != 0
    if where == "/tmp":
        written = host.do("write", "/tmp/x", "y")
        assert written.end in ("WALDO_ENOSPACE", "WALDO_OK"), written
    lives(host)
    assert host.do("write", "new", "text").end == "WALDO_OK"
    lives(host, "b")


def test_all_descriptors(place):
    host = place.host()
    done = host.run("./attack descriptors")
    assert done.code == 0 and "then" in done.out and int(done.out.split()[0]) < 5000, done
    lives(host)


# ---- files ----

WAYS = ("/etc", "/", "..", "/proc/1/root", "/proc/self/root/etc", "/tmp")


@pytest.mark.parametrize("way", WAYS)
def test_links_out_of_the_workspace(place, way):
    """Refused by name, in reading and writing; what a link is shows in the changes, never what it leads to."""
    host = place.host()
    assert host.run(f"echo secret > /tmp/passwd; ln -s {way} link; ln -s link second; mkdir d; ln -s ../link/passwd d/f"
                    ).code == 0
    for path in ("link/passwd", "second/passwd", "d/f", "link"):
        read = host.do("read", path)
        assert read.end in ("WALDO_EPATH", "WALDO_ENOTFOUND") and len(read.err) > 10 and not read.out, (path, read)
        assert "secret" not in read.out and "root:" not in read.out
    for path in ("link/new", "second/new"):
        written = host.do("write", path, "x")
        assert written.end == "WALDO_EPATH", (path, written)
    assert host.run(f"ls {way}/new").code != 0
    changes = host.do("changes")
    assert changes.end == "WALDO_OK" and f"+{way}" in changes.out and "root:" not in changes.out, changes
    lives(host)


def test_names_that_nobody_would_choose(place):
    host = place.host()
    done = host.run(r"""echo 1 > "$(printf 'a\nb')"; echo 2 > "$(printf '\033[2J')"; echo 3 > ' b '; echo 4 > -rf;"""
                    r""" echo 5 > "$(printf '\377\376')"; echo 6 > '"q"'; echo 7 > 'a b => c'""")
    assert done.code == 0, done
    changes = host.do("changes")
    assert changes.end == "WALDO_OK", changes
    assert r'"b/a\012b"' in changes.out and r'"b/\033[2J"' in changes.out and "\033" not in changes.out
    assert host.do("read", "a\nb").out == "1\n"
    lives(host)


def test_a_hundred_thousand_files(place):
    """Their changes are told or refused by name; the host grows by a bounded amount."""
    host = place.host()
    before = host.peak_kb()
    assert host.run("mkdir many && cd many && ../attack many 100000", ms=300000).code == 0
    changes = host.do("changes")
    assert changes.end != "WALDO_OK" and "files" in changes.err or changes.total > 100000, changes
    assert host.peak_kb() - before < 2 * GROWTH_MAX_KB
    lives(host)


def test_deep_folders(place):
    host = place.host()
    assert host.run("./attack deep 3000").end == "exited"
    changes = host.do("changes")
    assert changes.end == "WALDO_OK" or len(changes.err) > 10, changes
    lives(host)
    lives(host, "b")


def test_a_file_larger_than_all_memory(place):
    host = place.host()
    before = host.peak_kb()
    assert host.run("truncate -s 1000G huge; truncate -s 1000G file2").code == 0
    read = host.do("read", "huge")
    assert read.end == "WALDO_OK" and read.total == 1000 << 30, read
    changes = host.do("changes")
    assert changes.end != "WALDO_OK" and "huge" in changes.err or "file2" in changes.err, changes
    assert host.peak_kb() - before < GROWTH_MAX_KB
    lives(host)


# ---- what others do to it ----

def container_of_a(place):
    """The older one."""
    return place.engine.containers()[-1]["Id"]


only_docker = pytest.mark.parametrize("place", ["docker"], indirect=True)


@only_docker
def test_removed_from_outside(place):
    host = place.host()
    host.start("sleep 600")
    assert place.engine.ask("DELETE", f"/v1.41/containers/{container_of_a(place)}?force=1&v=1")[0] == 204
    assert [end.end for end in host.wait()] == ["lost"]
    lost_by_name(host)
    lives(host, "b")


@only_docker
def test_paused_from_outside(place):
    """Nobody inside can answer: the host's own deadline ends the wait, and the sandbox."""
    host = place.host()
    host.start("sleep 6000", ms=15000)
    started = time.monotonic()
    assert place.engine.ask("POST", f"/v1.41/containers/{container_of_a(place)}/pause")[0] == 204
    end, = host.wait()
    assert end.end in ("lost", "timed-out") and time.monotonic() - started < HANG_S, end
    lost_by_name(host, "in time")
    lives(host, "b")
    assert host.do("close").end == "WALDO_OK"
    assert place.engine.wait(lambda: len(place.engine.containers()) == 1)


@only_docker
def test_the_engine_restarts(place):
    """In good order, which ends its containers: all is lost by name, and the next sandbox opens."""
    if place.engine.process is None:
        pytest.skip("the engine is not ours")
    host = place.host()
    host.start("sleep 600")
    place.engine.end(signal.SIGTERM)
    place.engine.start()
    assert [end.end for end in host.wait()] == ["lost"]
    lost_by_name(host)
    lives(place.host())
    place.finish()

    def swept():
        """Such an end of an engine leaves volumes."""
        for volume in place.engine.volumes() - place.volumes:
            place.engine.ask("DELETE", f"/v1.41/volumes/{volume}")
        return place.engine.volumes() <= place.volumes

    assert place.engine.wait(swept)


# ---- a run ----

@pytest.mark.parametrize("kind", ["local", "docker"])
def test_a_run_goes_on(request, agent, chat, kind):
    """The model is told what became of its sandbox, and the conversation is the host's."""
    env = {}
    if kind == "docker":
        engine = request.getfixturevalue("engine")
        env = {"DOCKER_HOST": engine.url}
        agent.args = (*agent.args[:-1], f"docker:{IMAGE}")
    chat.queue(call(cmd="kill -9 2; kill 1; sleep 600"), call(cmd="echo after"), {"text": "it said: {result}"})
    done = agent("run", "x", env=env)
    assert done.returncode == 0 and done.stdout.startswith("it said: "), (done.stdout, done.stderr)
    results = [message["content"] for message in chat.requests()[-1]["json"]["messages"] if message["role"] == "tool"]
    assert len(results) == 2 and "lost" in results[0], results

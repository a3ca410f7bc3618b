"""The e2b backend against its stand-in, which runs commands: life, commands, requests, what goes wrong."""
import json
import os
import pathlib
import re
import subprocess
import time
import urllib.request

import pytest

from host import GO, Host, count, counted, kill_all, read_all
from patience import PATIENCE, until
from program import PROGRAM, call

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
EXEC = BUILD / "tests" / "contract" / "exec-tool"
REQUESTS = BUILD / "tests" / "docker" / "requests-tool"
TABLE = pathlib.Path(__file__).parents[1] / "contract" / "requests.txt"
KEY = "e2b_0123456789abcdef0123456789abcdef"
CREATE = "POST /v2/sandboxes"
START = "POST /process.Process/Start"
SEND = "POST /process.Process/SendInput"
EMPTIED = "until ! ls -A /tmp | grep -q waldo; do sleep 0.1; done"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the stand-in's machines have one user, and root is needed")


class Cloud:
    """The stand-in, and programs that use it."""

    def __init__(self, standin, folder):
        self.standin, self.folder = standin, folder
        url = f"http://127.0.0.1:{standin.port}"
        self.env = {"E2B_API_KEY": KEY, "E2B_API_URL": url, "E2B_SANDBOX_URL": url}
        self.hosts = []

    def waldo(self, *words, env=None, timeout=PATIENCE):
        return subprocess.run([PROGRAM, *words], env={**os.environ, **self.env, **(env or {})}, capture_output=True,
                              text=True, timeout=timeout, check=False)

    def run(self, script, options="", **more):
        return self.waldo("exec", "-s", f"e2b:{options}", "--", "sh", "-c", script, **more)

    def good(self, script, options=""):
        done = self.run(script, options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fault(self, on, **switches):
        self.standin.control(faults=[{"on": on, **switches}])

    def host(self, sandbox="e2b:,lease=600", state="state"):
        host = Host(sandbox, self.folder / state, self.env)
        self.hosts.append(host)
        return host

    def asked(self, *words):
        """Requests of this method and path."""
        return [each for each in self.standin.requests() if f"{each['method']} {each['path']}" in words]

    def lines(self):
        return [f"{each['method']} {each['path']}" for each in self.standin.requests()]

    def processes(self):
        return int(self.standin.ask("GET", "/_processes"))

    def running(self):
        found = json.loads(self.standin.ask("GET", "/_processes/list"))
        return "\n".join(line for processes in found.values() for line in processes.values())

    def holds(self, path, text):
        """Whether a file in the only machine does."""
        processes, = json.loads(self.standin.ask("GET", "/_processes/list")).values()
        file = pathlib.Path(f"/proc/{max(map(int, processes))}/root{path}")
        return file.exists() and file.read_text() == text

    def touch(self, path):
        """Make a file in the machine where a command waits for it."""
        for processes in json.loads(self.standin.ask("GET", "/_processes/list")).values():
            for pid, line in processes.items():
                if f"-e {path}" in line:
                    pathlib.Path(f"/proc/{pid}/root{path}").touch()

    wait = staticmethod(until)


@pytest.fixture
def cloud(e2b, tmp_path):
    made = Cloud(e2b, tmp_path)
    yield made
    kill_all(made.hosts)


@pytest.fixture
def empty(cloud):
    """After the test no machine is left, by what the backend did itself."""
    yield cloud
    assert cloud.wait(lambda: cloud.processes() == 0), cloud.running()


# ---- life ----

def test_a_sandbox_from_beginning_to_end(empty):
    done = empty.run("echo out; echo err >&2; id -un; pwd; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\nuser\n/workspace\n", "err\n")
    create, *rest = empty.standin.requests()
    assert (create["method"], create["path"]) == ("POST", "/v2/sandboxes")
    body = create["json"]
    assert body["templateID"] == "base" and body["timeout"] == 120 and body["allow_internet_access"] is False
    labels = body["metadata"]
    assert labels["dev.waldo"] == "1" and labels["dev.waldo.lease"] == "ephemeral" and labels["dev.waldo.run"]
    assert create["headers"]["x-api-key"] == KEY and "authorization" not in create["headers"]
    run = labels["dev.waldo.run"]
    name = rest[-1]["path"].rpartition("/")[2]
    paths = sorted(f"{each['method']} {each['path']}" for each in rest)
    assert paths == sorted([
        f"POST /files?path=/tmp/.waldo-hand-{run}&username=root",
        f"POST /files?path=/tmp/.waldo-hand-{run}-u&username=user", "POST /filesystem.Filesystem/MakeDir",
        f"POST /sandboxes/{name}/timeout", START, START, SEND, SEND, f"DELETE /sandboxes/{name}"])
    for each in rest:
        inside = not each["path"].startswith("/sandboxes")
        assert ("x-access-token" in each["headers"]) == inside and ("x-api-key" in each["headers"]) != inside
        assert not inside or each["headers"]["e2b-sandbox-id"] == name
    starts = [each["headers"]["authorization"] for each in rest if each["path"].endswith("/Start")]
    assert starts == ["Basic dXNlcjo=", "Basic cm9vdDo="]  # the hand as user, who passes its stream on as root


def test_exact_bytes_and_input(empty):
    words = ["exec", "-i", "-s", "e2b:", "--", "sh", "-c", "cat; head -c 300000 /dev/zero; printf '\\377\\000' >&2"]
    sent = bytes(range(256)) * 4096
    done = subprocess.run([PROGRAM, *words], env={**os.environ, **empty.env}, input=sent, capture_output=True,
                          timeout=PATIENCE, check=False)
    assert done.returncode == 0 and done.stdout == sent + bytes(300000) and done.stderr == b"\377\000"


def test_options_reach_the_provider(empty):
    empty.standin.control(templates=["mine"])
    assert empty.good("echo $A; id -un", "mine,user=root,net=all,env=A=1") == "1\nroot\n"
    body = empty.asked(CREATE)[0]["json"]
    assert body["templateID"] == "mine" and "allow_internet_access" not in body and "network" not in body


@pytest.mark.parametrize("options,words", [
    ("no/../such template", "character"), (",memory=1g", "template's"), (",user=a b", "user"),
    (",api=ftp://x", "URL"), (",domain=a/b", "domain"), ("base,attach=i1", "attach"), (",net=hosts", "names none")])
def test_what_cannot_be_is_refused_before_anything_is_asked(empty, options, words):
    done = empty.run("true", options)
    assert done.returncode != 0 and words in done.stderr and empty.lines() == []


def test_an_older_control_plane(empty):
    empty.standin.control(no_v2=True)
    assert empty.good("echo hi") == "hi\n"
    old = empty.asked("POST /sandboxes")[0]
    assert old["json"]["secure"] is True and old["json"]["timeout"] == 120


def test_no_such_template(empty):
    done = empty.run("true", "nothing")
    assert done.returncode != 0 and "HTTP status 404" in done.stderr and "nothing" in done.stderr


def test_creation_of_unknown_outcome(empty):
    """It was made, and nobody heard of it: it is found by its label, and none is made beside it."""
    empty.fault(CREATE, close_before_reply=True)
    assert empty.good("echo hi") == "hi\n"
    assert len(empty.asked(CREATE)) == 1
    assert any(line.startswith("GET /v2/sandboxes?metadata=dev.waldo.run%3D") for line in empty.lines())


def test_time_is_extended_while_it_is_used(empty):
    assert empty.good("sleep 13; echo still", ",lease=12") == "still\n"
    lives = [each for each in empty.standin.requests() if each["path"].endswith("/timeout")]
    assert len(lives) >= 2 and all(each["json"] == {"timeout": 12} for each in lives)


def test_it_ends_with_its_time_when_the_host_is_gone(cloud):
    host = cloud.host("e2b:,lease=15")
    host.good("open")
    host.kill()
    assert cloud.wait(lambda: cloud.processes() == 0)


# ---- lives ----

def test_killed_host_and_the_next_one(empty):
    """The exact remaining output from where the first had come to, and the exit code."""
    a = empty.host()
    a.good("open")
    number = a.start(count(waits=True))
    a.good("save")
    head, offset, over = a.heard(number, b"line 0\n")
    assert over is None and offset == len(head)
    a.kill()
    token = next(each["headers"]["x-access-token"] for each in empty.asked(START))
    saved = (empty.folder / "state").read_text()
    assert token not in saved and KEY not in saved
    b = empty.host()
    b.good("open")
    assert b.good("list") == f"{number}+"
    b.run(f"touch {GO}")
    rest, over = read_all(b, number, offset)
    assert head + rest == counted() and over == (1, 7)
    assert b.start("echo next") > number
    b.good("close")
    b.finish()


def test_taken_over(empty):
    a = empty.host()
    a.good("open")
    number = a.start("echo up; sleep 1000")
    a.good("save")
    assert a.heard(number, b"up\n")[0] == b"up\n"
    b = empty.host()
    b.good("open")
    assert a.ask("exec true").startswith("OK end=6")
    lost = a.ask("exec true")
    assert lost.startswith("WALDO_ELOST") and "another process has opened the same machine" in lost
    a.finish()
    assert b.good("list") == f"{number}+" and b.run("echo mine") == "mine\n"
    b.good("close")


def test_detached(empty):
    a = empty.host()
    a.good("open")
    number = a.start("echo up; sleep 1000")
    a.good("save")
    a.good("detach")
    a.finish()
    b = empty.host("e2b:")
    b.good("open")
    assert b.good("list") == f"{number}+"
    b.good("close")
    assert not any("DELETE" in line for line in empty.lines()[:-1])


def test_named(cloud):
    """From several processes at once it is one machine; it is kept, and found again by its name."""
    hosts = [cloud.host("e2b:,name=lab", "none") for _ in range(3)]
    for host in hosts:
        host.say("open")
    answers = [host.hear() for host in hosts]
    assert any(answer == "OK" for answer in answers), answers
    for answer in answers:
        assert answer == "OK" or re.search("another process (has )?opened the same machine", answer), answers
    for host in hosts:
        host.finish()
    assert cloud.wait(lambda: len(json.loads(cloud.standin.ask("GET", "/_processes/list"))) == 1)
    done = cloud.waldo("exec", "-s", "@lab", "--", "sh", "-c", "echo kept > file; cat file")
    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr
    done = cloud.waldo("exec", "-s", "e2b:,name=lab", "--", "cat", "file")
    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr
    done = cloud.waldo("exec", "-s", "e2b:,name=lab", "--", "sh", "-c", f"{EMPTIED}; ls -A /tmp")
    assert "waldo" not in done.stdout, done.stdout  # no file is left
    done = cloud.waldo("exec", "-s", "@other", "--", "true")
    assert done.returncode == 125, done.stderr
    cloud.waldo("gc", "@lab")
    assert cloud.wait(lambda: cloud.processes() == 0)


def make(cloud, **body):
    """A machine that somebody else made."""
    request = urllib.request.Request(cloud.env["E2B_API_URL"] + "/v2/sandboxes",
                                     json.dumps({"templateID": "base", "timeout": 600, **body}).encode(),
                                     {"X-API-Key": KEY, "Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)["sandboxID"]


def test_attached_to(cloud):
    other = make(cloud)
    done = cloud.waldo("exec", "-s", f"e2b:,attach={other}", "--", "sh", "-c", "echo hi > /workspace/f; cat f; id -un")
    assert (done.returncode, done.stdout) == (0, "hi\nuser\n"), done.stderr
    assert cloud.wait(lambda: "waldo-hand" not in cloud.running() and cloud.processes() == 3)
    done = cloud.waldo("exec", "-s", f"e2b:,attach={other}", "--", "sh", "-c", f"cat f; {EMPTIED}; ls -A /tmp")
    assert done.stdout == "hi\n", done.stdout  # nothing is left, nor is there anything now
    lines = cloud.lines()
    assert not any(line.startswith("DELETE") or line.endswith("/timeout") for line in lines)
    assert sum(line == CREATE for line in lines) == 1
    done = cloud.waldo("exec", "-s", "e2b:,attach=inothing", "--", "true")
    assert done.returncode == 125 and "there is no such machine any more" in done.stderr


def test_forged_states(cloud):
    """No sandbox of others is ended, whatever the bytes say."""
    other = make(cloud)

    def open_forged(**inner):
        (cloud.folder / "forged").write_text(json.dumps({
            "waldo": "sandbox", "version": 1, "backend": "e2b", "background": 0, "workspace": "empty",
            "machine": json.dumps({"run": "abc", "user": "user", "foreign": False, **inner})}))
        return cloud.host("e2b:", "forged").ask("open")

    assert open_forged(machine=other).startswith("WALDO_EACCESS")
    assert open_forged(machine="i" * 21).startswith("WALDO_ENOTFOUND")
    for bad in ("", "../../v2", "a/b", "x" * 100):
        assert "names no machine" in open_forged(machine=bad)
    assert "names no machine" in open_forged(machine=other, run="a b")
    assert cloud.processes() == 3


def test_listed_and_ended(cloud):
    host = cloud.host("e2b:,name=lab", "none")
    host.good("open")
    other = make(cloud)
    listed = [json.loads(line) for line in cloud.waldo("ps", "--json").stdout.splitlines()]
    assert [(each["backend"], each["name"]) for each in listed] == [("e2b", "lab")], listed
    assert "lab" in cloud.waldo("ps").stdout
    host.finish()
    cloud.waldo("gc", listed[0]["id"], other)
    assert cloud.wait(lambda: cloud.processes() == 3)
    cloud.waldo("gc", other)
    assert cloud.processes() == 3


def test_no_failure_of_a_listing_hides_another(cloud):
    """An engine that is not there keeps nobody from hearing of a key that is refused, or from ending what is named."""
    host = cloud.host("e2b:,name=lab", "none")
    host.good("open")
    host.finish()
    env = {"DOCKER_HOST": "unix:///nonexistent/engine.sock"}
    done = cloud.waldo("gc", "@lab", env=env)
    assert done.returncode == 0 and "ended e2b" in done.stdout and "/nonexistent" in done.stderr, done.stderr
    assert cloud.wait(lambda: cloud.processes() == 0)
    cloud.standin.control(key="e2b_another")
    done = cloud.waldo("ps", env=env)
    assert done.returncode == 5 and "/nonexistent" in done.stderr and "check the key E2B_API_KEY" in done.stderr


def test_paused_and_used(empty):
    """Nothing runs meanwhile; the next use lets it go on, and background commands with it."""
    a = empty.host("e2b:")
    assert a.run("echo kept > file") == ""
    number = a.start("i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); sleep 0.1; done; exit 7")
    a.heard(number, b"line 0\n")
    a.good("pause")
    states = [json.loads(line)["state"] for line in empty.waldo("ps", "--json", "--all").stdout.splitlines()]
    assert states == ["paused"], states
    assert a.run("cat file") == "kept\n"
    text, over = read_all(a, number)
    assert text == b"".join(b"line %d\n" % i for i in range(30)) and over == (1, 7)
    a.good("pause")
    a.good("close")
    a.finish()


def test_used_before_the_end_of_its_stream_is_known(empty):
    """A pause ends the stream; whether the machine is there is still being asked when it goes on."""
    a = empty.host("e2b:")
    a.good("open")
    empty.fault("GET /health", stall_headers=True)
    a.good("pause")
    for word in ("one", "two"):
        assert a.run(f"echo {word}") == f"{word}\n"
    a.good("close")


def test_ports_and_network(empty):
    a = empty.host("e2b:,domain=e2b.test")
    a.good("open")
    name = json.loads(empty.waldo("ps", "--json", "--all").stdout.splitlines()[0])["id"]
    assert a.good("url 8080") == f"https://8080-{name}.e2b.test"
    for level in ("all", "none", "example.com"):
        a.good(f"net {level}")
    assert [each["json"] for each in empty.asked(f"PUT /sandboxes/{name}/network")] == [
        {}, {"allow_internet_access": False}, {"allowOut": ["example.com"], "denyOut": ["0.0.0.0/0"]}]
    assert a.run("echo undisturbed") == "undisturbed\n"
    a.good("close")


def test_without_a_key(cloud):
    env = {"E2B_API_KEY": ""}
    done = cloud.run("true", env=env)
    assert done.returncode != 0 and "E2B_API_KEY" in done.stderr
    assert "E2B_API_KEY" in cloud.waldo("doctor", "-s", "e2b:", env=env).stdout
    assert "E2B_API_KEY" not in cloud.waldo("ps", env=env).stderr
    assert cloud.lines() == []


def test_doctor(cloud):
    assert "  ok  e2b:" in cloud.waldo("doctor", "-s", "e2b:").stdout
    cloud.standin.control(key="another")
    said = cloud.waldo("doctor", "-s", "e2b:").stdout
    assert "  no  e2b" in said and "401" in said and KEY not in said


def test_a_run(empty, chat):
    """The program is the same as on every other backend."""
    chat.queue(call(cmd="echo from the sandbox > f; cat f"), {"text": "{result}"})
    done = empty.waldo("run", "-m", f"chat:{chat.url}#any", "-s", "e2b:", "do it")
    assert done.returncode == 0 and "from the sandbox" in done.stdout, (done.stdout, done.stderr)


# ---- what it costs ----

def test_operations_ask_what_the_table_says(empty):
    rows = [line.split()[1:] for line in TABLE.read_text().splitlines() if line.startswith("e2b ")]
    # So long that its time is not extended meanwhile.
    process = subprocess.Popen([REQUESTS, "e2b:,lease=3600"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, **empty.env})

    def ask(operation):
        process.stdin.write(operation + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "WALDO_OK\n", operation
        return empty.standin.requests()

    try:
        before = len(ask("command"))  # opens the machine
        assert len(rows) >= 3
        connections = None
        for operation, wanted in rows + rows:
            requests = ask(operation)
            new = requests[before:]
            assert len(new) == int(wanted), (operation, [each["path"] for each in new])
            assert all(each["on_connection"] > 0 for each in new), operation  # on a connection that was there
            connections = connections or {each["connection"] for each in new}
            assert {each["connection"] for each in new} <= connections
            before = len(requests)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


# ---- what the provider answers ----

def test_rate_limit_is_waited_for(empty):
    empty.fault(CREATE, status=429, retry_after=1, times=2)
    began = time.monotonic()
    assert empty.good("echo hi") == "hi\n"
    assert time.monotonic() - began >= 2 and len(empty.asked(CREATE)) == 3


@pytest.mark.parametrize("fault,words,tries", [
    ({"status": 429}, "429", 1), ({"status": 401}, "check the key E2B_API_KEY", 2), ({"status": 403}, "403", 1),
    ({"status": 500}, "500", 2), ({"status": 503}, "no room", 1), ({"status": 504}, "too long", 2)])
def test_refused_by_the_control_plane(empty, fault, words, tries):
    empty.fault(CREATE, times=9, **fault)
    done = empty.run("true")
    assert done.returncode != 0 and words in done.stderr, done.stderr
    assert len(empty.asked(CREATE)) == tries


def test_too_many_sandboxes(empty):
    empty.standin.control(concurrent=0)
    done = empty.run("true")
    assert "concurrent" in done.stderr and "waldo gc" in done.stderr and len(empty.asked(CREATE)) == 1


def test_the_next_backend_serves_where_there_is_no_room(empty):
    empty.fault(CREATE, status=503)
    done = empty.waldo("exec", "-s", "e2b:", "-s", "local:", "--", "echo", "here")
    assert (done.returncode, done.stdout) == (0, "here\n"), done.stderr


def test_keys_are_not_echoed(empty):
    """Whatever is quoted by whoever answers."""
    empty.fault(CREATE, status=400, json={"code": 400, "message": f"bad header X-API-Key: {KEY}!"})
    done = empty.run("true")
    assert done.returncode != 0 and "bad header" in done.stderr
    assert KEY not in done.stdout + done.stderr and "[E2B_API_KEY]" in done.stderr
    empty.fault(START, frames={"error": {"code": "internal", "message": "token {token}"}})
    done = empty.run("true")
    token = next(each["headers"]["x-access-token"] for each in empty.asked(START))
    assert token not in done.stdout + done.stderr


def test_a_token_that_is_refused(empty):
    empty.fault("POST /files*", status=401, json={"code": 401, "message": "unauthorized access"})
    done = empty.run("true")
    assert done.returncode != 0 and "access token was refused" in done.stderr, done.stderr


def test_a_user_that_is_not_there(empty):
    done = empty.run("true", ",user=zz")
    assert done.returncode != 0 and "zz" in done.stderr and "no such user" in done.stderr, done.stderr


# ---- streams ----

@pytest.mark.parametrize("frames", [{"keepalive_first": True}, {"unknown_event": True}, {"unknown_field": True}])
def test_oddities_of_streams_change_nothing(empty, frames):
    empty.fault(START, times=9, frames=frames)
    assert empty.good("echo hi; head -c 100000 /dev/zero | wc -c") == "hi\n100000\n"


def test_any_split_and_white_space(empty):
    empty.standin.control(spaces=True)
    empty.fault(START, times=9, split=1)
    assert empty.good("seq 300 | md5sum; echo over") == "4a6d7a7e9e1a5f1d0e3a0a9e2e6d1a0f  -\nover\n".replace(
        "4a6d7a7e9e1a5f1d0e3a0a9e2e6d1a0f", subprocess.run("seq 300 | md5sum | cut -c1-32", shell=True, check=True,
                                                          capture_output=True, text=True).stdout.strip())


@pytest.mark.parametrize("frames", [
    {"compressed": True}, {"flags": 64}, {"huge": 1 << 30}, {"garbage": "no json"}, {"no_start": True},
    {"error": {"code": "internal", "message": "the daemon is ill"}}])
def test_broken_streams_end_by_name(empty, frames):
    empty.fault(START, times=9, skip=1, frames=frames)  # of the stream to the hand
    done = empty.run("echo hi")
    assert done.returncode != 0 and "e2b: " in done.stderr and done.stdout == "", (done.stdout, done.stderr)
    assert "error" not in frames or "the daemon is ill" in done.stderr


def test_errors_inside_200(empty):
    empty.fault(START, frames={"error": {"code": "resource_exhausted", "message": "no more processes"}})
    # behind the start: the hand runs
    assert empty.good("echo hi") == "hi\n"
    empty.fault(START, frames={"no_start": True, "error": {"code": "invalid_argument", "message": "no such thing"}})
    done = empty.run("true")
    assert done.returncode != 0, done.stderr


def test_a_stream_that_breaks(empty):
    """The machine is reached again by itself: background commands go on, plain ones end as lost."""
    empty.fault(START, skip=1, drop_at=3000, reset=True)
    a = empty.host("e2b:")
    a.good("open")
    number = a.start(count(60))
    time.sleep(1.1)  # sooner it is not tried
    assert a.ask("exec head -c 3000 /dev/urandom; sleep 100").startswith("OK end=6")
    assert a.run("echo here") == "here\n"
    text, over = read_all(a, number)
    assert text == counted(60) and over == (1, 7)
    a.good("close")


def test_the_sandbox_vanishes(empty):
    a = empty.host("e2b:")
    a.good("open")
    time.sleep(1.1)
    a.say("exec sleep 1000")
    assert empty.wait(lambda: "sleep 1000" in empty.running())
    empty.standin.control(vanish="*")
    assert a.hear().startswith("OK end=6")
    lost = a.ask("exec true")
    assert lost.startswith("WALDO_ELOST") and "the sandbox is gone" in lost, lost
    a.finish()


def test_a_lost_command_says_why(empty):
    process = subprocess.Popen([PROGRAM, "exec", "-s", "e2b:", "--", "sleep", "1000"], env={**os.environ, **empty.env},
                               stderr=subprocess.PIPE, text=True)
    assert empty.wait(lambda: "sleep 1000" in empty.running())
    empty.standin.control(vanish="*")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 125, said
    assert "the sandbox was lost: " in said and "e2b: the sandbox is gone: it was killed" in said, said


def test_a_sandbox_that_cannot_be_ended_is_told(empty):
    empty.fault("DELETE *", status=500)
    done = empty.run("echo hi")
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert "ending a machine of e2b: " in done.stderr and "HTTP status 500" in done.stderr, done.stderr
    empty.waldo("gc")


def test_a_saved_one_that_is_gone(cloud):
    a = cloud.host()
    a.good("open")
    a.good("save")
    a.kill()
    cloud.standin.control(vanish="*")
    gone = cloud.host().ask("open")
    assert gone.startswith("WALDO_ENOTFOUND") and "its lease ended" in gone, gone


def test_sending_fails(empty):
    """Whether the command began is not known: it is lost, and not sent again."""
    a = empty.host("e2b:")
    a.good("open")
    time.sleep(1.1)
    empty.fault(SEND, stall_headers=True, close_before_reply=True)
    a.say("exec echo once >> /tmp/times; sleep 1000")
    assert empty.wait(lambda: empty.holds("/tmp/times", "once\n"))
    empty.standin.control(release=True)
    assert a.hear().startswith("OK end=6")
    assert a.run("cat /tmp/times") == "once\n"
    a.good("close")


def test_a_full_disk(empty):
    empty.standin.control(disk_bytes=100000)
    done = empty.run("head -c 200000 /dev/zero > f")
    assert done.returncode != 0 and "No space left" in done.stderr


def test_slow_creation(empty):
    empty.fault(CREATE, wait_ms=1500)
    assert empty.good("echo hi") == "hi\n"


def test_clocks_may_differ(empty):
    empty.standin.control(clock_skew_s=86400)
    assert empty.good("echo hi", ",lease=600") == "hi\n"
    assert re.search(r'"e2b"', empty.waldo("ps", "--json").stdout) is None

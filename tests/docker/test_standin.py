"""The docker backend against a stand-in engine: what a real one rarely does, and all its versions."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import threading
import time
import types
import urllib.parse

import pytest

from program import call

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
EXEC = BUILD / "tests" / "contract" / "exec-tool"
TOOL = BUILD / "tests" / "docker" / "docker-tool"
HAND = BUILD / "src" / "hand" / "waldo-hand"


class StandIn:
    """One thread a connection. The container is bubblewrap with the hand that the backend sent."""

    def __init__(self, folder):
        self.folder = folder
        self.path = str(folder / "engine.sock")
        self.version = "1.41"
        self.answers = {}  # "METHOD /path" without version -> raw answer, or None: silence
        self.closing = None  # the key behind whose answer the connection is closed
        self.asked = []  # "METHOD /path?query" as it came
        self.bodies = {}
        self.upgrade = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        self.piece = 0  # bytes a write of the stream; 0: as they come
        self.frames = None  # in place of the hand's
        self.warnings = []
        self.image = {"Architecture": "amd64" if os.uname().machine == "x86_64" else "arm64", "Os": "linux"}
        self.started = threading.Event()
        self.removed = threading.Event()
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen(50)
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection = self.server.accept()[0]
                self.open.append(connection)
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def close(self):
        """As an engine that dies."""
        for each in (self.server, *self.open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        os.unlink(self.path)

    def serve(self, connection):
        stream = connection.makefile("rb")
        with contextlib.suppress(OSError, ValueError):
            while True:
                words = stream.readline().decode().split()
                if len(words) != 3:
                    return
                headers = {}
                while (line := stream.readline().strip()):
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                body = stream.read(int(headers.get("content-length", 0)))
                self.asked.append(f"{words[0]} {words[1]}")
                path = urllib.parse.urlsplit(words[1]).path
                parts = path.split("/")
                plain = "/" + "/".join(parts[2:]) if parts[1].startswith("v1.") else path
                for name in parts:
                    if name.startswith("waldo-"):
                        plain = plain.replace(name, "NAME")
                key = f"{words[0]} {plain}"
                self.bodies[key] = self.bodies.get(key, b"") + body
                if key in self.answers:
                    answer = self.answers[key]
                    if answer is None:
                        self.removed.wait(180)
                        return
                    if isinstance(answer, list):
                        answer = answer.pop(0) if len(answer) > 1 else answer[0]
                    if isinstance(answer, types.GeneratorType):
                        for part in answer:
                            connection.sendall(part)
                    else:
                        connection.sendall(answer)
                    if key == self.closing:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
                    continue
                if key == "POST /containers/NAME/attach":
                    self.attach(connection, stream)
                    return
                connection.sendall(self.usual(key))

    def usual(self, key):
        if key == "GET /_ping":
            return reply(200, "OK", more=f"Api-Version: {self.version}\r\n" if self.version else "")
        if key.startswith("GET /images/"):
            return reply(200, self.image)
        if key == "POST /containers/create":
            return reply(201, {"Id": "f" * 64, "Warnings": self.warnings})
        if key.startswith("PUT "):
            return reply(200, "")
        if key == "POST /containers/NAME/start":
            self.started.set()
            return b"HTTP/1.1 204 No Content\r\n\r\n"
        if key == "DELETE /containers/NAME":
            self.removed.set()
            return b"HTTP/1.1 204 No Content\r\n\r\n"
        return reply(404, {"message": "No such container: waldo"})

    def send(self, connection, data):
        for at in range(0, len(data), self.piece or len(data) or 1):
            connection.sendall(data[at:at + self.piece] if self.piece else data)

    def attach(self, connection, stream):
        connection.sendall(self.upgrade)
        self.started.wait(120)
        if self.frames is not None:
            many = isinstance(self.frames, list)
            frames = self.frames.pop(0) if many else self.frames
            self.send(connection, frames)
            if many and not self.frames:  # the last one goes on
                self.removed.wait(180)
            connection.shutdown(socket.SHUT_RDWR)
            return
        hand = subprocess.Popen(
            ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
             "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
             "--dir", "/workspace", "--dir", "/tmp", "--chdir", "/workspace", "--ro-bind", str(HAND), "/hand", "/hand"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def feed():
            with contextlib.suppress(OSError, ValueError):
                while (data := stream.read1(65536)):
                    hand.stdin.write(data)
                    hand.stdin.flush()
            with contextlib.suppress(OSError):
                hand.stdin.close()

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        with contextlib.suppress(OSError):
            while (data := hand.stdout.read1(32768)):
                self.send(connection, frame(1, data))
        hand.kill()
        hand.wait()
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
        feeder.join(10)


def frame(stream, data):
    return struct.pack(">BxxxI", stream, len(data)) + data


def reply(status, body, kind="application/json", more=""):
    data = body if isinstance(body, str) else json.dumps(body)
    return (f"HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(data)}\r\n\r\n"
            f"{data}").encode()


@pytest.fixture
def stand_in(tmp_path):
    made = StandIn(tmp_path)
    yield made
    made.removed.set()
    made.close()


def run(stand_in, cmd="echo hello", options="", image="image"):
    return subprocess.run([EXEC, f"docker:{image},host=unix://{stand_in.path}{options}", "-", "copy", cmd],
                          capture_output=True, timeout=180, check=False)


def fails(stand_in, *words, **kwargs):
    done = run(stand_in, **kwargs)
    said = done.stderr.decode()
    assert done.returncode == 125 and b"hello" not in done.stdout, done
    for word in words:
        assert word in said, said
    return said


# ---- versions

@pytest.mark.parametrize("offered,used", [("1.41", "1.41"), ("1.44", "1.44"), ("1.52", "1.52"), ("1.56", "1.52"),
                                          ("2.0", "1.52")])
def test_version_is_agreed_on(stand_in, offered, used):
    stand_in.version = offered
    done = run(stand_in)
    assert done.stdout == b"hello\n", done
    assert stand_in.asked[0] == "GET /_ping"
    assert {line.split()[1].split("/")[1] for line in stand_in.asked[1:]} == {f"v{used}"}


@pytest.mark.parametrize("offered,words", [("1.40", "update it"), ("1.9", "update it"), ("0.99", "update it"),
                                           ("x", "no Docker Engine"), ("1.", "no Docker Engine"),
                                           (None, "no Docker Engine")])
def test_versions_that_do_not_work(stand_in, offered, words):
    stand_in.version = offered
    fails(stand_in, words)
    assert stand_in.asked == ["GET /_ping"]


def test_requests_of_a_machine(stand_in):
    """Law 8: nothing that is not needed; a command is no request at all."""
    assert run(stand_in, "echo hello; echo again").returncode == 0
    assert stand_in.removed.wait(120)
    assert steps(stand_in) == ["GET  _ping", "GET  json", "POST  create", "PUT  archive", "POST  attach", "POST  start",
                               "DELETE"]
    body = json.loads(stand_in.bodies["POST /containers/create"])
    assert body["NetworkDisabled"] and list(body["Volumes"]) == ["/workspace"]
    mounts = {mount["Target"]: mount for mount in body["HostConfig"]["Mounts"]}
    assert sorted(mounts) == ["/etc/hosts", "/run/waldo/waldo-hand"]
    assert all(mount["Type"] == "bind" and mount["ReadOnly"] for mount in mounts.values())
    assert not pathlib.Path(mounts["/etc/hosts"]["Source"]).exists()  # any more


def steps(stand_in):
    """The requests, by method and last word."""
    plain = [line.split("?")[0] for line in stand_in.asked]
    return [" ".join(line.split("/")[i] for i in (0, -1)) if not line.startswith("DELETE") else "DELETE"
            for line in plain]


UNSEEN = reply(400, {"message": "invalid mount config for type \"bind\": bind source path does not exist: /tmp/x"})


def test_engine_that_does_not_see_the_hosts_files(stand_in):
    """Then the hand goes in by the archive, and the network is the engine's "none"."""
    stand_in.answers["POST /containers/create"] = [UNSEEN, reply(201, {"Id": "f" * 64, "Warnings": []})]
    assert run(stand_in).stdout == b"hello\n"
    asked = [step for step in steps(stand_in) if step != "DELETE"]
    assert asked == ["GET  _ping", "GET  json", "POST  create", "POST  create", "PUT  archive", "PUT  archive",
                     "POST  attach", "POST  start"]
    second = json.loads("{" + stand_in.bodies["POST /containers/create"].decode().split("}{")[1])
    assert not second["NetworkDisabled"] and sorted(second["Volumes"]) == ["/run/waldo", "/workspace"]
    assert "Mounts" not in second["HostConfig"]


def test_engine_that_cannot_show_the_hosts_files(stand_in):
    """It says so at the start; that container is removed, and another one made."""
    stand_in.answers["POST /containers/NAME/start"] = [
        reply(500, {"message": "OCI runtime create failed: permission denied"}), b"HTTP/1.1 204 No Content\r\n\r\n"]
    stand_in.started.set()
    assert run(stand_in).stdout == b"hello\n"
    made = [line.split("=")[1] for line in stand_in.asked if "/create?" in line]
    assert len(set(made)) == 2
    assert any(line.startswith("DELETE") and made[0] in line for line in stand_in.asked)
    assert steps(stand_in).count("PUT  archive") == 3


def test_engines_elsewhere_get_no_mounts(stand_in):
    """Podman has its own way with them."""
    stand_in.answers["GET /_ping"] = reply(200, "OK", more="Api-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\n")
    assert run(stand_in).stdout == b"hello\n"
    body = json.loads(stand_in.bodies["POST /containers/create"])
    assert "Mounts" not in body["HostConfig"] and not body["NetworkDisabled"]


# ---- answers that are no success

def test_error_as_plain_text(stand_in):
    stand_in.answers["POST /containers/create"] = reply(
        400, "client version 1.10 is too old. Minimum supported API version is 1.12", "text/plain")
    fails(stand_in, "creating the container: the engine says: client version 1.10 is too old")


@pytest.mark.parametrize("answer", [reply(500, ""), reply(500, "[]"), reply(500, '{"message":3}')])
def test_error_without_words(stand_in, answer):
    stand_in.answers["POST /containers/create"] = answer
    fails(stand_in, "HTTP status 500")


def test_name_conflict(stand_in):
    stand_in.answers["POST /containers/create"] = reply(409, {"message": 'The container name "/x" is already in use'})
    fails(stand_in, "already in use")


def test_podmans_errors(stand_in):
    stand_in.answers["POST /containers/create"] = reply(
        404, {"cause": "no such image", "message": "no such image x", "response": 404})
    fails(stand_in, "the engine says: no such image x")


@pytest.mark.parametrize("is_podman", [False, True])
def test_podman_takes_other_options(stand_in, is_podman):
    """It refuses uid= and gid= for memory file systems."""
    stand_in.answers["GET /_ping"] = reply(
        200, "OK", more="Api-Version: 1.41\r\n" + ("Libpod-API-Version: 4.3.1\r\n" if is_podman else ""))
    assert run(stand_in).stdout == b"hello\n"
    options = json.loads(stand_in.bodies["POST /containers/create"])["HostConfig"]["Tmpfs"]["/tmp"]
    assert ("uid=1000" in options) != is_podman and "size=268435456,mode=1777" in options


def test_start_that_fails(stand_in):
    stand_in.answers["POST /containers/NAME/start"] = reply(
        400, {"message": 'OCI runtime create failed: exec: "/run/waldo/waldo-hand": permission denied'})
    fails(stand_in, "starting the container", "permission denied", options=",hand=always")
    assert stand_in.removed.wait(120)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 404 Not Found\r\n\r\nNo such container", b"nonsense\r\n\r\n",
                                    b"HTTP/1.1 500 Internal\r\nContent-Length: 0\r\n\r\n", b"x" * 70000, b""])
def test_attaching_that_fails(stand_in, answer):
    stand_in.upgrade = answer
    stand_in.frames = b""
    stand_in.started.set()
    fails(stand_in, "docker: ")
    assert stand_in.removed.wait(120)


def test_answer_that_is_not_json(stand_in):
    stand_in.answers["POST /containers/create"] = reply(201, "{")
    fails(stand_in, "json")
    assert stand_in.removed.wait(120)


def test_image_for_another_processor(stand_in):
    stand_in.image["Architecture"] = "s390x"
    fails(stand_in, "linux/s390x", "platform=linux/", options=",hand=always")
    assert not any("create" in line for line in stand_in.asked)


def test_engine_that_hangs(stand_in):
    """It accepts, and never answers."""
    stand_in.answers["GET /_ping"] = None
    fails(stand_in, "did not answer in time", "docker info")


@pytest.mark.parametrize("key,answer", [
    ("GET /_ping", b"HTTP/1.1 200 OK\r\n\r\n"),
    ("GET /images/image/json", b""),
    ("POST /containers/create", b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{"),
    ("POST /containers/create", b""),
    ("PUT /containers/NAME/archive", b"nonsense\r\n\r\n"),
])
def test_engine_that_closes(stand_in, key, answer):
    """In the middle of an answer, or before it; what was created is removed."""
    stand_in.answers[key] = answer
    stand_in.closing = key
    fails(stand_in, "docker: ")
    assert key.startswith("GET") or stand_in.removed.wait(120)


# ---- runtimes

@pytest.mark.parametrize("runtime,grade", [("runc", "container"), ("runsc", "gvisor"), ("io.containerd.kata.v2", "vm")])
def test_runtimes_have_a_grade(stand_in, runtime, grade):
    stand_in.answers["GET /containers/NAME/json"] = reply(200, {"HostConfig": {"Runtime": runtime}})
    done = run(stand_in, options=f",runtime={runtime},min_isolation={grade}")
    assert done.stdout == b"hello\n", done
    assert json.loads(stand_in.bodies["POST /containers/create"])["HostConfig"]["Runtime"] == runtime


@pytest.mark.parametrize("answer", [{"HostConfig": {"Runtime": "oci"}}, {"HostConfig": {}}, {}])
def test_an_engine_that_takes_another_runtime(stand_in, answer):
    """It would be less than was asked for, and nobody would know."""
    stand_in.answers["GET /containers/NAME/json"] = reply(200, answer)
    fails(stand_in, "did not take runtime=runsc", options=",runtime=runsc")
    assert stand_in.removed.wait(120) and not stand_in.started.is_set()


# ---- doing without the hand

class Plain:
    """What a stand-in answers once there is no hand: one command that has ended with 7."""

    def __init__(self, stand_in):
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: close\r\n\r\n"
        stand_in.answers["POST /containers/NAME/exec"] = reply(201, {"Id": "e" * 64})
        stand_in.answers[f"POST /exec/{'e' * 64}/start"] = head.encode() + frame(2, b"err") + frame(
            1, b"waldo:77\nhello\n")
        stand_in.answers[f"GET /exec/{'e' * 64}/json"] = reply(200, {"Running": False, "ExitCode": 7})
        stand_in.closing = f"POST /exec/{'e' * 64}/start"


def created(stand_in):
    text = stand_in.bodies["POST /containers/create"].decode()
    decoder, found = json.JSONDecoder(), []
    while text:
        one, end = decoder.raw_decode(text)
        found.append(one["Entrypoint"][0])
        text = text[end:]
    return found


@pytest.mark.parametrize("frames", [b"", frame(2, b"exec format error\n")])
def test_hand_that_ends_before_a_word(stand_in, frames):
    """Another container waits in its place, and commands are execs."""
    Plain(stand_in)
    stand_in.frames = [frames, frames, frame(1, b"\n")]  # first with the hand shown from a file
    done = run(stand_in)
    assert done.stdout == b"hello\n" and done.returncode == 7, done
    assert created(stand_in) == ["/run/waldo/waldo-hand", "/run/waldo/waldo-hand", "/bin/sh"]


def test_hand_for_another_processor(stand_in):
    Plain(stand_in)
    stand_in.image["Architecture"] = "s390x"
    stand_in.frames = [frame(1, b"\n")]
    done = run(stand_in)
    assert done.stdout == b"hello\n", done
    assert created(stand_in) == ["/bin/sh"]


def test_container_that_does_not_start(stand_in):
    Plain(stand_in)
    ok = b"HTTP/1.1 204 No Content\r\n\r\n"
    bad = reply(400, {"message": 'OCI runtime create failed: "/bin/sh": no such file or directory: unknown'})
    stand_in.answers["POST /containers/NAME/start"] = [bad, bad, bad, ok]
    stand_in.frames = [b"", b"", b"", frame(1, b"\n")]
    stand_in.started.set()
    stand_in.answers[f"POST /exec/{'e' * 64}/start"] = stand_in.answers[f"POST /exec/{'e' * 64}/start"].replace(
        frame(1, b"waldo:77\nhello\n"), frame(1, b"hello\n"))
    assert run(stand_in).stdout == b"hello\n"
    assert created(stand_in) == ["/run/waldo/waldo-hand", "/run/waldo/waldo-hand", "/bin/sh", "cat"]


@pytest.mark.parametrize("stream,words", [
    (frame(1, b"OCI runtime exec failed: no such file or directory"), "no such file"),
    (frame(1, b"waldo:1\n"), "waldo:1"), (frame(1, b"waldo:x\n"), "waldo:x"), (b"", "before it began"),
    (frame(2, b"sh: no such program\n"), "no such program"),
    # What is no stream, or broke off, is the sandbox's end.
    (b"nonsense", ""), (frame(1, b"waldo:77\n")[:12], ""), (frame(3, b"the engine's words"), ""),
])
def test_commands_that_do_not_begin(stand_in, stream, words):
    Plain(stand_in)
    key = f"POST /exec/{'e' * 64}/start"
    stand_in.answers[key] = stand_in.answers[key].split(b"\r\n\r\n")[0] + b"\r\n\r\n" + stream
    stand_in.frames = [frame(1, b"\n")]
    done = run(stand_in, options=",hand=never")
    assert done.returncode == (125 if words else 124) and words in done.stderr.decode(), done


# ---- warnings

DROPPED = "Your kernel does not support pids limit capabilities or the cgroup is not mounted. PIDs limit discarded."


def test_dropped_limit_that_was_asked_for(stand_in):
    stand_in.warnings = [DROPPED]
    fails(stand_in, "does not keep to pids", "PIDs limit discarded", options=",pids=50")
    assert stand_in.removed.wait(120) and not stand_in.started.is_set()


@pytest.mark.parametrize("option,warning", [
    (",memory=64m", "Your kernel does not support memory limit capabilities. Limitation discarded."),
    (",cpus=1", "Your kernel does not support CPU cfs quota. Quota discarded."),
])
def test_other_dropped_limits(stand_in, option, warning):
    stand_in.warnings = [warning]
    fails(stand_in, "does not keep to", options=option)
    assert run(stand_in).stdout == b"hello\n"


@pytest.mark.parametrize("option,taken", [(",memory=64m", "Memory"), (",cpus=1", "CpuQuota"), (",pids=9", "PidsLimit")])
def test_limits_that_podman_drops_in_silence(stand_in, option, taken):
    stand_in.answers["GET /_ping"] = reply(200, "OK", more="Api-Version: 1.41\r\nLibpod-API-Version: 4.3.1\r\n")
    limits = {"Memory": 64 << 20, "CpuQuota": 100000, "NanoCpus": 0, "PidsLimit": 9}
    stand_in.answers["GET /containers/NAME/json"] = reply(200, {"HostConfig": limits})
    assert run(stand_in, options=option).stdout == b"hello\n"
    stand_in.answers["GET /containers/NAME/json"] = reply(200, {"HostConfig": {**limits, taken: 0}})
    fails(stand_in, "does not keep to", options=option)


def test_warnings_that_are_none_of_ours(stand_in):
    stand_in.warnings = [DROPPED, "Your kernel does not support swap limit capabilities. Memory limited without swap."]
    assert run(stand_in, options=",memory=64m").stdout == b"hello\n"
    stand_in.warnings = None
    assert run(stand_in).stdout == b"hello\n"


def test_warnings_are_surfaced(stand_in, waldo):
    """All of them, in the log."""
    stand_in.warnings = [DROPPED, "IPv4 forwarding is disabled."]
    done = waldo("exec", "-v", "-s", f"docker:image,host=unix://{stand_in.path}", "--", "true")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "the engine warns" in line] == [
        f"[warn docker] the engine warns: {warning}" for warning in stand_in.warnings]


# ---- pulling

MISSING = reply(404, {"message": "No such image: image"})


def progress(*objects, split=None):
    data = "\r\n".join(json.dumps(each) for each in objects)
    return reply(200, data + ("\r\n" if split is None else ""))


def test_pull(stand_in):
    stand_in.answers["GET /images/reg%3A5000%2Fa%2Fb%3A1/json"] = [MISSING, reply(200, stand_in.image)]
    stand_in.answers["POST /images/create"] = progress(
        {"status": "Pulling from a/b", "id": "1"}, {"status": "Downloading", "progress": "[=> ]", "id": "2"},
        {"status": "Status: Downloaded newer image"})
    done = run(stand_in, image="reg:5000/a/b:1", options=",pull=missing,platform=linux/amd64")
    assert done.stdout == b"hello\n", done
    assert any(line.endswith("/images/create?fromImage=reg%3A5000%2Fa%2Fb&tag=1&platform=linux%2Famd64")
               for line in stand_in.asked), stand_in.asked


LAYERS = [{"status": "Pulling from a"}, {"status": "Downloading", "progress": "[=> ]", "id": "22"},
          {"status": "Pull complete", "id": "22"}]


def test_a_pull_may_take_longer_than_all_the_rest(stand_in):
    """Making a machine has a limit; fetching its image has none while something comes."""
    def slowly():
        data = b"".join(json.dumps(each).encode() + b"\n" for each in LAYERS * 10)
        yield f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        for line in data.splitlines(True):
            yield line
            time.sleep(0.05)
    stand_in.answers["GET /images/image/json"] = [MISSING, reply(200, stand_in.image)]
    stand_in.answers["POST /images/create"] = slowly()
    done = subprocess.run([TOOL, "open", f"docker:image,pull=missing,host=unix://{stand_in.path}", "500"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "WALDO_OK ", done
    assert done.stdout.splitlines()[:-1] == ["progress fetching image"] + [
        "progress Pulling from a", "progress 22: Pull complete"] * 10


def test_the_progress_of_a_pull_is_told(stand_in, agent, chat):
    """As events of the run, and to who waits at a terminal."""
    agent.args = (*agent.args[:-1], f"docker:image,host=unix://{stand_in.path}")
    for words, many in ((("-q", "--json"), True), ((), True), (("-q",), False)):
        stand_in.answers["GET /images/image/json"] = [MISSING, reply(200, stand_in.image)]
        stand_in.answers["POST /images/create"] = progress(*LAYERS)
        stand_in.started.clear()
        chat.queue(call(cmd="echo hello"), {"text": "done"})
        done = agent("run", "--approve", "never", *words, "x")
        assert done.returncode == 0, done.stderr
        if "--json" in words:
            told = [each["text"] for each in map(json.loads, done.stdout.splitlines())
                    if each.get("type") == "sandbox" and each["text"].startswith("opening: ")]
            assert told == ["opening: fetching image", "opening: Pulling from a", "opening: 22: Pull complete"]
        told = [line for line in done.stderr.splitlines() if line.startswith("pull: ")]
        assert len(told) == (3 if not words else 0), done.stderr
        assert many or "pull" not in done.stderr


def test_the_program_fetches_what_is_named(stand_in, waldo):
    """The library does so only on demand; the doctor and pull=never never do."""
    host = f"host=unix://{stand_in.path}"
    for words, asked in ((("exec", "-s", f"docker:image,{host}", "--", "true"), True),
                         (("exec", "-s", f"docker:image,pull=never,{host}", "--", "true"), False),
                         (("doctor", "-s", f"docker:image,{host}"), False)):
        stand_in.answers["GET /images/image/json"] = MISSING
        stand_in.answers["POST /images/create"] = progress({"error": "toomanyrequests"})
        stand_in.asked.clear()
        done = waldo(*words)
        assert done.returncode != 0, done
        assert any("/images/create" in line for line in stand_in.asked) == asked, stand_in.asked
        assert ("toomanyrequests" if asked else "docker pull image") in done.stderr + done.stdout, done


def test_a_pull_is_ended_with_its_program(stand_in, waldo):
    stand_in.answers["GET /images/image/json"] = MISSING
    stand_in.answers["POST /images/create"] = None
    with waldo.start("exec", "-s", f"docker:image,host=unix://{stand_in.path}", "--", "true") as process:
        assert process.stderr.readline() == b"pull: fetching image\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


@pytest.mark.parametrize("image,query", [("debian", "fromImage=debian&tag=latest"),
                                         ("reg:5000/x", "fromImage=reg%3A5000%2Fx&tag=latest"),
                                         ("a@sha256:12", "fromImage=a&tag=sha256%3A12"),
                                         ("a:1@sha256:12", "fromImage=a&tag=sha256%3A12")])
def test_what_is_pulled(stand_in, image, query):
    stand_in.answers["POST /images/create"] = progress({"status": "done"})
    assert run(stand_in, image=image, options=",pull=always").stdout == b"hello\n"
    assert f"POST /v1.41/images/create?{query}" in stand_in.asked


@pytest.mark.parametrize("last", [{"errorDetail": {"code": 1, "message": "toomanyrequests"}, "error": "old words"},
                                  {"error": "toomanyrequests"}])
@pytest.mark.parametrize("split", [None, 1])
def test_pull_that_fails_in_its_stream(stand_in, last, split):
    """The status was 200; the failure is an object behind it, perhaps without an end of line."""
    stand_in.answers["GET /images/image/json"] = MISSING
    stand_in.answers["POST /images/create"] = progress({"status": "Pulling"}, last, split=split)
    said = fails(stand_in, "could not be pulled", "toomanyrequests", options=",pull=missing")
    assert "old words" not in said


def test_pull_that_brings_nothing(stand_in):
    stand_in.answers["GET /images/image/json"] = MISSING
    stand_in.answers["POST /images/create"] = progress({"status": "odd"})
    fails(stand_in, "looking for the image", "No such image", options=",pull=missing")


def test_a_long_name_is_asked_for_whole(stand_in):
    stand_in.answers[f"GET /images/{'a%2F' * 1900}b/json"] = MISSING
    fails(stand_in, "not found", image="a/" * 1900 + "b", options=",pull=never")
    assert stand_in.asked == ["GET /_ping", f"GET /v1.41/images/{'a%2F' * 1900}b/json"]


def test_an_id_that_fits_no_request_is_not_asked_for(stand_in):
    done = subprocess.run([TOOL, "destroy", "a" * 2000], capture_output=True, text=True, timeout=180, check=False,
                          env={**os.environ, "DOCKER_HOST": f"unix://{stand_in.path}"})
    assert done.returncode != 0 and done.stdout.startswith("WALDO_ETOOBIG "), done
    assert stand_in.asked == ["GET /_ping"]


# ---- the stream

def test_200_in_place_of_101(stand_in):
    stand_in.upgrade = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
    assert run(stand_in, "head -c 300000 /dev/zero | wc -c").stdout == b"300000\n"


@pytest.mark.parametrize("piece", [1, 3, 7])
def test_frames_in_pieces(stand_in, piece):
    stand_in.piece = piece
    assert run(stand_in, "echo out; echo err >&2; seq 200 | tail -n 1").stdout == b"out\n200\n"


def test_frames_right_behind_the_answers_head(stand_in):
    stand_in.upgrade += frame(2, b"exec format error\n") + frame(3, b"the engine's last words")
    stand_in.frames = b""
    fails(stand_in, "exec format error", "the engine's last words", options=",hand=always")


@pytest.mark.parametrize("frames,words", [
    (b"this is no frame", "no frame of a stream"),
    (frame(2, b"x" * 100)[:50], "in the middle of a frame"),
    (frame(1, b"")[:3], "in the middle of a frame"),
    (frame(1, b"Welcome to this image!\n" * 10), "protocol"),
    (b"", "ended and is gone"),
    (frame(2, b"cannot run here\n"), "cannot run here"),
])
def test_streams_that_end(stand_in, frames, words):
    stand_in.frames = frames
    fails(stand_in, words, options=",hand=always")
    assert stand_in.removed.wait(120)


@pytest.mark.parametrize("state,words", [
    ({"OOMKilled": True, "ExitCode": 137}, "more than its 64 MiB of memory"),
    ({"OOMKilled": False, "ExitCode": 1}, "exit code 1"),
    ({"Running": True}, "closed the stream"),
])
def test_why_it_ended(stand_in, state, words):
    stand_in.frames = b""
    stand_in.answers["GET /containers/NAME/json"] = reply(200, {"State": state})
    fails(stand_in, words, options=",memory=64m,hand=always")


def test_engine_that_dies_in_a_command(stand_in):
    process = subprocess.Popen([EXEC, f"docker:image,host=unix://{stand_in.path}", "-", "copy", "echo up; sleep 100"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    stand_in.close()
    _, stderr = process.communicate(timeout=180)
    assert process.returncode in (124, 125), stderr
    stand_in.__init__(stand_in.folder)

"""What the clients do not look at: the E2B stand-in's exact bytes, its isolation, its faults, and what it leaves."""
import base64
import contextlib
import gzip
import hashlib
import http.client
import importlib.util
import json
import os
import pathlib
import socket
import struct
import threading
import time
import urllib.parse

import pytest
from patience import PATIENCE, until
from standin import Standin

HERE = pathlib.Path(__file__).resolve().parent
KEY = {"X-API-Key": "e2b_0123456789"}
CONNECT = "application/connect+json"
TOKEN = "ab" * 32
OURS = pytest.mark.skipif("WALDO_TEST_ENVD" in os.environ, reason="looks at what is only ours")


def ask(standin, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", standin.port, timeout=PATIENCE)
    try:
        body = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def frame(value, flags=0):
    payload = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return struct.pack(">BI", flags, len(payload)) + payload


def frames(data):
    """[(flags, value)] of a whole stream."""
    found = []
    while data:
        flags, size = struct.unpack(">BI", data[:5])
        found.append((flags, json.loads(data[5:5 + size])))
        data = data[5 + size:]
    return found


class Machine:
    """One sandbox, spoken to without any client library."""

    def __init__(self, standin, path="/v2/sandboxes", **body):
        self.standin = standin
        status, _, answer = ask(standin, "POST", path, {"templateID": "base", **body}, KEY)
        assert status == 201, answer
        self.about = json.loads(answer)
        self.id = self.about["sandboxID"]
        self.headers = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983"}
        if "envdAccessToken" in self.about:
            self.headers["X-Access-Token"] = self.about["envdAccessToken"]

    def ask(self, method, path, body=None, **headers):
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(self.standin, method, path, body, {**self.headers, **more})

    def call(self, path, message, **headers):
        status, _, body = self.ask("POST", path, message, Content_Type="application/json", **headers)
        return status, json.loads(body)

    def open(self, message, method="Start", **headers):
        """A stream that is still going on: connection and response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.standin.port, timeout=PATIENCE)
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", f"/process.Process/{method}", frame(message),
                           {**self.headers, "Content-Type": CONNECT, **more})
        response = connection.getresponse()
        assert response.status == 200 and response.headers["Content-Type"] == CONNECT
        return connection, response

    def start(self, *command, **more):
        """All frames of a command's stream."""
        headers = {name: more.pop(name) for name in list(more) if name[0].isupper()}
        connection, response = self.open({"process": {"cmd": command[0], "args": command[1:]}, "stdin": False, **more},
                                         **headers)
        try:
            return frames(response.read())
        finally:
            connection.close()

    def sh(self, script, **more):
        """What a script writes, and its end."""
        found = self.start("/bin/sh", "-c", script, **more)
        assert found[-1] == (2, {}), found
        events = [value["event"] for _, value in found[:-1]]
        out = b"".join(base64.b64decode(event["data"].get("stdout", "")) for event in events if "data" in event)
        return out.decode(), events[-1].get("end")

    def kill(self):
        return ask(self.standin, "DELETE", f"/sandboxes/{self.id}", None, KEY)[0]


def one(response):
    """The next frame of a stream."""
    flags, size = struct.unpack(">BI", response.read(5))
    return flags, json.loads(response.read(size))


def module(path):
    spec = importlib.util.spec_from_file_location(f"standin_{path.stem}", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def machine(e2b):
    return Machine(e2b)


# --- bytes ---------------------------------------------------------------------------------------------------

@OURS
def test_documented_command_is_byte_exact(machine):
    body = frame({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "echo hi"]}, "stdin": False})
    assert len(body) == 79 and body[:5] == bytes.fromhex("000000004a")
    with socket.create_connection(("127.0.0.1", machine.standin.port), PATIENCE) as connection:
        head = "".join(f"{name}: {value}\r\n" for name, value in machine.headers.items())
        connection.sendall((f"POST /process.Process/Start HTTP/1.1\r\nHost: sandbox.e2b.app\r\n{head}"
                            "Connect-Protocol-Version: 1\r\nConnect-Timeout-Ms: 60000\r\n"
                            "Keepalive-Ping-Interval: 50\r\n"
                            f"Content-Type: {CONNECT}\r\nContent-Length: 79\r\n\r\n").encode() + body)
        got = b""
        while not got.endswith(b"\r\n0\r\n\r\n"):
            got += connection.recv(65536)
    pid = json.loads(got[got.index(b"{"):].split(b"\r\n")[0])["event"]["start"]["pid"]
    parts = [frame({"event": {"start": {"pid": pid}}}), frame({"event": {"data": {"stdout": "aGkK"}}}),
             frame({"event": {"end": {"exited": True, "status": "exit status 0"}}}), frame(b"{}", 2)]
    assert [len(part) for part in parts[1:]] == [0x29, 0x3f, 7] and len(parts[0]) == 33 + len(str(pid))
    assert got == (f"HTTP/1.1 200 OK\r\nContent-Type: {CONNECT}\r\nConnect-Accept-Encoding: gzip\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n").encode() + b"".join(
                       b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_documented_ends(machine):
    assert machine.sh("exit 3")[1] == {"exitCode": 3, "exited": True, "status": "exit status 3",
                                       "error": "exit status 3"}
    assert machine.sh("kill -9 $$")[1] == {"exitCode": -1, "status": "signal: killed", "error": "signal: killed"}
    assert machine.sh("kill $$")[1]["status"] == "signal: terminated"
    assert machine.start("no-such-program")[-2][1]["event"]["end"]["exitCode"] == 127
    late = [(2, {"error": {"code": "deadline_exceeded", "message": "context deadline exceeded"}})]
    assert len(frame(late[0][1])) == 5 + 76
    assert machine.start("/bin/sleep", "600", Connect_Timeout_Ms="200")[1:] == late
    assert until(lambda: machine.call("/process.Process/List", {}) == (200, {}))
    assert machine.start("/bin/sleep", "600", Connect_Timeout_Ms="0")[-1:] == late  # and it runs on without a limit
    assert len(machine.call("/process.Process/List", {})[1]["processes"]) == 1


def test_documented_unary_calls(machine):
    status, headers, body = machine.ask("POST", "/process.Process/SendSignal", {
        "process": {"pid": 999999}, "signal": "SIGNAL_SIGKILL"}, Content_Type="application/json")
    assert (status, headers["Content-Type"]) == (404, "application/json")
    assert body == b'{"code":"not_found","message":"process with pid 999999 not found"}'
    connection, response = machine.open({"process": {"cmd": "/bin/cat"}})
    pid = one(response)[1]["event"]["start"]["pid"]
    status, headers, body = machine.ask("POST", "/process.Process/SendInput", {
        "process": {"pid": pid}, "input": {"stdin": "YWJjCg=="}}, Content_Type="application/json")
    assert (status, body) == (200, b"{}")
    assert one(response) == (0, {"event": {"data": {"stdout": "YWJjCg=="}}})
    connection.close()


def test_documented_file(machine):
    where = "/files?path=%2Fhome%2Fuser%2Fa.txt&username=user"
    status, headers, body = machine.ask("POST", where, b"hello\n", Content_Type="application/octet-stream")
    assert (status, headers["Content-Type"], headers["Content-Length"]) == (200, "text/plain; charset=utf-8", "58")
    assert body == b'[{"name":"a.txt","path":"/home/user/a.txt","type":"file"}]'
    status, headers, body = machine.ask("GET", where)
    assert (status, body, headers["Content-Length"], headers["Accept-Ranges"], headers["Vary"],
            headers["Content-Disposition"]) == (200, b"hello\n", "6", "bytes", "Accept-Encoding",
                                                "inline; filename=a.txt")
    machine.ask("POST", "/filesystem.Filesystem/Remove", {"path": "a.txt"}, Content_Type="application/json")
    assert machine.ask("GET", where)[2] == b'{"code":404,"message":"path \'/home/user/a.txt\' does not exist"}\n'


VECTORS = [("/a/b.txt", "read", "", None, "v1_h1x05R3qWe8DF8hwieXbHj5gu0MvfsOyQquX+jbdoNA"),
           ("/a/x y.txt", "write", "root", "1795958030", "v1_jyxqfSKA1hzWF8WS7Rnn1Su+SfFjnoX7McUyGhpvRkM"),
           ("/a/b.txt", "write", "root", "1795958030", "v1_eQw/hKJ/FDdkNbuTRmxpYkKUUdaqhgJ8ELUW5pYU1iI")]


@pytest.mark.parametrize("path,operation,user,expires,right", VECTORS)
def test_signatures(path, operation, user, expires, right, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "../../standins/common"))
    monkeypatch.syspath_prepend(str(HERE / "../../standins/e2b/envd"))
    assert module(HERE / "../../standins/e2b/vms.py").signature(TOKEN, path, operation, user, expires) == right
    files = module(HERE / "../../standins/e2b/envd/files.py")
    files.token = TOKEN
    assert files.signature(path, operation, user, expires) == right


def test_file_urls_are_checked(machine):
    token = machine.about["envdAccessToken"]
    bare = {name: value for name, value in machine.headers.items() if name != "X-Access-Token"}

    def get(headers, **query):
        return ask(machine.standin, "GET", "/files?" + urllib.parse.urlencode({"path": "/etc/hosts", **query}), None,
                   headers)
    for headers, says in ((bare, "missing signature query parameter"),
                          ({**bare, "X-Access-Token": "no"}, "access token present in header but does not match")):
        status, _, body = get(headers)
        assert (status, json.loads(body)) == (401, {"code": 401, "message": says})
    assert b"invalid signature" in get(bare, signature="v1_wrong")[2]
    late = int(time.time()) - 5
    raw = f"/etc/hosts:read::{token}:{late}"
    signature = "v1_" + base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode().rstrip("=")
    assert b"signature is already expired" in get(bare, signature=signature, signature_expiration=late)[2]


# --- authority and routing -----------------------------------------------------------------------------------

def test_keys_and_tokens(e2b, machine):
    for headers in ({}, {"X-API-Key": "no-prefix"}):
        status, _, body = ask(e2b, "GET", "/v2/sandboxes", None, headers)
        assert status == 401 and json.loads(body)["code"] == 401
    bare = {**machine.headers, "X-Access-Token": "wrong", "Content-Type": CONNECT}
    status, headers, body = ask(e2b, "POST", "/process.Process/Start", frame({"process": {"cmd": "true"}}), bare)
    assert (status, headers["X-Content-Type-Options"]) == (401, "nosniff") and body.endswith(b'supported"}\n')
    assert ask(e2b, "GET", "/health", None, bare)[0] == 204
    open_one = Machine(e2b, "/sandboxes", timeout=60)
    assert "envdAccessToken" not in open_one.about and open_one.sh("echo in")[0] == "in\n"
    assert "envdAccessToken" in Machine(e2b, "/sandboxes", timeout=60, secure=True).about
    found = machine.start("true", Authorization="Basic " + base64.b64encode(b"zz:").decode())
    assert found == [(2, {"error": {"code": "unauthenticated", "message": "invalid username: 'zz'"}})]


def test_routes(e2b, machine):
    assert ask(e2b, "GET", "/health", None, {"E2b-Sandbox-Id": machine.id})[::2] == (400, b"missing header")
    odd = {"E2b-Sandbox-Id": "NO", "E2b-Sandbox-Port": "49983"}
    assert ask(e2b, "GET", "/health", None, odd)[::2] == (400, b"Invalid sandbox ID")
    host = {"Host": f"49983-{machine.id}.e2b.example"}
    assert ask(e2b, "GET", "/health", None, host)[0] == 204
    assert machine.ask("POST", "/init", {})[0] == 404
    status, _, body = ask(e2b, "GET", "/", None, {"Host": f"8000-{machine.id}.e2b.example"})
    assert status == 502 and json.loads(body) == {
        "sandboxId": machine.id, "message": "The sandbox is running but port is not open", "port": 8000, "code": 502}
    machine.open({"process": {"cmd": "/usr/bin/python3", "args": ["-m", "http.server", "8000"], "cwd": "/usr"}})
    assert until(lambda: ask(e2b, "GET", "/", None, {"Host": f"8000-{machine.id}.e2b.example"})[0] == 200)
    assert b"local/" in ask(e2b, "GET", "/", None, {"Host": f"8000-{machine.id}.e2b.example"})[2]
    machine.kill()
    status, _, body = machine.ask("GET", "/health")
    assert (status, json.loads(body)) == (502, {"sandboxId": machine.id, "message": "The sandbox was not found",
                                                "code": 502})
    assert machine.kill() == 404


def test_traffic_token(e2b):
    machine = Machine(e2b, network={"allowPublicTraffic": False})
    host = {"Host": f"8000-{machine.id}.e2b.example"}
    assert b"'e2b-traffic-access-token' is missing" in ask(e2b, "GET", "/", None, host)[2]
    right = {**host, "e2b-traffic-access-token": machine.about["trafficAccessToken"]}
    assert b"port is not open" in ask(e2b, "GET", "/", None, right)[2]


# --- machines ------------------------------------------------------------------------------------------------

@OURS
def test_machines_are_apart(e2b, machine):
    other = Machine(e2b)
    assert machine.sh("echo x >/tmp/mine; echo x >~/mine; ls /dev/shm /tmp ~")[0].count("mine") == 2
    assert other.sh("ls /tmp ~")[0].count("mine") == 0
    assert int(machine.sh("ls /proc | grep -c '^[0-9]'")[0]) <= 5  # init, envd, sh, ls, grep
    assert machine.sh("cat /proc/net/dev | wc -l")[0] == "3\n"
    assert machine.sh("test -e /work || test -e /root/.ssh || test -e /home/user/.. && echo apart")[0] == "apart\n"
    assert machine.sh("mkdir /workspace 2>/dev/null; touch /tmp/a ~/b && echo fine")[0] == "fine\n"
    if os.getuid() == 0:
        assert machine.sh("id -u; id -un; touch /x 2>&1; kill -9 2 2>&1")[0].startswith("1000\nuser\n")
        root = {"Authorization": "Basic cm9vdDo="}
        assert machine.sh("id -u; mount -t tmpfs x /mnt 2>/dev/null; cat /etc/shadow 2>/dev/null", **root)[0] == "0\n"


def gone(pids):
    return until(lambda: not [pid for pid in pids if os.path.exists(f"/proc/{pid}")])


def pids_of(standin):
    return [int(pid) for machine in json.loads(standin.ask("GET", "/_processes/list")).values() for pid in machine]


def test_nothing_outlives_a_machine(e2b, machine):
    assert e2b.ask("GET", "/_processes") == b"3"
    machine.sh("setsid sleep 1000 >/dev/null 2>&1 </dev/null & nohup sleep 1000 >/dev/null 2>&1 &")
    pids = pids_of(e2b)
    assert len(pids) == 5
    assert machine.kill() == 204
    assert gone(pids) and e2b.ask("GET", "/_processes") == b"0"
    late = Machine(e2b, timeout=1)
    pids = pids_of(e2b)
    e2b.ask("GET", "/_wait?processes=0")
    assert gone(pids) and late.ask("GET", "/health")[0] == 502


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_nothing_outlives_the_standin(how):
    with contextlib.ExitStack() as stack:
        standin = Standin("e2b")
        stack.callback(standin.stop)
        for _ in range(2):
            Machine(standin).sh("setsid sleep 1000 >/dev/null 2>&1 </dev/null &")
        pids = pids_of(standin)
        assert len(pids) == 8
        if how == "kill":
            standin.process.kill()
        else:
            standin.stop()
            stack.pop_all()
        assert gone(pids)


def test_life_at_the_provider(e2b, machine):
    def detail():
        return json.loads(ask(e2b, "GET", f"/sandboxes/{machine.id}", None, KEY)[2])
    for path in ("/v2/sandboxes", "/sandboxes"):
        status, _, answer = ask(e2b, "POST", f"{path}/{machine.id}-6532622b/connect", {"timeout": 10}, KEY)
        assert status == 200 and json.loads(answer)["envdAccessToken"] == machine.about["envdAccessToken"]
    first = detail()
    assert first["state"] == "running" and first["metadata"] == {} and first["endAt"] > first["startedAt"]
    assert ask(e2b, "POST", f"/sandboxes/{machine.id}/timeout", {"timeout": 900}, KEY)[0] == 204
    assert detail()["endAt"] > first["endAt"]
    assert ask(e2b, "POST", f"/sandboxes/{machine.id}/timeout", {"timeout": 0}, KEY)[0] == 400
    connection, response = machine.open({"process": {"cmd": "/bin/sleep", "args": ["1000"]}})
    one(response)
    assert ask(e2b, "POST", f"/sandboxes/{machine.id}/pause", {}, KEY)[0] == 204
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        response.read()
    connection.close()
    assert machine.ask("GET", "/health")[0] == 502
    assert ask(e2b, "POST", f"/sandboxes/{machine.id}/pause", {}, KEY)[0] == 409
    assert ask(e2b, "POST", f"/sandboxes/{machine.id}/connect", b"", KEY)[0] == 400  # the old spelling wants a body
    assert ask(e2b, "POST", f"/v2/sandboxes/{machine.id}/connect", b"", KEY)[0] == 201
    assert len(machine.call("/process.Process/List", {})[1]["processes"]) == 1
    stopped = "sleep 1000 >/dev/null 2>&1 & until [ $(cat /proc/$!/comm) = sleep ]; do :; done; kill -STOP $!"
    assert machine.sh(stopped)[1]["exited"]
    assert ask(e2b, "POST", f"/sandboxes/{machine.id}/pause", {}, KEY)[0] == 204
    assert ask(e2b, "POST", f"/sandboxes/{machine.id}/resume", {}, KEY)[0] == 201
    # What it had stopped itself stays so.
    assert until(lambda: sorted(machine.sh("ps -C sleep -o state=")[0].split()) == ["S", "T"])
    e2b.control(no_v2=True)
    assert ask(e2b, "POST", "/v2/sandboxes", {"templateID": "base"}, KEY)[0] == 404
    assert ask(e2b, "POST", "/sandboxes", {"templateID": "nope"}, KEY)[0] == 404


def test_labels_are_found(e2b):
    machine = Machine(e2b, metadata={"dev.waldo.run": "a b&c", "other": "x"})
    Machine(e2b)
    for query, count in (("dev.waldo.run%3Da%252520b%252526c", 1), ("other%3Dx", 1), ("other%3Dy", 0)):
        found = json.loads(ask(e2b, "GET", f"/v2/sandboxes?metadata={query}", None, KEY)[2])
        assert [one["sandboxID"] for one in found] == [machine.id] * count
    status, headers, _ = ask(e2b, "GET", "/v2/sandboxes?limit=1", None, KEY)
    assert headers["X-Total-Running"] == "2" and headers["X-Next-Token"]
    assert ask(e2b, "GET", "/v2/sandboxes?limit=101", None, KEY)[0] == 400


# --- processes -----------------------------------------------------------------------------------------------

def test_streams_keep_their_promises(machine):
    # It goes on when what it has said was taken from the pipe.
    script = ("import array, fcntl, termios, time; left = array.array('i', [1]); input(); print('lost', flush=True)\n"
              "while left[0]: time.sleep(0.01); fcntl.ioctl(1, termios.FIONREAD, left)\n"
              "open('/tmp/said', 'w').close(); input(); print('seen'); exit(7)")
    connection, response = machine.open({"process": {"cmd": "/usr/bin/python3", "args": ["-c", script]}})
    pid = one(response)[1]["event"]["start"]["pid"]
    connection.close()  # nobody listens, and the process lives on
    say = {"process": {"pid": pid}, "input": {"stdin": "eAo="}}
    assert machine.call("/process.Process/SendInput", say) == (200, {})
    assert until(lambda: machine.call("/filesystem.Filesystem/Stat", {"path": "/tmp/said"})[0] == 200)
    connection, response = machine.open({"process": {"pid": pid}}, "Connect")
    assert one(response)[1]["event"] == {"start": {"pid": pid}}
    machine.call("/process.Process/SendInput", say)
    rest = frames(response.read())
    assert [value.get("event", {}).get("data") for _, value in rest][:1] == [{"stdout": "c2Vlbgo="}]
    assert rest[-2][1]["event"]["end"]["exitCode"] == 7
    again = machine.open({"process": {"pid": pid}}, "Connect")[1]  # an end is remembered
    assert [list(value.get("event", {})) for _, value in frames(again.read())] == [["start"], ["end"], []]


def test_the_end_waits_for_the_pipes(machine):
    begun = time.monotonic()
    out, _ = machine.sh("(sleep 0.5; echo late) & exit 0")
    assert out == "late\n" and time.monotonic() - begun >= 0.5
    connection, response = machine.open({"process": {"cmd": "/bin/sh", "args": ["-c", "sleep 1000 & echo up; wait"]}})
    pid = one(response)[1]["event"]["start"]["pid"]
    assert one(response)[1] == {"event": {"data": {"stdout": "dXAK"}}}
    machine.call("/process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
    assert frames(response.read())[-2][1]["event"]["end"]["exitCode"] == -1
    connection.close()
    assert "sleep" in machine.sh("ps ax")[0]  # only the one process was killed


def test_keepalives_and_chunks(machine):
    began = time.monotonic()
    connection, response = machine.open({"process": {"cmd": "/bin/sleep", "args": ["600"]}, "stdin": False},
                                        Keepalive_Ping_Interval="1")
    assert "start" in one(response)[1]["event"]
    assert [one(response) for _ in range(2)] == [(0, {"event": {"keepalive": {}}})] * 2
    assert time.monotonic() - began > 1.9
    connection.close()
    sizes = [len(base64.b64decode(value["event"]["data"]["stdout"])) for _, value in machine.start(
        "/usr/bin/head", "-c", "200000", "/dev/zero") if "data" in value.get("event", {})]
    assert sum(sizes) == 200000 and max(sizes) == 32768


def test_a_slow_reader_stops_the_process(machine):
    connection, response = machine.open({"process": {"cmd": "/bin/sh", "args": [
        "-c", "yes | head -c 60000000 & wait; touch /tmp/done"]}})
    time.sleep(1)
    assert machine.call("/filesystem.Filesystem/Stat", {"path": "/tmp/done"})[0] == 404
    total = 0
    while frames_left := response.read(1 << 20):
        total += len(frames_left)
    assert total > 80000000
    connection.close()


def test_answers_are_packed_when_asked(machine):
    machine.ask("POST", "/files?path=big", b"x" * 100000, Content_Type="application/octet-stream")
    _, headers, body = machine.ask("GET", "/files?path=big", Accept_Encoding="gzip, deflate")
    assert headers["Content-Encoding"] == "gzip" and gzip.decompress(body) == b"x" * 100000
    status, headers, body = machine.ask("GET", "/files?path=big", Accept_Encoding="gzip", Range="bytes=5-9")
    assert (status, body, headers["Content-Range"]) == (206, b"xxxxx", "bytes 5-9/100000")
    assert machine.ask("GET", "/files?path=big", Range="bytes=100000-")[0] == 416
    _, headers, body = machine.ask("POST", "/filesystem.Filesystem/Stat", {"path": "big"},
                                   Content_Type="application/json", Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip" and json.loads(gzip.decompress(body))["entry"]["size"] == "100000"
    packed = gzip.compress(b"packed")
    machine.ask("POST", "/files?path=p", packed, Content_Type="application/octet-stream", Content_Encoding="gzip")
    assert machine.ask("GET", "/files?path=p")[2] == b"packed"
    assert machine.ask("POST", "/process.Process/List", {}, Content_Type="text/plain")[0] == 415
    assert machine.ask("GET", "/process.Process/List")[0] == 405
    assert machine.call("/process.Process/List", b"")[0] == 400


@OURS
def test_a_broken_upload_leaves_a_part(machine):
    machine.ask("POST", "/files?path=f", b"whole content", Content_Type="application/octet-stream")
    with socket.create_connection(("127.0.0.1", machine.standin.port), PATIENCE) as connection:
        head = "".join(f"{name}: {value}\r\n" for name, value in machine.headers.items())
        connection.sendall(f"POST /files?path=f HTTP/1.1\r\nHost: x\r\n{head}Content-Type: application/octet-stream\r\n"
                           "Content-Length: 100\r\n\r\nhalf".encode())
    machine.standin.wait(aborted=1)
    assert until(lambda: machine.ask("GET", "/files?path=f")[2] == b"half")


# --- faults --------------------------------------------------------------------------------------------------

START = "POST /process.Process/Start"


def broken(machine, **fault):
    machine.standin.control(faults=[{"on": START, **fault}])
    return machine.start("/bin/echo", "hi")


def test_faults_of_frames(machine):
    events = [list(value.get("event", value)) for _, value in broken(machine, frames={"keepalive_first": True})]
    assert events == [["start"], ["keepalive"], ["data"], ["end"], []]
    table = {"no_end": [["start"], ["data"], []], "no_end_stream": [["start"], ["data"], ["end"]],
             "twice_end": [["start"], ["data"], ["end"], ["end"], []], "no_start": [["data"], ["end"], []],
             "keepalive_before_start": [["keepalive"], ["start"], ["data"], ["end"], []],
             "unknown_event": [["start"], ["novelty"], ["other"], ["data"], ["end"], []],
             "unknown_field": [["start"], ["keepalive", "more"], ["data"], ["end"], []],
             "after_end_stream": [["start"], ["data"], ["end"], [], ["keepalive"]],
             "join": [["start"], ["data"], ["end"], []]}
    for name, wanted in table.items():
        found = broken(machine, frames={name: True})
        assert [list(value.get("event", value)) for _, value in found] == wanted, name
    assert [flags for flags, _ in broken(machine, frames={"compressed": True})] == [0, 1, 0, 2]
    assert [flags for flags, _ in broken(machine, frames={"flags": 128})] == [0, 128, 0, 2]
    error = {"code": "unavailable", "message": "gone"}
    assert broken(machine, frames={"error": error})[1:] == [(2, {"error": error})]
    assert broken(machine, frames={"end_error": error})[-1] == (2, {"error": error})
    for frames_fault in ({"huge": 1 << 31}, {"garbage": "{nonsense"}):
        machine.standin.control(faults=[{"on": START, "frames": frames_fault}])
        connection, response = machine.open({"process": {"cmd": "/bin/true"}, "stdin": False})
        one(response)
        _, size = struct.unpack(">BI", response.read(5))
        assert size == (1 << 31 if "huge" in frames_fault else 9)
        connection.close()


def test_faults_of_bytes(machine):
    whole = broken(machine, split=1, delay_ms=1)
    assert whole[-1] == (2, {})
    assert broken(machine, stall_at=0, stall_ms=300)[-1] == (2, {})
    with pytest.raises(http.client.IncompleteRead):
        broken(machine, drop_at=10)
    with pytest.raises(ConnectionResetError):
        broken(machine, drop_at=10, reset=True)
    with pytest.raises(struct.error):
        broken(machine, end_at=3)
    machine.standin.control(faults=[{"on": START, "stall_at": 20}])
    standin, asked = machine.standin, len(machine.standin.requests())

    def release():
        standin.wait(requests=asked + 1)
        standin.control(release=True)
    releaser = threading.Thread(target=release)
    releaser.start()
    assert machine.start("/bin/true")[-1] == (2, {})
    releaser.join()
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        broken(machine, vanish_at=40)
    assert machine.ask("GET", "/health")[0] == 502 and machine.standin.ask("GET", "/_processes") == b"0"


def test_faults_of_answers(e2b, machine):
    e2b.control(faults=[{"on": "POST /process.Process/Send*", "status": 502, "skip": 1},
                        {"on": "POST /files", "status": 507}, {"on": "POST /v2/sandboxes", "status": 429, "times": 2,
                                                               "retry_after": 3},
                        {"on": "GET /health", "status": 409, "vm": machine.id}])
    dead = {"process": {"pid": 999999}, "signal": "SIGNAL_SIGKILL"}
    assert machine.call("/process.Process/SendSignal", dead)[0] == 404
    assert machine.call("/process.Process/SendSignal", dead)[0] == 502
    assert machine.call("/process.Process/SendSignal", dead)[0] == 404
    assert machine.ask("POST", "/files?path=a", b"x", Content_Type="application/octet-stream")[0] == 507
    assert b"transitioning" in machine.ask("GET", "/health")[2]
    for _ in range(2):
        status, headers, _ = ask(e2b, "POST", "/v2/sandboxes", {"templateID": "base"}, KEY)
        assert (status, headers["Retry-After"]) == (429, "3")
    e2b.control(faults=[{"on": START, "status": 500, "after": True}])  # it has run nevertheless
    connection = http.client.HTTPConnection("127.0.0.1", e2b.port, timeout=PATIENCE)
    connection.request("POST", "/process.Process/Start", frame({"process": {"cmd": "/bin/touch", "args": ["/tmp/ran"]},
                                                                "stdin": False}),
                       {**machine.headers, "Content-Type": CONNECT})
    assert connection.getresponse().status == 500
    connection.close()
    assert machine.call("/filesystem.Filesystem/Stat", {"path": "/tmp/ran"})[0] == 200


def test_creation_without_an_answer(e2b):
    e2b.control(faults=[{"on": "POST /v2/sandboxes", "close_before_reply": True, "reset": True}])
    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        ask(e2b, "POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"run": "r1"}}, KEY)
    found = json.loads(ask(e2b, "GET", "/v2/sandboxes?metadata=run%3Dr1", None, KEY)[2])
    assert len(found) == 1 and found[0]["state"] == "running"


@OURS
def test_settings(e2b):
    e2b.control(clock_skew_s=86400, disk_bytes=1 << 20, concurrent=1)
    machine = Machine(e2b)
    assert ask(e2b, "POST", "/v2/sandboxes", {"templateID": "base"}, KEY)[0] == 429
    started = json.loads(ask(e2b, "GET", f"/sandboxes/{machine.id}", None, KEY)[2])["startedAt"]
    assert started > time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 80000))
    status, _, body = machine.ask("POST", "/files?path=/workspace/big", b"x" * (2 << 20),
                                  Content_Type="application/octet-stream")
    assert status == 507 and json.loads(body)["message"].startswith("attempted to write 2097152 bytes: not enough")
    e2b.control(rotate_token=machine.id)
    assert machine.call("/process.Process/List", {})[0] == 401
    e2b.control(vanish="*")
    assert machine.ask("GET", "/health")[0] == 502
    with pytest.raises(RuntimeError, match="not switches"):
        e2b.control(faults=[{"on": "GET /health", "stauts": 1}])
    with pytest.raises(RuntimeError, match="not known"):
        e2b.control(clock=1)
    requests = e2b.requests()
    assert [request["vm"] for request in requests if request["port"] == 49983][0] == machine.id
    assert requests[0]["json"] == {"templateID": "base"} and requests[0]["status"] == 201
    assert int(e2b.ask("GET", "/_requests/count")) == len(requests)
    e2b.reset()
    assert e2b.requests() == [] and e2b.ask("GET", "/_processes") == b"0"


def test_network_options_are_judged(e2b):
    for network, status in (({"allowOut": ["example.com"], "denyOut": ["0.0.0.0/0"]}, 201),
                            ({"allowOut": ["1.2.3.4", "10.0.0.0/8"]}, 201), ({"allowOut": ["example.com"]}, 400),
                            ({"denyOut": ["example.com"]}, 400)):
        assert ask(e2b, "POST", "/v2/sandboxes", {"templateID": "base", "network": network}, KEY)[0] == status, network
    assert ask(e2b, "POST", "/v2/sandboxes", {"templateID": "base", "timeout": 10**6}, KEY)[0] == 400
    assert ask(e2b, "POST", "/v2/sandboxes", {}, KEY)[0] == 400

"""`waldo ps` and `waldo gc` where no engine is: what they say, and how they end. With one: tests/docker/test_gc.py."""
import json
import socketserver
import threading

import pytest


class Engine(socketserver.ThreadingUnixStreamServer):
    """Answers /_ping, lists what it was given, and removes it."""

    daemon_threads = True

    def __init__(self, path):
        self.asked = []
        self.containers = []
        self.list_status = 200
        super().__init__(str(path), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        while (words := self.rfile.readline().decode().split()):
            while self.rfile.readline().strip():
                pass
            self.server.asked.append(f"{words[0]} {words[1].split('?')[0]}")
            status, body = 204, b""
            if words[1].endswith("/_ping"):
                status, body = 200, b"OK"
            elif words[0] == "GET":
                status = self.server.list_status
                # As the engine does: the filter by id is a prefix.
                found = [each for each in self.server.containers
                         if "%22id%22" not in words[1] or each["Id"] in words[1]]
                body = json.dumps(found if status == 200 else {"message": "disk on fire"}).encode()
            self.wfile.write(f"HTTP/1.1 {status} X\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\n"
                             f"Content-Length: {len(body)}\r\n\r\n".encode() + body)


@pytest.fixture
def listing(waldo):
    server = Engine(waldo.temp / "engine.sock")
    waldo.env["DOCKER_HOST"] = f"unix://{waldo.temp}/engine.sock"
    yield server
    server.shutdown()
    server.server_close()


def container(name="-", **labels):
    return {"Id": name.encode().hex().ljust(64, "0"), "Image": "busybox", "State": "running", "Created": 1700000000,
            "Labels": {"dev.waldo.run": "x", "dev.waldo.owner": "1-x", **labels}}


@pytest.mark.parametrize("command", ["ps", "gc"])
def test_without_an_engine(waldo, command):
    done = waldo(command, env={"DOCKER_HOST": "unix:///nonexistent/engine.sock"})
    assert done.returncode == 5 and "docker: " in done.stderr and "/nonexistent/engine.sock" in done.stderr


@pytest.mark.parametrize("command", ["ps", "gc"])
def test_an_engine_that_cannot_list(waldo, listing, command):
    listing.list_status = 500
    done = waldo(command)
    assert done.returncode == 5 and "listing containers" in done.stderr and "disk on fire" in done.stderr


def test_nothing_there(waldo, listing):
    done = waldo("ps")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["NAME", "ID", "BACKEND", "STATE", "AGE", "OWNER", "IMAGE"]
    assert waldo("ps", "--json").stdout == ""
    done = waldo("gc")
    assert (done.returncode, done.stdout, done.stderr) == (0, "nothing is left over\n", "")


def test_strangers_are_listed_on_demand_and_never_ended(waldo, listing):
    listing.containers = [
        container("nobody"),
        container("other", **{"dev.waldo.user": "123456", "dev.waldo.pid": "1", "dev.waldo.start": "b/1",
                              "dev.waldo.host": "h/1"})]
    assert len(waldo("ps").stdout.splitlines()) == 1
    found = [json.loads(line) for line in waldo("ps", "--all", "--json").stdout.splitlines()]
    assert [(each["mine"], each["owner_alive"]) for each in found] == [(None, None), (False, None)]
    assert len(waldo("ps", "--all").stdout.splitlines()) == 3
    assert waldo("gc").stdout == "nothing is left over\n"
    assert not [each for each in listing.asked if each.startswith("DELETE")]


@pytest.mark.parametrize("word", ["@lab", "6e6f626f6479", "6e"])
def test_only_own_ones_can_be_named(waldo, listing, word):
    listing.containers = [container("nobody", **{"dev.waldo.name": "lab"})]
    done = waldo("gc", word)
    assert done.returncode == 1 and f"{word}: none of this user's" in done.stderr
    assert not [each for each in listing.asked if each.startswith("DELETE")]


def test_labels_cannot_forge_rows_or_drive_the_terminal(waldo, listing):
    listing.containers = [container("x", **{"dev.waldo.name": "a\nlab  \033[2J\u202eb", "dev.waldo.lease": "-5"})]
    done = waldo("ps", "--all")
    assert len(done.stdout.splitlines()) == 2 and "a lab  ^[[2J<U+202E>b" in done.stdout
    told = json.loads(waldo("ps", "--all", "--json").stdout)
    assert told["name"] == "a\nlab  \033[2J\u202eb" and told["lease_ms"] == 0

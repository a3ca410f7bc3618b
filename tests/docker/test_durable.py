"""Machines that outlive their host process, on a real engine."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from dockerd import IMAGE

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
TOOL = BUILD / "tests" / "docker" / "durable-tool"
EXEC = BUILD / "tests" / "contract" / "exec-tool"
WALDO = BUILD / "examples" / "cli" / "waldo"


class Host:
    """One process that may be killed."""

    def __init__(self, engine, sandbox, state):
        self.process = subprocess.Popen([TOOL, sandbox, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env={**os.environ, "DOCKER_HOST": engine.url})

    def say(self, line):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def hear(self):
        return self.process.stdout.readline().decode().rstrip("\n")

    def ask(self, line):
        self.say(line)
        return self.hear()

    def good(self, line):
        answer = self.ask(line)
        assert answer.startswith("OK"), (line, answer, self.process.poll())
        return answer[3:]

    def start(self, cmd):
        return int(self.good(f"start {cmd}"))

    def read(self, number, offset=0, ms=0):
        """Bytes, offset of what comes after, (end, code) or None while it runs."""
        words = self.good(f"read {number} {offset} {ms}").split()
        assert words[1] == "omitted=0", words
        over = None if words[2] == "running" else (int(words[2][4:]), int(words[3][5:]))
        return bytes.fromhex(words[-1][1:]), int(words[0][5:]), over

    def run(self, cmd):
        words = self.good(f"exec {cmd}").split()
        assert words[0] == "end=1", words
        return bytes.fromhex(words[2][1:]).decode()

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def finish(self):
        out, err = self.process.communicate(b"finish\n", timeout=60)
        assert (self.process.returncode, err) == (0, b""), (out, err)


class Durable:
    def __init__(self, engine, folder):
        self.engine = engine
        self.state = folder / "state"
        self.hosts = []

    def host(self, options=",lease=600", sandbox=None, state=None):
        text = sandbox if sandbox is not None else f"docker:{IMAGE}{options}"
        host = Host(self.engine, text, state or self.state)
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
    for host in made.hosts:
        if host.process.poll() is None:
            host.kill()
    made.remove_all()
    assert engine.wait(lambda: not engine.containers()), engine.containers()
    assert engine.wait(lambda: engine.volumes() <= before), engine.volumes() - before


COUNT = "i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.05; done; exit 7"


def read_all(host, number, offset=0):
    """To its end."""
    text = b""
    while True:
        piece, offset, over = host.read(number, offset, 20000)
        text += piece
        if over:
            return text, over


def test_killed_host_and_the_next_one(durable):
    """The exact remaining output from where the first had come to, and the exit code."""
    a = durable.host()
    assert a.good("open") == ""
    number = a.start(COUNT)
    a.good("save")
    head, offset, over = a.read(number, 0, 300)
    assert over is None and head.startswith(b"line 0\n") and offset == len(head)
    a.kill()
    b = durable.host()
    b.good("open")
    assert b.good("list") == f"{number}+"
    rest, over = read_all(b, number, offset)
    assert head + rest == b"".join(b"line %d\n" % i for i in range(40))
    assert over == (1, 7)
    assert b.start("echo next") > number
    b.good("close")
    b.finish()
    assert durable.engine.wait(lambda: not durable.engine.containers())

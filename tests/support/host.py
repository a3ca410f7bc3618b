"""A host process of a machine that outlives it: tests/docker/durable_tool.c, told what to do by lines."""
import os
import pathlib
import subprocess
import time

from patience import PATIENCE

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
TOOL = BUILD / "tests" / "docker" / "durable-tool"
GO = "/tmp/go-on"  # lets a command go on that waits


class Host:
    """One process that may be killed."""

    def __init__(self, sandbox, state, env):
        self.process = subprocess.Popen([TOOL, sandbox, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env={**os.environ, **env})

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

    def heard(self, number, text):
        """As read, when it has written this and perhaps more."""
        late = time.monotonic() + PATIENCE
        while not (found := self.read(number, 0, 100))[0].startswith(text):
            assert text.startswith(found[0]) and found[2] is None and time.monotonic() < late, found
        return found

    def run(self, cmd):
        words = self.good(f"exec {cmd}").split()
        assert words[0] == "end=1", words
        return bytes.fromhex(words[2][1:]).decode()

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def finish(self):
        out, err = self.process.communicate(b"finish\n", timeout=PATIENCE)
        assert (self.process.returncode, err) == (0, b""), (out, err)


def kill_all(hosts):
    """Those that still run."""
    for host in hosts:
        if host.process.poll() is None:
            host.kill()


def count(lines=40, waits=False):
    """A command that goes on for a while; it waits for GO before the last five lines, if it is told to."""
    gate = f"until [ $i -ne {lines - 5} ] || [ -e {GO} ]; do sleep 0.05; done; " if waits else ""
    return f"i=0; while [ $i -lt {lines} ]; do {gate}echo line $i; i=$((i+1)); sleep 0.05; done; exit 7"


def counted(lines=40):
    """All that it writes."""
    return b"".join(b"line %d\n" % i for i in range(lines))


def read_all(host, number, offset=0):
    """To its end."""
    text = b""
    while True:
        piece, offset, over = host.read(number, offset, 20000)
        text += piece
        if over:
            return text, over

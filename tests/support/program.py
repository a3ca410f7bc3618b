"""The waldo program as a user starts it: with pipes, or on a terminal. Fixture `waldo` has a home of its own."""
import fcntl
import os
import pathlib
import pty
import secrets
import select
import subprocess
import tempfile
import termios
import time

import pytest

from patience import PATIENCE

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", ROOT / "build"))
PROGRAM = BUILD / "examples" / "cli" / "waldo"


class Terminal:
    """A process whose standard streams are a terminal; stdout may be a pipe beside it."""

    def __init__(self, command, stdout_is_pipe=False, **more):
        self.master, slave = pty.openpty()
        self.shown = self.after = b""

        def take_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        stdout = subprocess.PIPE if stdout_is_pipe else slave
        self.process = subprocess.Popen(command, stdin=slave, stdout=stdout, stderr=slave, preexec_fn=take_terminal,
                                        **more)
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        if self.process.stdout:
            self.process.stdout.close()

    def read(self, timeout):
        if not select.select([self.master], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # nobody has the other side open any more
            data = b""
        self.shown += data
        self.after += data
        return bool(data)

    def expect(self, text):
        """Read until the terminal shows text behind what was expected before."""
        text = text.encode() if isinstance(text, str) else text
        late = time.monotonic() + PATIENCE
        while text not in self.after:
            if time.monotonic() > late or not self.read(1) and self.process.poll() is not None and not self.read(0):
                raise AssertionError(f"{text!r} was not shown, but {self.shown.decode('utf-8', 'replace')}")
        self.after = self.after[self.after.index(text) + len(text):]

    def send(self, text):
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def end(self):
        """The exit code, when it has ended by itself."""
        late = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < late:
            self.read(0.05)
        while self.read(0):
            pass
        return self.process.wait(timeout=PATIENCE)


class Waldo:
    def __init__(self, home, temp):
        self.home = home
        self.temp = temp
        keep = {name: value for name, value in os.environ.items()
                if name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LD_LIBRARY_PATH")}
        self.env = {**keep, "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "TMPDIR": str(self.temp),
                    "LC_ALL": "C.UTF-8", "TERM": "xterm", "no_proxy": "127.0.0.1"}
        self.args = ()  # options behind the command's name

    def command(self, name, *words):
        return [str(PROGRAM), name, *self.args, *words]

    def start(self, name, *words, **more):
        env = {**self.env, **more.pop("env", {})}
        return subprocess.Popen(self.command(name, *words), stdin=more.pop("stdin", subprocess.DEVNULL),
                                stdout=more.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, env=env, **more)

    def __call__(self, name, *words, **more):
        """Run to the end; stdout and stderr are text unless text=False."""
        env = {**self.env, **more.pop("env", {})}
        text = more.pop("text", True)
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("stdout", subprocess.PIPE)
        return subprocess.run(self.command(name, *words), stderr=subprocess.PIPE, env=env, timeout=PATIENCE,
                              encoding="utf-8" if text else None, errors="surrogateescape" if text else None, **more)

    def terminal(self, name, *words, **more):
        env = {**self.env, **more.pop("env", {})}
        return Terminal(self.command(name, *words), env=env, **more)


class Sleep:
    """A command line nobody else uses, so that its processes can be found."""

    def __init__(self):
        self.seconds = "600.%d" % (secrets.randbelow(10**9) + 10**9)
        self.words = f"sleep {self.seconds}"

    def processes(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[:2] == [
                        b"sleep", self.seconds.encode()]:
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def wait(self, count):
        late = time.monotonic() + PATIENCE
        while len(self.processes()) != count:
            assert time.monotonic() < late, f"{len(self.processes())} processes, not {count}"
            time.sleep(0.02)


@pytest.fixture
def waldo(tmp_path):
    # As root, commands run as another user, who must be able to go through the folder of scratch files.
    with tempfile.TemporaryDirectory(prefix="waldo-cli-") as temp:
        os.chmod(temp, 0o711)
        yield Waldo(tmp_path, pathlib.Path(temp))


@pytest.fixture
def agent(waldo, chat):
    """The program with the stand-in as its model and a local sandbox."""
    waldo.args = ("-m", f"chat:{chat.url}#none", "-s", "local:")
    return waldo


def call(name="exec_command", call_id="c1", **arguments):
    return {"calls": [{"id": call_id, "name": name, "arguments": arguments}]}

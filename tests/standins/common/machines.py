"""Machines for stand-ins that really run commands: each a bubblewrap with processes, files and network of its own.

Nothing of a machine is outside of it: its files are in memory, its network card is a Unix socket without a name in the
file system. It ends with the stand-in, also when that is killed. Run by root, it has users root and `user` (1000); run
by anybody else, one number for both. In it runs a daemon of the stand-in's own, see inside.py.
"""
import os
import pathlib
import queue
import secrets
import signal
import socket
import subprocess
import threading
import time

import http1
import send

STANDINS = pathlib.Path(__file__).resolve().parents[1]
RIGHTS = "SETUID SETGID CHOWN DAC_OVERRIDE FOWNER FSETID KILL".split()
CAPABILITIES = [word for name in RIGHTS for word in ("--cap-add", f"CAP_{name}")]
ROOT = """--die-with-parent --unshare-pid --unshare-net --unshare-ipc --unshare-uts --clearenv --ro-bind /usr /usr
    --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink usr/lib64 /lib64
    --ro-bind-try /etc/alternatives /etc/alternatives --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache
    --proc /proc --dev /dev --perms 1777 --tmpfs /dev/shm --dir /etc --dir /home --dir /var --dir /tmp""".split()
AS_ROOT = ["--cap-drop", "ALL", *CAPABILITIES]
AS_OTHERS = "--unshare-user --uid 0 --gid 0".split()  # the one number there is: both root and user


class Spawner(threading.Thread):
    """Starts machines: they die with the thread that started them, so it is one that stays."""

    def __init__(self):
        super().__init__(daemon=True)
        self.orders = queue.Queue()
        self.start()

    def run(self):
        while True:
            command, listener, answer = self.orders.get()
            try:
                answer.put(subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[listener],
                                            stdout=subprocess.DEVNULL))
            except OSError as why:
                answer.put(why)

    def spawn(self, command, listener):
        answer = queue.Queue()
        self.orders.put((command, listener, answer))
        found = answer.get()
        if isinstance(found, OSError):
            raise found
        return found


class Connection(http1.Reader):
    """A connection to a port of a machine; ConnectionRefusedError when nothing listens there."""

    def __init__(self, machine, port, wait=lambda connection: None):
        self.request, self.wait = socket.socket(socket.AF_UNIX), wait
        try:
            self.request.connect(machine.address)
            self.request.sendall(b"PORT %d\n" % port)
            if (port != machine.daemon_port or machine.real) and self.line() != "open":
                raise ConnectionRefusedError
        except BaseException:
            self.request.close()
            raise

    def more(self):
        self.wait(self.request)
        super().more()

    def ask(self, method, target, headers, body, length=None):
        """Send a request; `body` is bytes, or pieces: so many bytes together, else sent as chunks."""
        whole = isinstance(body, bytes)
        chunked = not whole and length is None
        length = len(body) if whole else length
        framing = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", length)
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in [*headers, framing])]
        self.request.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body if whole else b""))
        for part in () if whole else body:
            self.request.sendall(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
        if chunked:
            self.request.sendall(b"0\r\n\r\n")

    def answer(self):
        """Status and headers."""
        (_, status, _), headers = self.head()
        return int(status), headers

    def rest(self, status, low):
        """The pieces of the answer's body."""
        if status in (204, 304):
            return iter(())
        if "content-length" in low or "transfer-encoding" in low:
            return self.parts(low)
        return self.to_the_end()

    def to_the_end(self):
        try:
            while True:
                yield self.buffer
                self.buffer = b""
                self.more()
        except send.Gone:
            return


class Machine:
    """One machine. `state` is starting, running, paused, or gone; `ends` is when its time is over."""
    spawner = None
    folder, program = None, None  # of the daemon: a folder below tests/standins, a file in it
    daemon_port = None  # answered by the daemon itself
    real = None  # the provider's own daemon, to be run in place of ours

    def __init__(self, name, disk=None):
        self.name, self.state, self.ends = name, "starting", float("inf")
        self.relays = set()  # connections into it
        self.address = f"\0waldo-machine-{secrets.token_hex(8)}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.address)
            listener.listen(1024)
            self.process = Machine.spawner.spawn(self.command(listener.fileno(), disk), listener.fileno())

    def command(self, listener, disk):
        mine = "/run/standins"
        inside = []
        for folder in ("common", self.folder):
            inside += ["--ro-bind", str(STANDINS / folder), f"{mine}/{folder}"]
        if self.real:
            inside += ["--ro-bind", str(self.real), f"{mine}/real"]
        if disk:
            inside += ["--size", str(disk), "--tmpfs", "/workspace"]
        who = AS_ROOT if os.getuid() == 0 else AS_OTHERS
        return ["bwrap", *ROOT, *inside, *who, "/usr/bin/python3", "-B", f"{mine}/{self.folder}/{self.program}",
                str(listener), *([f"{mine}/real"] if self.real else [])]

    def processes(self):
        """The numbers of all its processes, bubblewrap's and envd's among them."""
        return tree(self.process.pid) if self.process.poll() is None else []

    def cut(self):
        """Break every connection into it."""
        for connection in list(self.relays):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def freeze(self):
        self.state = "paused"
        self.cut()
        self.held = {pid for pid in self.processes() if state(pid) == "T"}  # it has stopped these itself
        stopped = set()
        while new := set(self.processes()[1:]) - stopped:  # what was started meanwhile too
            for pid in new:
                send_signal(pid, signal.SIGSTOP)
            stopped |= new

    def thaw(self):
        for pid in set(self.processes()[1:]) - self.held:
            send_signal(pid, signal.SIGCONT)
        self.state = "running"

    def end(self):
        """Kill it; returns when the last of its processes has gone."""
        self.state = "gone"
        inner = self.processes()[1:2]  # the first process of its name space: the kernel ends the others with it
        for pid in inner or [self.process.pid]:
            send_signal(pid, signal.SIGKILL)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def send_signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def fields(pid):
    """State, parent and so on, as /proc tells them; nothing when it has gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def state(pid):
    return (fields(pid) or "?")[0]


def tree(root):
    """A process and all below it, itself first."""
    children = {}
    for entry in os.scandir("/proc"):
        words = fields(entry.name) if entry.name.isdigit() else None
        if words and (words[0] not in "ZX" or int(entry.name) == root):
            children.setdefault(int(words[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += sorted(children.get(pid, []))
    return found


class Fleet:
    """All machines by name, and the clock that ends them."""

    def __init__(self, expired):
        self.changed = threading.Condition()
        self.machines, self.expired = {}, expired
        Machine.spawner = Machine.spawner or Spawner()
        threading.Thread(target=self.watch, daemon=True).start()

    def find(self, name):
        with self.changed:
            return self.machines.get(name.partition("-")[0])

    def add(self, machine):
        with self.changed:
            self.machines[machine.name] = machine
            self.changed.notify_all()

    def all(self):
        with self.changed:
            return list(self.machines.values())

    def drop(self, machine):
        """Forget a machine, then end it; whether it was there."""
        with self.changed:
            there = self.machines.pop(machine.name, None) is not None
            machine.state = "gone"
        machine.end()
        return there

    def touch(self):
        with self.changed:
            self.changed.notify_all()

    def watch(self):
        while True:
            with self.changed:
                now = time.time()
                running = [machine for machine in self.machines.values() if machine.state == "running"]
                late = [machine for machine in running if machine.ends <= now]
                if not late:
                    self.changed.wait(min((machine.ends - now for machine in running), default=None))
            for machine in late:
                self.expired(machine)

    def end_all(self):
        for machine in self.all():
            self.drop(machine)

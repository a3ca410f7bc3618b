"""process.Process: processes, their output to whoever listens, and how they end."""
import collections
import fcntl
import os
import queue
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import filesystem
import users
from connect import Failure, octets, text_of

PIPE_CHUNK, PTY_CHUNK = 32768, 16384
PIPE_MAX = 65536  # that it holds
REMEMBERED_S = 30
WRAPPER = '{ echo 100 >/proc/$$/oom_score_adj; } 2>/dev/null; exec "${@}"'
WAITING = 64  # chunks that wait for a listener before the reading of output stops
ENVIRONMENT = {}  # of the whole machine
SIGNALS = {1: "hangup", 2: "interrupt", 3: "quit", 4: "illegal instruction", 5: "trace/breakpoint trap", 6: "aborted",
           7: "bus error", 8: "floating point exception", 9: "killed", 10: "user defined signal 1",
           11: "segmentation fault", 12: "user defined signal 2", 13: "broken pipe", 14: "alarm clock",
           15: "terminated"}
NAMED = {"SIGNAL_SIGKILL": signal.SIGKILL, "SIGNAL_SIGTERM": signal.SIGTERM, 9: signal.SIGKILL, 15: signal.SIGTERM}
lock = threading.Lock()
processes = {}
ended = collections.OrderedDict()  # pid: (when, end event)


class Listener:
    """A stream that follows a process; while it does not read, neither does the machine."""

    def __init__(self):
        self.items, self.gone = queue.Queue(WAITING), False

    def put(self, item):
        while not self.gone:
            try:
                return self.items.put(item, timeout=0.1)
            except queue.Full:
                pass


class Process:
    def __init__(self, config, user, pty, stdin, tag):
        self.config, self.tag = config, tag
        self.listeners, self.over = [], None
        self.output_over = threading.Event()  # at the end of every stream, or when a signal is to end it
        self.late = self.dead = False
        self.terminal = self.input = None
        self.input_lock = threading.Lock()
        cwd = filesystem.resolve(user, config.get("cwd") or "")
        if not os.path.exists(cwd):
            raise Failure("invalid_argument", f"cwd '{cwd}' does not exist")
        command = ["/bin/sh", "-c", WRAPPER, "--", config.get("cmd", ""), *config.get("args", [])]
        more = {"cwd": cwd, "env": self.environment(user), **users.credentials(user)}
        try:
            readers = self.on_terminal(command, pty, user, more) if pty else self.on_pipes(command, stdin, more)
        except (OSError, ValueError, subprocess.SubprocessError) as why:
            raise Failure("invalid_argument", f"error starting process '{config.get('cmd')}': {why}") from why
        self.pid = self.child.pid
        self.reading = len(readers)
        self.readers = [threading.Thread(target=self.read, args=reader, daemon=True) for reader in readers]

    def environment(self, user):
        return {"PATH": os.environ["PATH"], "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name,
                **ENVIRONMENT, **self.config.get("envs", {})}

    def on_pipes(self, command, stdin, more):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, bufsize=0,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0, **more)
        self.input = self.child.stdin
        return [(self.child.stdout.fileno(), "stdout", PIPE_CHUNK), (self.child.stderr.fileno(), "stderr", PIPE_CHUNK)]

    def on_terminal(self, command, pty, user, more):
        self.terminal, other = os.openpty()
        try:
            self.resize(pty)
            if users.may_change():
                os.fchown(other, user.pw_uid, -1)
            self.child = subprocess.Popen(["/usr/bin/setsid", "--ctty", *command], stdin=other, stdout=other,
                                          stderr=other, **more)
        except BaseException:
            os.close(self.terminal)
            raise
        finally:
            os.close(other)
        return [(self.terminal, "pty", PTY_CHUNK)]

    def resize(self, pty):
        size = pty.get("size", {})
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.get("rows", 0), size.get("cols", 0),
                                                                   0, 0))

    def run(self, seconds):
        """Follow it to its end, which a deadline may bring."""
        with lock:
            processes[self.pid] = self
        for reader in self.readers:
            reader.start()
        self.timer = None
        if seconds:
            self.timer = threading.Timer(seconds, self.expire)
            self.timer.daemon = True
            self.timer.start()
        threading.Thread(target=self.wait, daemon=True).start()

    def read(self, fd, kind, size):
        last = PIPE_MAX  # bytes, behind its end
        while self.over is None and last > 0:
            dead = self.dead  # all that it wrote is there
            if not select.select([fd], [], [], 0 if dead else 0.1)[0]:
                if dead:
                    break  # others hold it still
                continue
            try:
                data = os.read(fd, size)
            except OSError:  # a terminal whose last user has gone
                break
            if not data:
                break
            last -= len(data) if dead else 0
            for listener in list(self.listeners):  # nobody listens: the output is lost
                listener.put({"data": {kind: text_of(data)}})
        with lock:
            self.reading -= 1
            if not self.reading:
                self.output_over.set()
        if kind != "pty":
            (self.child.stdout if kind == "stdout" else self.child.stderr).close()

    def wait(self):
        self.output_over.wait()
        code = self.child.wait()
        if self.timer:
            self.timer.cancel()
        self.dead = True
        for reader in self.readers:  # what it wrote before it was killed
            reader.join(10)  # longer only where nobody reads
        event = {"exitCode": code, "exited": True, "status": f"exit status {code}", "error": f"exit status {code}"}
        if code < 0:
            says = f"signal: {SIGNALS.get(-code, -code)}"
            event = {"exitCode": -1, "status": says, "error": says}
        elif code == 0:
            event = {"exited": True, "status": "exit status 0"}
        with lock:
            del processes[self.pid]
            self.over = {"end": event}
            now = time.monotonic()
            ended[self.pid] = (now, self.over)
            while now - next(iter(ended.values()))[0] > REMEMBERED_S:
                ended.popitem(last=False)
            listeners = list(self.listeners)
        for listener in listeners:
            listener.put(self.over)
        for reader in self.readers:
            reader.join()
        with self.input_lock:
            if self.input:
                self.input.close()
            self.input = None
            if self.terminal is not None:
                os.close(self.terminal)

    def expire(self):
        if self.over is None:
            self.late = True
            self.send_signal(signal.SIGKILL)

    def send_signal(self, number):
        self.output_over.set()
        self.child.send_signal(number)

    def write(self, given):
        if not given:
            raise Failure("unimplemented", "invalid input type <nil>")
        kind = "tty" if "pty" in given else "stdin"
        data = octets(given.get("pty" if kind == "tty" else "stdin", ""))
        try:
            with self.input_lock:
                target = self.target(kind)
                while data:
                    data = data[os.write(target, data):]
        except (OSError, ValueError) as why:
            raise Failure("internal", f"error writing to {kind}: {why}") from why
        return {}

    def target(self, kind):
        """The descriptor that input of this kind goes to."""
        if kind == "tty" and self.terminal is None:
            raise OSError("tty not assigned to process — input should be written to the stdin, not the tty")
        if kind == "stdin" and self.terminal is not None:
            raise OSError("tty assigned to process — input should be written to the pty, not the stdin")
        if kind == "stdin" and self.input is None:
            raise OSError("stdin not enabled or closed")
        return self.terminal if kind == "tty" else self.input.fileno()

    def close_input(self):
        if self.terminal is not None:
            raise Failure("unknown", "error closing stdin: cannot close stdin for PTY process — send Ctrl+D (0x04) "
                                     "instead")
        with self.input_lock:
            if self.input:
                self.input.close()
            self.input = None
        return {}

    def listen(self):
        listener = Listener()
        with lock:
            self.listeners.append(listener)
            if self.over:
                listener.items.put(self.over)
        return listener

    def leave(self, listener):
        listener.gone = True
        with lock:
            self.listeners.remove(listener)


def selected(message):
    chosen = message.get("process") or {}
    with lock:
        if "pid" in chosen:
            found = processes.get(int(chosen["pid"]))
            says = f"process with pid {chosen['pid']} not found"
        elif "tag" in chosen:
            found = next((process for process in processes.values() if process.tag == chosen["tag"]), None)
            says = f"process with tag {chosen['tag']} not found"
        else:
            raise Failure("unimplemented", "invalid input type *process.ProcessSelector")
    if found is None:
        raise Failure("not_found", says)
    return found


def follow(process, listener, interval, seconds=None, first=False):
    """The events of one stream, from `start` to `end`; only the first one's deadline is the process's."""
    try:
        until = None if seconds is None else time.monotonic() + seconds
        yield {"event": {"start": {"pid": process.pid}}}
        while True:
            left = interval if until is None else min(interval, max(until - time.monotonic(), 0))
            try:
                event = listener.items.get(timeout=left)
            except queue.Empty:
                if until is not None and time.monotonic() >= until:
                    raise Failure("deadline_exceeded", "context deadline exceeded") from None
                event = {"keepalive": {}}
            if "end" in event and process.late and first:
                raise Failure("deadline_exceeded", "context deadline exceeded")
            yield {"event": event}
            if "end" in event:
                return
    finally:
        process.leave(listener)


def start(message, user, interval, seconds):
    stdin = message.get("stdin", True)
    process = Process(message.get("process") or {}, user, message.get("pty"), stdin, message.get("tag"))
    listener = process.listen()
    process.run(seconds)
    if seconds == 0:  # no time at all for the stream, but none set for the process
        process.leave(listener)
        raise Failure("deadline_exceeded", "context deadline exceeded")
    return follow(process, listener, interval, first=True)


def connect(message, interval, seconds):
    pid = (message.get("process") or {}).get("pid")
    with lock:
        when, event = ended.get(pid, (None, None))
    if when is not None and pid not in processes and time.monotonic() - when <= REMEMBERED_S:
        return iter([{"event": {"start": {"pid": pid}}}, {"event": event}])
    process = selected(message)
    return follow(process, process.listen(), interval, seconds)


def send_input(message):
    return selected(message).write(message.get("input") or {})


def stream_input(messages):
    process = None
    for message in messages:
        if "start" in message:
            process = selected(message["start"])
        elif "data" in message:
            process.write(message["data"].get("input") or {})
    return iter([{}])


def send_signal(message):
    process = selected(message)
    if message.get("signal") not in NAMED:
        raise Failure("unimplemented", f"invalid signal: {message.get('signal', 'SIGNAL_UNSPECIFIED')}")
    process.send_signal(NAMED[message["signal"]])
    return {}


def update(message):
    process = selected(message)
    if message.get("pty"):
        if process.terminal is None:
            raise Failure("internal", "error resizing tty: tty not assigned to process")
        process.resize(message["pty"])
    return {}


def close_stdin(message):
    return selected(message).close_input()


def listing(_):
    with lock:
        found = [{"config": process.config, "pid": process.pid, **({"tag": process.tag} if process.tag else {})}
                 for process in processes.values()]
    return {"processes": found} if found else {}

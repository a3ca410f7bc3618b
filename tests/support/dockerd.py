"""A Docker Engine for tests: the one that answers, or one of our own in a temporary folder."""
import contextlib
import fcntl
import grp
import http.client
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import urllib.parse

import pytest

from patience import until

IMAGE = "waldo-test-busybox"
EMPTY = "waldo-test-empty"
START_S = 120
# Beside its own runc. Debian's runsc takes the network of a container for the host's where the kernel is 6.11 or newer.
RUNTIMES = {"crun": [], "runsc": ["--network=none"]}
HYBRID = pathlib.Path("/sys/fs/cgroup/unified")  # crun starts nothing where it sees both kinds of control groups


def without_hybrid():
    """Words before a command that is to see one kind of control groups only."""
    if not HYBRID.is_dir():
        return []
    return ["unshare", "--mount", "--propagation", "slave", "sh", "-c", f'umount {HYBRID}; exec "$@"', "sh"]


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    def __init__(self, path):
        self.path = str(path)
        self.url = f"unix://{self.path}"
        self.folder = None  # of our own one
        self.process = None

    def ask(self, method, path, body=None, kind="application/json"):
        """Status and decoded body."""
        connection = Connection(self.path)
        try:
            connection.request(method, path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(data)
        except ValueError:
            return answer.status, data

    def answers(self):
        try:
            return self.ask("GET", "/_ping")[0] == 200
        except OSError:
            return False

    def containers(self):
        """Those of waldo, whatever their state."""
        filters = urllib.parse.quote(json.dumps({"label": ["dev.waldo.run"]}))
        return self.ask("GET", f"/v1.41/containers/json?all=1&filters={filters}")[1]

    def volumes(self):
        return {volume["Name"] for volume in self.ask("GET", "/v1.41/volumes")[1]["Volumes"] or []}

    wait = staticmethod(until)

    def load(self, name, data):
        status, answer = self.ask("POST", f"/v1.41/images/create?fromSrc=-&repo={name}&tag=latest", data,
                                  "application/x-tar")
        assert status == 200, answer

    def runtimes(self):
        """Those it can start containers with."""
        return self.ask("GET", "/v1.41/info")[1]["Runtimes"]

    # ---- our own one

    def start(self, *options):
        prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
        path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        found = {name: shutil.which(name, path=path) for name in RUNTIMES}
        (self.folder / "daemon.json").write_text(
            json.dumps({"runtimes": {name: {"path": place, "runtimeArgs": RUNTIMES[name]}
                                     for name, place in found.items() if place}}))
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*prefix, *without_hybrid(), "dockerd", "--config-file", str(self.folder / "daemon.json"),
                 "--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec"),
                 "--pidfile", str(self.folder / "pid"), "-H", self.url, "--group", grp.getgrgid(os.getegid()).gr_name,
                 "--bridge=none", "--iptables=false", "--ip6tables=false", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PATH": path})
        ready = self.wait(lambda: self.process.poll() is not None or self.answers(), START_S)
        assert ready and self.process.poll() is None, \
            "dockerd did not start:\n" + (self.folder / "log").read_text(errors="replace")[-3000:]

    def end(self, with_signal=signal.SIGTERM):
        if os.geteuid() == 0:
            self.process.send_signal(with_signal)
        else:
            subprocess.run(["sudo", "-n", "kill", f"-{int(with_signal)}", (self.folder / "pid").read_text().strip()],
                           check=True)
        self.process.wait(timeout=120)
        if with_signal == signal.SIGKILL:
            self.end_containerd()

    def remove(self):
        """Its folder; an engine that was killed leaves mounts in it."""
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        for place in sorted((each for each in mounts if each.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run([*sudo, "umount", "-l", place], check=False)
        subprocess.run([*sudo, "rm", "-rf", str(self.folder)], check=False)

    def end_containerd(self):
        """dockerd's own child, which it finds again by a file; where nobody reaps, a dead one, too."""
        pid_file = self.folder / "exec" / "containerd" / "containerd.pid"
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        subprocess.run([*sudo, "kill", "-9", pid_file.read_text().strip()], check=False, capture_output=True)
        subprocess.run([*sudo, "rm", "-f", str(pid_file)], check=True)


def tar_of(files):
    """files: name -> bytes, or a str for a link."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def image_of_busybox():
    busybox = pathlib.Path("/bin/busybox")
    applets = subprocess.run([busybox, "--list"], capture_output=True, check=True, text=True).stdout.split()
    return tar_of({"bin/busybox": busybox.read_bytes(),
                   **{f"bin/{name}": "busybox" for name in applets if name != "busybox"}})


def load_images(engine):
    """An image of busybox alone, and one without any file."""
    engine.load(IMAGE, image_of_busybox())
    engine.load(EMPTY, tar_of({}))


def answering():
    named = os.environ.get("DOCKER_HOST", "")
    for path in [named.removeprefix("unix://")] if named.startswith("unix://") else ["/var/run/docker.sock"]:
        engine = Engine(path)
        if engine.answers():
            return engine
    return None


@contextlib.contextmanager
def own_engine(*options):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="waldo-dockerd-"))
    os.chmod(folder, 0o755)
    own = Engine(folder / "docker.sock")
    own.folder = folder
    try:
        own.start(*options)
        load_images(own)
        yield own
    finally:
        if own.process and own.process.poll() is None:
            own.end()
        own.remove()


@pytest.fixture(scope="session")
def engine():
    found = answering()
    if found:
        with open(__file__) as guard:  # of one suite at a time: tests look at all its containers
            fcntl.flock(guard, fcntl.LOCK_EX)
            load_images(found)
            yield found
        return
    with own_engine() as own:
        yield own

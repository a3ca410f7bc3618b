"""Packages from PyPI, pinned with hashes, in a virtual environment of their own."""
import subprocess

import once


def install(requirements):
    """The interpreter of an environment that holds them."""
    def fill(folder):
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--clear", str(folder / "venv")], check=True, timeout=120)
        subprocess.run([folder / "venv/bin/pip", "install", "--quiet", "--disable-pip-version-check",
                        "--require-hashes", "--only-binary", ":all:", "-r", str(requirements)], check=True, timeout=300)
    return once.folder("pypi", requirements.read_bytes(), fill) / "venv" / "bin" / "python"

"""A vendor's own client from npm, pinned by a lock file, and a script that drives it."""
import shutil
import subprocess

import once


def install(source):
    """The folder with what the lock file in source pins."""
    def fill(folder):
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, check=True,
                       timeout=300)
    return once.folder("npm", (source / "package-lock.json").read_bytes(), fill)


def drive(source, *args):
    return subprocess.run(["node", str(source / "drive.mjs"), *args], capture_output=True, text=True, timeout=60)

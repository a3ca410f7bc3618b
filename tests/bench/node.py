"""Whether the peers in Node run here."""

import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def peers_can_run():
    """Their packages ask for Node 20; Debian 12 has 18, with which some are left out."""
    if not shutil.which("node") or not (HERE / "node_modules").is_dir():
        return False
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.lstrip("v").split(".")[0]) >= 20

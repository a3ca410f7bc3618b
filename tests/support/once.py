"""What tests install from the outside, kept from run to run."""
import fcntl
import hashlib
import os
import pathlib


def folder(kind, pinned, fill):
    """The folder with what the bytes `pinned` name, filled by fill(folder) once for each content of them."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    made = cache / "waldo" / kind / hashlib.sha256(pinned).hexdigest()[:16]
    made.mkdir(parents=True, exist_ok=True)
    with open(made / ".lock", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not (made / ".complete").exists():
            fill(made)
            (made / ".complete").touch()
    return made

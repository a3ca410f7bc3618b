"""`waldo cp` with a machine that is kept: what was put in is there for the next command, and comes out again."""
import os
import secrets
import subprocess

import pytest

from dockerd import IMAGE
from program import PROGRAM


@pytest.fixture
def lab(engine):
    name = f"cp-{secrets.token_hex(4)}"
    env = {**os.environ, "DOCKER_HOST": engine.url}

    def waldo(*words, code=0, **more):
        done = subprocess.run([PROGRAM, *words], env=env, capture_output=True, timeout=180, check=False, **more)
        assert done.returncode == code, done.stderr
        return done.stdout

    waldo.name = name
    waldo("exec", "-s", f"docker:{IMAGE},name={name},lease=600", "--", "true")
    yield waldo
    for each in engine.containers():
        if each["Labels"].get("dev.waldo.name") == name:
            engine.ask("DELETE", f"/v1.41/containers/{each['Id']}?force=1&v=1")


def test_there_and_back(lab, tmp_path):
    tree = tmp_path / "tree"
    (tree / "empty").mkdir(parents=True)
    (tree / "tool").write_text("#!/bin/sh\necho ran\n")
    (tree / "tool").chmod(0o755)
    (tree / "big").write_bytes(os.urandom(9_000_000))
    (tree / "link").symlink_to("tool")
    os.utime(tree / "tool", (1600000000, 1600000000))
    os.utime(tree / "empty", (1500000000, 1500000000))
    lab("cp", str(tree), f"@{lab.name}:tree")
    assert lab("exec", "-s", f"@{lab.name}", "--", "sh", "-c",
               "tree/link; stat -c '%a %Y' tree/tool tree/empty") == b"ran\n755 1600000000\n755 1500000000\n"
    lab("cp", f"@{lab.name}:tree", str(tmp_path / "back"))
    back = tmp_path / "back"
    assert sorted(os.listdir(back)) == ["big", "empty", "link", "tool"] and os.readlink(back / "link") == "tool"
    assert (back / "big").read_bytes() == (tree / "big").read_bytes()
    assert int((back / "tool").stat().st_mtime) == 1600000000 and (back / "tool").stat().st_mode & 0o777 == 0o755
    assert int((back / "empty").stat().st_mtime) == 1500000000


def test_into_folders_and_streams(lab, tmp_path):
    (tmp_path / "f").write_text("one")
    lab("cp", "-", f"@{lab.name}:a/b", input=b"from stdin")
    assert lab("cp", f"@{lab.name}:a/b", "-") == b"from stdin"
    lab("cp", str(tmp_path / "f"), f"@{lab.name}:a")
    assert lab("cp", f"@{lab.name}:a/f", "-") == b"one"
    lab("cp", str(tmp_path / "f"), f"@{lab.name}:new/")
    assert lab("cp", f"@{lab.name}:new/f", "-") == b"one"
    lab("cp", str(tmp_path / "f"), f"@{lab.name}:/tmp/g")
    assert lab("cp", f"@{lab.name}:/tmp/g", "-") == b"one"


def test_a_machine_that_is_not_there(lab, tmp_path):
    lab("cp", "@no-such-machine:x", str(tmp_path / "x"), code=5)


def test_a_kept_machine_outlives_gc(lab, engine):
    """Its owner is gone and its lease runs."""
    assert lab.name.encode() in lab("ps")
    lab("gc")
    assert lab("exec", "-s", f"@{lab.name}", "--", "echo", "still there") == b"still there\n"

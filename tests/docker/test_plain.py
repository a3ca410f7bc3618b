"""Containers in which the hand cannot run, on a real engine."""
import hashlib
import json
import pathlib
import subprocess
import time
import urllib.parse

import pytest

import test_docker
from dockerd import EMPTY, tar_of
from test_docker import box  # noqa: F401  (a fixture)

NEVER = ",hand=never"
CAT = "waldo-test-cat"


@pytest.fixture(scope="module")
def cat(engine):
    """An image of two programs, none of them a shell."""
    program = pathlib.Path("/bin/busybox").read_bytes()
    engine.load(CAT, tar_of({"bin/cat": program, "bin/sleep": program, "bin/echo": program}))
    return CAT


def waldo(box, image, *argv, timeout="100"):  # noqa: F811
    return subprocess.run([test_docker.BUILD / "examples" / "cli" / "waldo", "exec", "-s", f"docker:{image}{NEVER}",
                           "--timeout", timeout, "--", *argv], capture_output=True, timeout=180, check=False,
                          env=box.env)


def test_what_a_container_is(box):  # noqa: F811
    process, container = box.start("sleep 100", options=NEVER + ",tmp=8m")
    _, info = box.engine.ask("GET", f"/v1.41/containers/{container['Id']}/json")
    process.kill()
    process.communicate()
    host = info["HostConfig"]
    assert host["Init"] and host["AutoRemove"] and host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"]
    assert info["Config"]["StdinOnce"] and info["Config"]["User"] == "1000:1000"
    assert box.engine.wait(lambda: not box.engine.containers())  # its input ended with the process


def test_workspace_goes_in_and_comes_back(box, tmp_path):  # noqa: F811
    (tmp_path / "sub").mkdir()
    (tmp_path / "tool").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "sub" / "up").symlink_to("../tool")
    (tmp_path / ("n" * 200)).write_text("long\n")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 100)
    done = box.run("./sub/up; stat -c %U:%a tool; md5sum binary; cat n*; echo new > b; rm binary; chmod 644 tool",
                   workspace=tmp_path, more=["changes"], options=NEVER)
    assert done.returncode == 0, done.stderr
    out, _, patch = done.stdout.partition(b"=====\n")
    assert out.startswith(b"ran\n") and out.split()[2] == hashlib.md5(bytes(range(256)) * 100).hexdigest().encode()
    assert out.endswith(b"long\n")
    assert b"+new\n" in patch and b"deleted file mode 100644" in patch and b"new mode 100644" in patch
    assert b"sub/up" not in patch and b"nnn" not in patch


def test_many_files_are_few_requests(box, tmp_path):  # noqa: F811
    for i in range(500):
        (tmp_path / f"f{i}").write_text(str(i))
    began = time.time()
    assert box.out("cat f* | wc -c", workspace=tmp_path, options=NEVER) == "1390\n"
    filters = urllib.parse.quote(json.dumps({"event": ["exec_create"]}))
    _, events = box.engine.ask("GET", f"/v1.41/events?since={began:.6f}&until={time.time():.6f}&filters={filters}")
    assert 1 <= str(events).count("exec_create: ") < 50, events


def test_timeouts_end_the_group(box):  # noqa: F811
    done = box.run("echo before; sleep 7301 & sleep 7301", options=NEVER + ",timeout=8")
    assert done.returncode == 124 and done.stdout == b"before\n", done


def test_without_a_shell(box, cat):  # noqa: F811
    assert waldo(box, cat, "echo", "hello").stdout == b"hello\n"
    done = waldo(box, cat, "/no/such")
    assert done.returncode in (125, 127) and b"no such file" in done.stderr
    done = waldo(box, cat, "sleep", "1000", timeout="8")
    assert done.returncode == 124, done


def test_what_an_image_needs(box):  # noqa: F811
    done = box.run("true", image=EMPTY, options=NEVER)
    assert done.returncode == 125 and b"/bin/sh or cat" in done.stderr, done.stderr

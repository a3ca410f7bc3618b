"""Runtimes beside runc, where they are installed and the engine may use them."""
import subprocess

import pytest

import test_contract
import test_docker
from dockerd import IMAGE
from test_docker import box  # noqa: F401  (a fixture)

CLI = test_docker.BUILD / "examples" / "cli" / "waldo"


def runtime(engine, name):
    if name not in engine.runtimes():
        pytest.skip(f"the engine has no runtime {name}")
    return f",runtime={name}"


# The other groups run with crun in Podman's column, where it is installed.
@pytest.mark.parametrize("group", ["life", "terminal", "background"])
def test_crun(engine, group):
    options = runtime(engine, "crun")
    test_contract.contract("crun", "docker", group, IMAGE + options, {"DOCKER_HOST": engine.url})
    assert engine.wait(lambda: not engine.containers()), engine.containers()


@pytest.fixture
def gvisor(box):  # noqa: F811
    return runtime(box.engine, "runsc")


def test_gvisor_isolates(box, gvisor):  # noqa: F811
    options = gvisor + ",min_isolation=gvisor"
    assert box.out("uname -r; id -u; exit 0", options=options).split() == ["4.4.0", "1000"]
    assert box.run("echo out; echo err >&2; exit 7", options=options).returncode == 7


def test_gvisor_bounds_time(box, gvisor):  # noqa: F811
    done = box.run("echo before; sleep 7411", options=gvisor + ",timeout=10")
    assert done.returncode == 124 and done.stdout == b"before\n", done


@pytest.mark.parametrize("hand", ["", ",hand=never"])
def test_gvisor_takes_a_workspace(box, gvisor, tmp_path, hand):  # noqa: F811
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "text").write_text("inside\n")
    (tmp_path / "old").write_bytes(bytes(range(256)) * 1000)
    done = box.run("cat sub/text; wc -c < old; rm old; echo new > sub/new", workspace=tmp_path, more=["changes"],
                   options=gvisor + hand)
    assert done.returncode == 0, done.stderr
    out, _, patch = done.stdout.partition(b"=====\n")
    assert out == b"inside\n256000\n"
    assert b"+new\n" in patch and b"deleted file mode 100644" in patch


def test_gvisor_may_have_no_terminals(box, gvisor):  # noqa: F811
    """That of 2022 has none; it is told as just that."""
    done = subprocess.run([CLI, "exec", "-s", f"docker:{IMAGE}{gvisor}", "--tty", "--", "tty"], capture_output=True,
                          timeout=180, check=False, env=box.env)
    assert done.returncode == 0 or (done.returncode == 127 and b"given a terminal" in done.stderr), done

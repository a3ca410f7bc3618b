"""The contract suite on engines, and one table of all backends."""
import os
import pathlib
import re
import subprocess

import pytest

from dockerd import IMAGE
from standin import Standin

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
CONTRACT = BUILD / "tests" / "contract"
PROGRAM = CONTRACT / "test-contract"
GROUPS = re.search(r"BACKEND (\S+) ", subprocess.run([PROGRAM], capture_output=True, check=False, text=True).stderr)[1]
FOUND = {}  # (group, case) -> column -> word


def cases(column, group, *command, env=None):
    """Runs a program of cases, and notes what it says of each."""
    done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, timeout=600, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace")
    for word, case in re.findall(r"^\[\s+(OK|SKIPPED|FAILED)\s+\] ([a-z]\w+)\r?$", said, re.M):
        word = {"OK": "pass", "SKIPPED": "not offered", "FAILED": "FAILED"}[word]
        FOUND.setdefault((group, case), {}).setdefault(column, word)
    assert done.returncode == 0, said
    assert int(re.search(r"\[  PASSED  \] (\d+) test", said)[1]) > 0


def contract(column, backend, group, target="", env=None):
    cases(column, group, PROGRAM, backend, group, target, env=env)


@pytest.mark.parametrize("group", GROUPS.split("|"))
@pytest.mark.parametrize("column,options", [("docker", ""), ("docker, no hand", ",hand=never")])
def test_docker(engine, column, options, group):
    contract(column, "docker", group, IMAGE + options, {"DOCKER_HOST": engine.url})
    assert engine.wait(lambda: not engine.containers()), engine.containers()


@pytest.mark.parametrize("group", GROUPS.split("|"))
def test_podman(podman, group):
    contract("podman", "docker", group, f"localhost/{IMAGE}", {"DOCKER_HOST": podman.url})
    assert podman.wait(lambda: not podman.containers()), podman.containers()


@pytest.mark.parametrize("group", GROUPS.split("|"))
@pytest.mark.parametrize("backend", ["fake", "local"])
def test_others(backend, group):
    contract(backend, backend, group)


@pytest.fixture(scope="module")
def cloud():
    with Standin("e2b") as standin:
        yield standin


@pytest.mark.skipif(os.geteuid() != 0, reason="the stand-in's machines have one user then, and the hand needs root too")
@pytest.mark.parametrize("group", GROUPS.split("|"))
def test_e2b(cloud, group):
    at = f"http://127.0.0.1:{cloud.port}"
    contract("e2b", "e2b", group, "base", {"E2B_API_KEY": "e2b_contract", "E2B_API_URL": at, "E2B_SANDBOX_URL": at})
    cloud.reset()


def test_apply_patch(engine):
    """The worked cases, as on fake and local."""
    golden = pathlib.Path(__file__).parents[1] / "tools" / "golden"
    cases("docker", "patch", BUILD / "tests" / "tools" / "test-tools-patch", f"docker:{IMAGE}", golden,
          env={"DOCKER_HOST": engine.url})
    assert engine.wait(lambda: not engine.containers()), engine.containers()


def test_faults(engine):
    """Those of tests/contract/peer_faults.txt."""
    cases("docker", "faults", CONTRACT / "test-faults", f"docker:{IMAGE}", "/", env={"DOCKER_HOST": engine.url})
    assert engine.wait(lambda: not engine.containers()), engine.containers()


def test_local_faults():
    cases("local", "faults", CONTRACT / "test-faults", "local:", CONTRACT)


def test_table(capsys):
    """Last: what passes where."""
    columns = ["fake", "local", "docker", "docker, no hand", "podman", "e2b"]
    width = max((len(f"{group}: {case}") for group, case in FOUND), default=0)
    lines = [" " * width + "  " + "  ".join(f"{column:15}" for column in columns)]
    for (group, case), words in FOUND.items():
        lines.append(f"{group + ': ' + case:{width}}  "
                     + "  ".join(f"{words.get(column, '-'):15}" for column in columns))
    with capsys.disabled():
        print("\n" + "\n".join(line.rstrip() for line in lines))
    assert not any("FAILED" in words.values() for words in FOUND.values())

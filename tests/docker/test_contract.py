"""The docker column of the contract suite."""
import os
import pathlib
import re
import subprocess

import pytest

from dockerd import IMAGE

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))


@pytest.mark.parametrize("group", ["exec", "files", "life", "terminal", "background", "spares", "snapshot"])
def test_contract(engine, group):
    done = subprocess.run([BUILD / "tests" / "contract" / "test-contract", "docker", group, IMAGE],
                          env={**os.environ, "DOCKER_HOST": engine.url}, capture_output=True, timeout=300, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, said
    assert int(re.search(r"\[  PASSED  \] (\d+) test", said)[1]) > 0
    assert engine.wait(lambda: not engine.containers()), engine.containers()


def test_faults(engine):
    """Those of tests/contract/peer_faults.txt."""
    done = subprocess.run([BUILD / "tests" / "contract" / "test-faults", f"docker:{IMAGE}", "/"],
                          env={**os.environ, "DOCKER_HOST": engine.url}, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
    assert engine.wait(lambda: not engine.containers()), engine.containers()

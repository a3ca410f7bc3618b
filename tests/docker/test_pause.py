"""Containers that are paused: what the engine says of them, and how they end."""
import os
import subprocess

import pytest

from program import PROGRAM
from test_durable import durable  # noqa: F401 (a fixture)


def state(durable):
    return durable.inspect()["State"]["Status"]


@pytest.mark.parametrize("options", ["", ",lease=600", ",hand=never"])
def test_paused_and_used(durable, options):
    a = durable.host(options)
    assert a.run("echo kept > file") == ""
    a.good("pause")
    assert state(durable) == "paused"
    assert a.run("cat file") == "kept\n"
    assert state(durable) == "running"
    a.good("pause")
    a.good("resume")
    assert state(durable) == "running"
    a.good("pause")
    a.good("close")
    a.finish()
    assert durable.engine.wait(lambda: not durable.engine.containers())


def test_others_pause_it_too(durable):
    a = durable.host("")
    a.good("open")
    container = durable.one()["Id"]
    assert durable.engine.ask("POST", f"/v1.41/containers/{container}/pause")[0] == 204
    a.good("pause")
    assert durable.engine.ask("POST", f"/v1.41/containers/{container}/unpause")[0] == 204
    assert a.run("echo here") == "here\n"
    a.finish()


def test_named_one_stays_paused(durable):
    a = durable.host(",name=lab")
    a.good("open")
    number = a.start("echo 1; read x; echo 2; exit 3")
    a.good("pause")
    a.good("close")
    a.finish()
    assert state(durable) == "paused"
    b = durable.host(sandbox="@lab")
    b.good("open")
    assert b.good("list") == f"{number}+"
    b.good(f"write {number} go")
    assert b.read(number, 0, 20000)[0::2] == (b"1\n2\n", (1, 3))
    b.good("close")
    b.finish()


@pytest.mark.parametrize("options", ["", ",lease=600"])
def test_removed_while_paused(durable, options):
    a = durable.host(options)
    a.good("open")
    a.good("pause")
    durable.remove_all()
    assert durable.engine.wait(lambda: not durable.engine.containers())
    assert a.ask("exec true").startswith("WALDO_ELOST")
    a.finish()


def test_killed_host(durable):
    """Nothing of the container can run, so that it would end: `waldo gc` does."""
    a = durable.host("")
    a.good("open")
    a.good("pause")
    a.kill()
    env = {**os.environ, "DOCKER_HOST": durable.engine.url}
    said = subprocess.run([PROGRAM, "gc"], env=env, capture_output=True, text=True, check=True).stdout
    assert "(paused, owner gone)" in said, said
    assert durable.engine.wait(lambda: not durable.engine.containers())

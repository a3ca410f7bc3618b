"""`waldo ps` and `waldo gc` on a real engine: what is listed, what is ended, what is left alone."""
import itertools
import json
import os
import pathlib
import re
import subprocess
import time

import pytest

from dockerd import IMAGE
from program import PROGRAM

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
EXEC = BUILD / "tests" / "contract" / "exec-tool"
TOOL = BUILD / "tests" / "docker" / "docker-tool"


class Fleet:
    def __init__(self, engine):
        self.engine = engine
        self.env = {**os.environ, "DOCKER_HOST": engine.url}
        self.made = []

    def waldo(self, *words):
        done = subprocess.run([PROGRAM, *words], env=self.env, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def listed(self, *words):
        return {each["id"]: each for each in map(json.loads, self.waldo("ps", "--json", *words).splitlines())}

    def labels(self):
        """Those that the backend gives a container of a process that is dead now."""
        process = subprocess.Popen([EXEC, f"docker:{IMAGE}", "-", "copy", "echo up; sleep 100"], env=self.env,
                                   stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"up\n"
        found, = (each for each in self.engine.containers() if each["Labels"]["dev.waldo.pid"] == str(process.pid))
        process.kill()
        process.communicate()
        assert self.engine.wait(lambda: found["Id"] not in self.ids())
        return found["Labels"]

    def ids(self):
        return {each["Id"] for each in self.engine.containers()}

    def create(self, labels, cmd=("sleep", "1000"), start=False):
        status, made = self.engine.ask("POST", "/v1.41/containers/create",
                                       json.dumps({"Image": IMAGE, "Cmd": list(cmd), "Labels": labels}))
        assert status == 201, made
        self.made.append(made["Id"])
        if start:
            assert self.engine.ask("POST", f"/v1.41/containers/{made['Id']}/start")[0] == 204
        return made["Id"]


@pytest.fixture
def fleet(engine):
    made = Fleet(engine)
    before = made.ids()
    yield made
    for each in made.made:
        engine.ask("DELETE", f"/v1.41/containers/{each}?force=1&v=1")
    assert engine.wait(lambda: made.ids() <= before), engine.containers()


def test_a_live_owners_is_listed_and_not_touched(fleet):
    process = subprocess.Popen([EXEC, f"docker:{IMAGE}", "-", "copy", "echo up; sleep 100"], env=fleet.env,
                               stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    found, = fleet.listed().values()
    assert (found["state"], found["owner_alive"], found["mine"], found["image"]) == ("running", True, True, IMAGE)
    assert found["owner"].startswith(f"{process.pid}-") and found["lease_ms"] == 0
    assert abs(found["created_ms"] / 1000 - time.time()) < 300
    row = fleet.waldo("ps").splitlines()[1]
    assert re.match(rf"- +{found['id'][:12]}  docker +running +\d+[sm] +alive +{IMAGE}$", row), row
    assert fleet.waldo("gc") == "nothing is left over\n"
    assert process.poll() is None and found["id"] in fleet.listed()
    process.kill()
    process.communicate()


def test_killed_between_create_and_start(fleet):
    """Killed at many moments of the opening: what is left of it afterwards is ended, and nothing else."""
    def ended():
        fleet.waldo("gc")  # the engine may still be at the last that the process asked for: then once more
        return not fleet.engine.containers()
    seen = set()
    late = time.monotonic() + 300
    # Then, if need be, at once until it was in time.
    for delay in itertools.chain((0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25), itertools.repeat(0)):
        if delay == 0 and ("created" in seen or time.monotonic() > late):
            break
        process = subprocess.Popen([EXEC, f"docker:{IMAGE}", "-", "copy", "sleep 100"], env=fleet.env)
        fleet.engine.wait(lambda: fleet.engine.containers() or process.poll() is not None)
        time.sleep(delay / 4)
        process.kill()
        process.wait()
        left = fleet.engine.containers()
        seen.update(each["State"] for each in left)
        assert fleet.engine.wait(ended), fleet.engine.containers()
        assert fleet.waldo("gc") == "nothing is left over\n"
    assert "created" in seen, f"never killed in time: {seen}"


def test_what_is_ended_is_told_first_on_demand_only(fleet):
    labels = fleet.labels()
    left = fleet.create(labels)
    assert fleet.listed()[left]["owner_alive"] is False and fleet.listed()[left]["state"] == "created"
    told = f"docker {left} (created, owner gone) {IMAGE}\n"
    assert fleet.waldo("gc", "--dry-run") == f"would end {told}" and left in fleet.listed()
    assert fleet.waldo("gc") == f"ended {told}" and left not in fleet.listed()


def test_running_ones(fleet):
    """Of a dead owner: without a lease it is ended, with one it is left; what ran only once is not."""
    labels = fleet.labels()
    ephemeral = fleet.create(labels, start=True)
    leased = fleet.create({**labels, "dev.waldo.lease": "86400000", "dev.waldo.name": "lab"}, start=True)
    over = fleet.create({**labels, "dev.waldo.lease": "86400000"}, cmd=("true",), start=True)
    assert fleet.engine.wait(lambda: fleet.listed()[over]["state"] == "ended")
    assert fleet.listed()[leased]["name"] == "lab" and fleet.listed()[leased]["lease_ms"] == 86400000
    fleet.waldo("gc")
    assert set(fleet.listed()) == {leased} and ephemeral != over


def test_named_ones_are_ended_at_once(fleet):
    """Also when their lease runs, or their owner lives."""
    labels = fleet.labels()
    leased = fleet.create({**labels, "dev.waldo.lease": "86400000", "dev.waldo.name": "lab"}, start=True)
    other = fleet.create({**labels, "dev.waldo.lease": "86400000"}, start=True)
    assert fleet.waldo("gc", "--dry-run", "@lab", other[:12]).count("would end") == 2
    assert fleet.waldo("gc", "@lab").startswith(f"ended docker {leased} (running, owner gone)")
    assert set(fleet.listed()) == {other}
    fleet.waldo("gc", other[:12])
    assert not fleet.listed()


def test_an_image_of_a_named_machine_gives_no_name(fleet):
    """It has the labels of the container that it was made of; what is made from it has its own."""
    fleet.waldo("exec", "-s", f"docker:{IMAGE},name=model,lease=600", "--", "true")
    model, = fleet.listed()
    fleet.made.append(model)
    assert fleet.engine.ask("POST", f"/v1.41/commit?container={model}&repo=waldo-test-committed&tag=latest")[0] == 201
    process = subprocess.Popen([EXEC, "docker:waldo-test-committed", "-", "copy", "echo up; sleep 100"], env=fleet.env,
                               stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"up\n"
        assert fleet.waldo("gc", "@model").startswith(f"ended docker {model}")
        found, = fleet.listed().values()
        assert (found["name"], found["lease_ms"], process.poll()) == ("", 0, None), found
    finally:
        process.kill()
        process.communicate()
        fleet.engine.wait(lambda: not fleet.engine.containers())
        fleet.engine.ask("DELETE", "/v1.41/images/waldo-test-committed?force=1")


def test_others_are_not_touched(fleet):
    labels = fleet.labels()
    space = labels["dev.waldo.host"].split("/")
    another = str(os.getuid() + 1)
    others = [fleet.create({**labels, **change}) for change in (
        {"dev.waldo.user": another},
        {"dev.waldo.user": ""},
        {"dev.waldo.host": f"{space[0]}/1", "dev.waldo.pid": str(os.getpid())},  # in another process namespace
        {"dev.waldo.host": "0123456789abcdef/1", "dev.waldo.start": "another-boot/5"},  # on another machine
        {"dev.waldo.pid": "x"})]
    fleet.create({"some": "label"})
    assert fleet.waldo("gc") == "nothing is left over\n"
    assert set(others) == set(fleet.listed("--all"))
    assert set(fleet.listed()) == {others[2], others[4]}

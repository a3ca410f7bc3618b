"""A rootless engine: Podman of an ordinary user, whom the container's users are other ids of."""
import os
import shutil
import subprocess

import pytest

import test_contract
import test_docker
from dockerd import IMAGE


@pytest.fixture(scope="module")
def ordinary(rootless):
    """Words before a command that is to run as that user."""
    return rootless.as_user("env", *(f"{name}={value}" for name, value in rootless.env.items()))


@pytest.fixture(scope="module")
def program(rootless):
    """The command with its library where that user may read them."""
    for source in [test_docker.BUILD / "examples" / "cli" / "waldo", *test_docker.BUILD.glob("libwaldo.so.?")]:
        shutil.copy(source, rootless.folder / source.name)
    rootless.env["LD_LIBRARY_PATH"] = str(rootless.folder)
    return str(rootless.folder / "waldo")


def run(rootless, ordinary, program, options, command, *more):
    done = subprocess.run([*ordinary, f"LD_LIBRARY_PATH={rootless.folder}", program, "exec", *more, "-s",
                           f"docker:{IMAGE}{options}", "--", "sh", "-c", command],
                          capture_output=True, timeout=180, check=False, cwd="/", env={"PATH": os.environ["PATH"]})
    assert rootless.wait(lambda: not rootless.containers()), rootless.containers()
    return done


@pytest.mark.parametrize("group", ["exec", "files", "background", "terminal"])
def test_contract_without_root(rootless, group):
    test_contract.contract("rootless", "docker", group, IMAGE, {"DOCKER_HOST": rootless.url})
    assert rootless.wait(lambda: not rootless.containers()), rootless.containers()


def test_found_by_its_place(rootless, ordinary, program):
    """As its own user, without DOCKER_HOST: $XDG_RUNTIME_DIR/podman/podman.sock."""
    place = rootless.folder / "run" / "podman"
    place.mkdir(exist_ok=True)
    os.chown(place, rootless.USER, rootless.USER)
    os.link(rootless.path, place / "podman.sock")
    done = run(rootless, ordinary, program, "", "id -u; stat -c %u .; head -n 1 /proc/self/uid_map; echo x > f")
    (place / "podman.sock").unlink()
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [b"1000", b"1000", b"0", b"65534", b"1"], done
    assert b"removing the container" not in done.stderr, done


def test_limits_hold_or_it_does_not_open(rootless, ordinary, program):
    """Where it has no control groups it drops them in silence; nobody is to believe in them."""
    host = f",host={rootless.url}"
    done = run(rootless, ordinary, program, f",memory=32m{host}", "tail -c 200m /dev/zero > /dev/null; echo $?")
    if done.returncode == 0:
        assert done.stdout == b"137\n", done
    else:
        assert done.returncode == 125 and b"does not keep to memory" in done.stderr, done


def test_limits_of_one_with_root(podman):
    done = subprocess.run([test_docker.EXEC, f"docker:localhost/{IMAGE},memory=32m,pids=20,cpus=0.5", "-", "copy",
                           "tail -c 200m /dev/zero > /dev/null; echo $?"], capture_output=True, timeout=180,
                          check=False, env={**os.environ, "DOCKER_HOST": podman.url})
    assert done.returncode == 0 and done.stdout == b"137\n", done
    assert podman.wait(lambda: not podman.containers()), podman.containers()


def test_without_the_hand(rootless, ordinary, program):
    done = run(rootless, ordinary, program, f",hand=never,host={rootless.url}", "id -u; echo x > f; cat f; exit 3")
    assert done.returncode == 3 and done.stdout == b"1000\nx\n", done
    assert b"removing the container" not in done.stderr, done

"""A real engine behind TCP: it is spoken to as one elsewhere, which sees none of this host's files."""
import socket
import subprocess

import pytest

import dockerd
import test_contract
import test_docker
from dockerd import IMAGE

CLI = test_docker.BUILD / "examples" / "cli" / "waldo"


@pytest.fixture(scope="module")
def remote():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with dockerd.own_engine("-H", f"tcp://127.0.0.1:{port}") as engine:
        engine.url = f"tcp://127.0.0.1:{port}"
        yield engine


@pytest.mark.parametrize("group", ["exec", "files", "background", "life"])
def test_contract_over_tcp(remote, group):
    test_contract.contract("tcp", "docker", group, IMAGE, {"DOCKER_HOST": remote.url})
    assert remote.wait(lambda: not remote.containers()), remote.containers()


def test_how_it_is_reached(remote, tmp_path):
    """By host= as well; nothing of this host is shown to it, and a killed host leaves nothing."""
    box = test_docker.Box(remote)
    box.env.pop("DOCKER_HOST")
    host = f",host={remote.url}"
    (tmp_path / "file").write_bytes(bytes(range(256)) * 5000)
    done = box.run("wc -c < file; echo new > file; grep -c waldo-hand /proc/mounts", workspace=tmp_path,
                   more=["changes"], options=host)
    assert done.stdout.startswith(b"1280000\n0\n") and b"GIT binary patch" in done.stdout, done
    process, container = box.start("sleep 1000", options=host)
    info = remote.ask("GET", f"/v1.41/containers/{container['Id']}/json")[1]
    process.kill()
    process.communicate()
    assert {mount["Type"] for mount in info["Mounts"]} == {"volume"}, info
    assert remote.wait(lambda: not remote.containers()), remote.containers()
    assert remote.wait(lambda: not remote.volumes()), remote.volumes()


def test_one_that_is_kept(remote):
    """A session of a durable machine is an exec whose stream passes TCP, too."""
    def said(spec, command):
        done = subprocess.run([CLI, "exec", "-s", spec, "--", "sh", "-c", command], capture_output=True, timeout=180,
                              check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
    spec = f"docker:{IMAGE},name=far,host={remote.url}"
    said(spec, "echo here > /workspace/file")
    assert said(spec, "cat /workspace/file") == b"here\n"
    assert subprocess.run([CLI, "gc", "@far"], capture_output=True, timeout=180, check=False,
                          env={**test_docker.os.environ, "DOCKER_HOST": remote.url}).returncode == 0
    assert remote.wait(lambda: not remote.containers()), remote.containers()

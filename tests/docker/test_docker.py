"""The docker backend on a real engine, from outside: what is allowed, what ends, what is left."""
import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from dockerd import EMPTY, IMAGE

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "contract"))
import test_local  # noqa: E402
import test_patch  # noqa: E402

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
EXEC = BUILD / "tests" / "contract" / "exec-tool"
TOOL = BUILD / "tests" / "docker" / "docker-tool"
QUIET_S = 10  # behind the last thing that a process said nothing comes of it any more


class Box:
    """exec-tool on one engine."""

    def __init__(self, engine):
        self.engine = engine
        self.env = {**os.environ, "DOCKER_HOST": engine.url}

    def argv(self, cmd, options="", workspace="-", more=(), image=IMAGE):
        return [EXEC, f"docker:{image}{options}", str(workspace), "copy", cmd, *more]

    def run(self, *args, **kwargs):
        return subprocess.run(self.argv(*args, **kwargs), capture_output=True, timeout=180, check=False, env=self.env)

    def out(self, *args, **kwargs):
        done = self.run(*args, **kwargs)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout.decode()

    def start(self, cmd, **kwargs):
        """Started, and its first line read; the container."""
        process = subprocess.Popen(self.argv(f"echo up; {cmd}", **kwargs), env=self.env, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        assert process.stdout.readline() == b"up\n", process.stderr.read()
        containers = [each for each in self.engine.containers()
                      if each["Labels"]["dev.waldo.pid"] == str(process.pid)]
        assert len(containers) == 1, self.engine.containers()
        return process, containers[0]

    def tool(self, *args):
        return subprocess.run([TOOL, *args], capture_output=True, timeout=180, check=False, env=self.env, text=True)


@pytest.fixture
def box(engine):
    """Nothing of it is left afterwards, neither container nor volume; what another test left is that one's fault."""
    def ids():
        return {each["Id"] for each in engine.containers()}
    before, volumes = ids(), engine.volumes()
    yield Box(engine)
    assert engine.wait(lambda: ids() <= before), engine.containers()
    assert engine.wait(lambda: engine.volumes() <= volumes), engine.volumes() - volumes


def test_identity(box):
    text = box.out("id -u; id -g; hostname; pwd; stat -c '%u %g %a' . /run/waldo; cat /proc/self/status")
    assert text.split()[:10] == ["1000", "1000", "sandbox", "/workspace", "1000", "1000", "755", "0", "0", "755"]
    for line in (r"CapEff:\s+0+", r"CapBnd:\s+0+", r"NoNewPrivs:\s+1", r"Seccomp:\s+2"):
        assert re.search(f"^{line}$", text, re.M), line
    assert box.out("id -u; id -g; stat -c '%u %g' .", options=",user=4321:99").split() == ["4321", "99"] * 2


def test_what_can_be_written(box):
    text = box.out("for d in / /etc /run /run/waldo /dev /bin; do touch $d/x 2>/dev/null && echo $d; done; "
                   "touch x /tmp/x && echo good; echo '#!/bin/sh' > s; chmod +x s; ./s && echo runs")
    assert text == "good\nruns\n"
    text = box.out("for f in /run/waldo/waldo-hand /etc/hosts; do (: > $f) 2>/dev/null && echo $f; "
                   "(chmod 777 $f || rm -f $f) 2>/dev/null && echo $f; done; cat /etc/hosts; "
                   "grep -c waldo-hand /proc/mounts",
                   options=f",user={os.geteuid()}")
    assert text.split() == ["127.0.0.1", "localhost", "sandbox", "::1", "localhost", "1"]


def test_environment_is_clean(box):
    box.env["OPENAI_API_KEY"] = "sk-secret"
    text = box.out("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true")
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert names <= {"PATH", "HOME", "LANG", "TERM", "HOSTNAME", "PWD", "SHLVL", "OLDPWD", "_", ""}


def test_no_network_but_localhost(box):
    text = box.out("ls /sys/class/net; wget -q -O- http://localhost:1 2>&1; wget -q -O- http://192.0.2.1 2>&1; true")
    assert text.split("\n")[0] == "lo"
    assert "127.0.0.1" in text or "refused" in text
    assert "unreachable" in text
    assert "bad address" not in text


def test_limits_are_set(box):
    process, container = box.start("sleep 100", options=",memory=64m,cpus=0.5,pids=40,tmp=8m")
    _, info = box.engine.ask("GET", f"/v1.41/containers/{container['Id']}/json")
    process.kill()
    process.communicate()
    host = info["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (64 << 20, 64 << 20)
    assert (host["NanoCpus"], host["PidsLimit"]) == (5 * 10**8, 40)
    assert host["AutoRemove"] and host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and not host["Privileged"]
    assert host["LogConfig"]["Type"] == "none" and host["NetworkMode"] == "none" and not host["Binds"]
    labels = info["Config"]["Labels"]
    assert labels["dev.waldo.pid"] == str(process.pid) and "/" in labels["dev.waldo.start"]
    assert labels["dev.waldo.owner"].startswith(f"{process.pid}-") and labels["dev.waldo.run"]


def test_limits_hold(box):
    done = box.run("i=0; while [ $i -lt 40 ]; do sleep 100 & i=$((i+1)); done; wait", options=",pids=20")
    assert b"fork" in done.stdout + done.stderr
    done = box.run("tail -c 200m /dev/zero; echo $?; echo alive", options=",memory=32m")
    assert done.stdout.endswith(b"137\nalive\n")


def test_an_image_without_a_file(box):
    """The hand needs nothing of the image; here it is also the only program there is."""
    done = subprocess.run([BUILD / "examples" / "cli" / "waldo", "exec", "-s", f"docker:{EMPTY}", "--",
                           "/run/waldo/waldo-hand", "keeper"], capture_output=True, timeout=180, check=False,
                          env=box.env)
    assert done.returncode not in (0, 125, 126, 127) and b"usage: waldo-hand" in done.stderr, done
    done = box.run("true", image=EMPTY)
    assert done.returncode == 125 and b"/bin/sh" in done.stderr and b"no such file" in done.stderr


def test_workspace(box, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "tool").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "sub" / "up").symlink_to("../tool")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 100)
    done = box.run("./sub/up; stat -c %U:%a tool; md5sum binary; echo new > b; rm binary; chmod 644 tool",
                   workspace=tmp_path, more=["changes"])
    assert done.returncode == 0, done.stderr
    out, _, patch = done.stdout.partition(b"=====\n")
    assert out.startswith(b"ran\n") and out.split()[2] == hashlib.md5(bytes(range(256)) * 100).hexdigest().encode()
    assert b"+new\n" in patch and b"deleted file mode 100644" in patch and b"new mode 100644" in patch


def test_a_workspace_follows_no_links_that_lead_out(box, tmp_path):
    """What they lead to on the host is not the workspace's: the sandbox gets the links, and finds nothing there."""
    secret, folder = tmp_path / "secret", tmp_path / "work"
    secret.mkdir()
    folder.mkdir()
    (secret / "key").write_text("of the host\n")
    (folder / "folder").symlink_to(secret)
    (folder / "file").symlink_to(secret / "key")
    (folder / "up").symlink_to("../secret")
    done = box.run("readlink folder; readlink file; readlink up; cat folder/key file up/key; ls -A", workspace=folder)
    assert done.stdout.decode() == f"{secret}\n{secret}/key\n../secret\nfile\nfolder\nup\n", done


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_changes_of_random_trees(box, tmp_path, seed):
    rng = random.Random(seed + 5000)
    test_patch.populate(tmp_path / "old", rng, 8)
    shutil.copytree(tmp_path / "old", tmp_path / "new", symlinks=True)
    test_patch.mutate(tmp_path / "new", rng)
    for path, (kind, text) in test_patch.snapshot(tmp_path / "new").items():
        if kind != "link" and len(text) > 10000:
            (tmp_path / "new" / path).write_bytes(text[:10000])
    done = box.run(f"rm -rf ./* ./.[!.]*; echo {test_local.pack(tmp_path / 'new')} | base64 -d | tar xz",
                   workspace=tmp_path / "old", more=["changes"])
    assert done.returncode == 0, done.stderr
    patch = done.stdout.partition(b"=====\n")[2]
    assert patch == test_patch.make_patch(str(tmp_path / "old"), str(tmp_path / "new"))


def test_kill_of_the_host(box):
    """No process, container or volume outlives it; within a second where nothing else loads the machine."""
    process, container = box.start("(setsid sleep 100 &); sleep 100")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    started = time.monotonic()
    assert box.engine.wait(lambda: not box.engine.containers())
    print(f"gone after {time.monotonic() - started:.2f} s")
    assert box.engine.ask("GET", f"/v1.41/containers/{container['Id']}/json")[0] == 404


def test_kill_while_it_opens(box):
    """At any moment: what was created but never started is found by its labels, and can be ended."""
    for delay in range(0, 200, 25):
        process = subprocess.Popen(box.argv("sleep 100"), env=box.env, stdout=subprocess.DEVNULL)
        time.sleep(delay / 1000)
        process.kill()
        process.wait()
    # A slow engine may still be at a container whose request is the last thing that its host has said.
    late, quiet = time.monotonic() + 180, time.monotonic() + QUIET_S
    while time.monotonic() < min(late, quiet):
        for left in box.engine.containers():
            quiet = time.monotonic() + QUIET_S
            if left["State"] == "created":
                done = box.tool("destroy", left["Id"])
                # Its start was still going on: it went by itself.
                assert done.returncode == 0 or "no container" in done.stdout, done
        time.sleep(0.02)
    assert time.monotonic() < late


def test_interrupted_while_it_opens(box):
    """An orderly end at any moment leaves nothing."""
    for delay in range(0, 400, 50):
        process = subprocess.Popen([BUILD / "examples" / "cli" / "waldo", "exec", "-s", f"docker:{IMAGE}", "--",
                                    "sleep", "100"], env=box.env, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        time.sleep(delay / 1000)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=180)


def test_container_killed_from_outside(box):
    process, container = box.start("sleep 100")
    assert box.engine.ask("POST", f"/v1.41/containers/{container['Id']}/kill")[0] == 204
    _, stderr = process.communicate(timeout=180)
    assert process.returncode != 0
    assert process.returncode == 124 or b"lost" in stderr


def test_the_hand_cannot_be_killed_or_stopped(box):
    assert box.out("kill -9 1; kill -STOP 1; sleep 0.1; echo alive") == "alive\n"


def test_list_and_destroy(box):
    assert box.tool("probe").stdout == "WALDO_OK \n"
    process, container = box.start("sleep 100")
    listed = box.tool("list").stdout
    assert listed.startswith(f"{container['Id']} {process.pid}-") and IMAGE in listed
    assert " state=2 alive=1 mine=1 lease=0 " in listed
    assert abs(int(re.search(r"created=(\d+)", listed)[1]) / 1000 - time.time()) < 300
    assert box.tool("destroy", "0" * 64).returncode == 1
    assert box.tool("destroy", container["Id"]).returncode == 0
    process.communicate(timeout=180)
    assert box.tool("list").stdout == "WALDO_OK \n"


def test_destroy_ends_no_container_of_others(box):
    status, made = box.engine.ask("POST", "/v1.41/containers/create", f'{{"Image":"{IMAGE}","Cmd":["true"]}}')
    assert status == 201
    done = box.tool("destroy", made["Id"])
    assert done.returncode == 1 and "no container" in done.stdout
    assert box.engine.ask("DELETE", f"/v1.41/containers/{made['Id']}")[0] == 204


@pytest.mark.parametrize("options,words", [
    (",runtime=zzz", ["creating the container", "runtime", "zzz"]),
    (",user=root", ["user must be UID"]),
    (",min_isolation=gvisor", ["above container", "runtime=runsc"]),
    (",min_isolation=vm,runtime=runsc", ["above container", "kata"]),
    (",pull=sometimes", ["pull must be"]),
    (",memory=1m", ["at least 6m"]),
    (",tmp=much", ["tmp must be a size"]),
    (",cpus=4000", ["creating the container", "CPUs"]),
    (",net=hosts", ["net=hosts cannot be had"]),
    (",host=ssh://x", ["neither unix:///PATH nor tcp://"]),
    (",host=tcp://127.0.0.1:2376", ["TLS"]),
    (",host=tcp://engine.example:2375", ["numeric address"]),
    (",host=tcp://127.0.0.1:99999", ["no port"]),
    (",host=unix:///nowhere.sock", ["/nowhere.sock", "no such file"]),
])
def test_what_cannot_be(box, options, words):
    done = box.run("echo ran", options=options)
    assert done.returncode == 125 and b"ran" not in done.stdout
    for word in words:
        assert word in done.stderr.decode(), done.stderr


@pytest.mark.parametrize("image,words", [
    ("no-such-image", ["no image no-such-image", "docker pull no-such-image", "pull=missing"]),
    ("", ["name an image"]),
    ("a b", ["no image's name has"]),
])
def test_images_that_are_not_there(box, image, words):
    done = box.run("echo ran", image=image)
    assert done.returncode == 125
    for word in words:
        assert word in done.stderr.decode(), done.stderr


def test_a_pull_that_fails(box):
    done = box.run("echo ran", image="127.0.0.1:1/none:1", options=",pull=missing")
    assert done.returncode == 125 and b"pulling the image" in done.stderr and b"127.0.0.1:1" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_no_permission(engine):
    """The group is named, and what it means."""
    with tempfile.TemporaryDirectory() as place:  # the build may lie where only root looks
        os.chmod(place, 0o755)
        program = shutil.copy(EXEC, place)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env",
                               f"DOCKER_HOST={engine.url}", program, f"docker:{IMAGE}", "-", "copy", "true"],
                              capture_output=True, timeout=180, check=False)
    assert done.returncode == 125, done
    assert b"usermod -aG docker" in done.stderr and b"as good as root" in done.stderr


def test_an_engine_that_dies(engine):
    """Last: the commands end as lost, by name, and a new engine serves again."""
    if engine.process is None:
        pytest.skip("the engine is not ours")
    box = Box(engine)
    process, _ = box.start("sleep 100")
    engine.end(signal.SIGKILL)
    _, stderr = process.communicate(timeout=180)
    assert process.returncode in (124, 125), stderr
    done = box.run("true")
    assert done.returncode == 125 and b"nobody listens there" in done.stderr
    engine.start()
    assert box.out("echo again") == "again\n"
    # One that it was about to remove when it died it may know as dead; that can be ended like any other.
    assert engine.wait(lambda: all(each["State"] == "dead" for each in engine.containers())), engine.containers()
    for left in engine.containers():
        assert box.tool("destroy", left["Id"]).returncode == 0
    assert engine.wait(lambda: not engine.containers()), engine.containers()

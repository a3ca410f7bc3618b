"""Which sandbox `waldo` takes when none was named, with an engine at hand; and what a run leaves in a directory."""
import os
import subprocess

import pytest

from dockerd import IMAGE, tar_of
from program import call


@pytest.fixture
def no_images(engine):
    """Of those that waldo looks for; who has them at home tests less."""
    names = ("debian:12", "debian:12-slim", "debian:bookworm-slim", "ubuntu:24.04", "ubuntu:22.04", "ubuntu:latest",
             "python:3.12-slim", "alpine:latest", "waldo-quickstart:latest")
    if any(engine.ask("GET", f"/v1.41/images/{name}/json")[0] == 200 for name in names):
        pytest.skip("the engine has images of its own")
    return engine


def choice(waldo, engine, *words, **env):
    """The line that tells it; the model's address is wrong, so nothing is run. A slow engine is asked again."""
    for _ in range(5):
        done = waldo("run", "-m", "walk:", *words, "x", env={"DOCKER_HOST": engine.url, **env})
        assert done.returncode == 2, done.stderr
        line = done.stderr.splitlines()[0]
        if "no Docker engine can be used" not in line:
            break
    return line


def test_an_engine_without_a_fitting_image(waldo, no_images):
    assert choice(waldo, no_images) == (
        "sandbox local: (bubblewrap on this machine, without network; the Docker engine has no image that serves: "
        "docker pull debian:12)")
    assert not no_images.containers()


def test_the_first_image_that_is_there(waldo, no_images):
    said = "sandbox docker:{} (a Docker engine answers and has the image; without network)"
    for name in ("alpine:latest", "ubuntu:22.04"):
        repository, _, tag = name.partition(":")
        no_images.ask("POST", f"/v1.41/images/create?fromSrc=-&repo={repository}&tag={tag}", tar_of({"x": b"x"}),
                      "application/x-tar")
    try:
        assert choice(waldo, no_images) == said.format("ubuntu:22.04")
        no_images.ask("DELETE", "/v1.41/images/ubuntu:22.04")
        assert choice(waldo, no_images) == said.format("alpine:latest")
    finally:
        for name in ("alpine:latest", "ubuntu:22.04"):
            no_images.ask("DELETE", f"/v1.41/images/{name}")
    assert not no_images.containers()


def configure(waldo, text):
    (waldo.home / "config" / "waldo").mkdir(parents=True, exist_ok=True)
    (waldo.home / "config" / "waldo" / "config").write_text(text)


def test_the_image_of_the_configuration(waldo, engine):
    configure(waldo, f"image = {IMAGE}\n")
    assert choice(waldo, engine).startswith(f"sandbox docker:{IMAGE} (a Docker engine answers and has the image")
    done = waldo("exec", "--", "sh", "-c", "echo it runs in $(hostname)", env={"DOCKER_HOST": engine.url})
    assert done.returncode == 0 and done.stdout == "it runs in sandbox\n", done.stderr
    assert engine.wait(lambda: not engine.containers())
    configure(waldo, "image = no-such-image\n")
    assert "local: (" in choice(waldo, engine) and "the image of the configuration file" in choice(waldo, engine)


def test_what_was_said_comes_first(waldo, engine, tmp_path):
    configure(waldo, f"image = {IMAGE}\nsandbox = local:,timeout=9\n")
    assert choice(waldo, engine) == "sandbox local:,timeout=9 (configuration file)"
    assert choice(waldo, engine, WALDO_SANDBOX="local:") == "sandbox local: (WALDO_SANDBOX)"
    configure(waldo, f"image = {IMAGE}\n")
    assert choice(waldo, engine, "-w", tmp_path, "--mode", "rw").startswith(
        "sandbox local: (bubblewrap on this machine, without network; it can work on the directory itself)")


# ---- --patch and --apply, end to end ----

EDIT = ("echo two > a.txt; printf 'x\\0y' > b.bin; rm gone.txt; mkdir -p new/deep; echo '#!/bin/sh' > new/deep/tool; "
        "chmod 755 new/deep/tool; chmod 644 was-tool; ln -s ../a.txt new/link; rm old-link; ln -s b.bin turned; "
        "printf end > 'with space'")


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    (folder / "gone.txt").write_text("gone\n")
    (folder / "b.bin").write_bytes(bytes(range(256)))
    (folder / "was-tool").write_text("#!/bin/sh\n")
    (folder / "was-tool").chmod(0o755)
    (folder / "old-link").symlink_to("a.txt")
    (folder / "kept").write_text("kept\n")
    return folder


def tree(folder):
    """What a patch can say of each path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_file():
            found[name] = ("tool" if path.stat().st_mode & 0o100 else "file", path.read_bytes())
    return found


CHANGED = {"a.txt": ("file", b"two\n"), "b.bin": ("file", b"x\0y"), "kept": ("file", b"kept\n"),
           "new/deep/tool": ("tool", b"#!/bin/sh\n"), "new/link": ("link", "../a.txt"), "turned": ("link", "b.bin"),
           "was-tool": ("file", b"#!/bin/sh\n"), "with space": ("file", b"end")}


@pytest.fixture
def contained(agent, engine):
    agent.args = (*agent.args[:-1], f"docker:{IMAGE}")
    agent.env["DOCKER_HOST"] = engine.url
    yield agent
    assert engine.wait(lambda: not engine.containers())


def test_a_patch_from_a_container(contained, chat, work, tmp_path):
    before = tree(work)
    chat.queue(call(cmd=EDIT), {"text": "done"})
    done = contained("run", "-w", work, "--patch", tmp_path / "p", "--apply", "never", "x")
    assert done.returncode == 0, done.stderr
    assert tree(work) == before and list(contained.temp.iterdir()) == []
    applied = subprocess.run(["git", "-C", work, "apply", tmp_path / "p"], capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr
    assert tree(work) == CHANGED


@pytest.mark.parametrize("answer", ["y", "n"])
def test_applied_on_consent(contained, chat, work, answer):
    before = tree(work)
    chat.queue(call(cmd=EDIT), {"text": "done"})
    with contained.terminal("run", "-w", work, "--approve", "never", "--apply", "ask", "x") as terminal:
        terminal.expect("new/deep/tool")
        terminal.expect("Apply")
        terminal.send(answer + "\n")
        assert terminal.end() == 0
    assert tree(work) == (CHANGED if answer == "y" else before)

"""What examples/quickstart.sh asks, installs, builds and runs, with stand-ins for the programs it calls."""
import os
import pathlib
import shutil
import stat
import subprocess

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
STUBS = {
    "dpkg-query": 'for last; do :; done\n'
                  'if grep -qx "$last" "$HOME/missing"; then exit 1; fi\nprintf "install ok installed"',
    "apt-get": 'echo "apt-get $*" >>"$HOME/calls"',
    "sudo": 'echo "sudo $*" >>"$HOME/calls"; exec "$@"',
    "docker": 'case $1 in\n'
              'version) exit "$(cat "$HOME/engine")" ;;\n'
              'image) grep -qx "$3" "$HOME/images" ;;\n'
              'import) echo "docker $*" >>"$HOME/calls"\n'
              'tar -tv | grep -c busybox >"$HOME/imported"; exit "$(cat "$HOME/import-code")" ;;\n'
              'esac',
    "id": 'cat "$HOME/uid"',
    "meson": 'echo "meson $*" >>"$HOME/calls"; touch "$2/build.ninja"',
    "ninja": 'echo "ninja $*" >>"$HOME/calls"\nif [ -f "$HOME/broken" ]; then echo "error: broken"; exit 1; fi\n'
             'mkdir -p "$2/examples/cli"; cp "$HOME/waldo" "$2/examples/cli/waldo"',
}
WALDO = 'for word; do printf "<%s>" "$word"; done\npwd >"$HOME/where"\nexit "$(cat "$HOME/code")"'


def program(path, text):
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def machine(tmp_path):
    """A tree with only the scripts, a home folder, and a PATH that begins with the stubs."""
    (tmp_path / "tree").mkdir()
    shutil.copytree(EXAMPLES, tmp_path / "tree" / "examples")
    (tmp_path / "bin").mkdir()
    for name, text in STUBS.items():
        program(tmp_path / "bin" / name, text)
    program(tmp_path / "waldo", WALDO)
    for name, text in (("missing", ""), ("uid", "0"), ("code", "0"), ("calls", ""),
                       ("engine", "1"), ("images", ""), ("import-code", "0")):
        (tmp_path / name).write_text(text)
    (tmp_path / "work").mkdir()
    return tmp_path


def quickstart(machine, *args, answer="", **env):
    env = {"PATH": f"{machine}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(machine), "LC_ALL": "C.UTF-8",
           "WALDO_MODEL": "chat:http://127.0.0.1:1/v1#m", **env}
    return subprocess.run(["sh", machine / "tree" / "examples" / "quickstart.sh", *args], input=answer, text=True,
                          cwd=machine / "work", capture_output=True, timeout=120, env=env)


def calls(machine):
    return (machine / "calls").read_text()


def test_nothing_is_asked_when_nothing_is_missing(machine):
    done = quickstart(machine, "it's $HOME, \"quoted\"")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("<run><-m><chat:http://127.0.0.1:1/v1#m><-s><local:><-w><.>"
                           "<--><it's $HOME, \"quoted\">")
    assert "Go on?" not in done.stderr and "apt-get" not in calls(machine)
    assert (machine / "where").read_text().strip() == str(machine / "work")


def test_the_exit_code_is_that_of_waldo(machine):
    (machine / "code").write_text("3")
    assert quickstart(machine, "x").returncode == 3


@pytest.mark.parametrize("answer", ["", "n\n", "maybe\n"])
def test_without_consent_nothing_happens(machine, answer):
    (machine / "missing").write_text("bubblewrap\nmeson\n")
    done = quickstart(machine, "x", answer=answer)
    assert done.returncode == 1 and calls(machine) == "" and done.stdout == ""
    assert "Will install with apt-get: meson bubblewrap" in done.stderr and "not confirmed" in done.stderr


@pytest.mark.parametrize("args,answer,env", [(["--yes", "x"], "", {}), (["x"], "", {"CI": "true"}), (["x"], "y\n", {})])
def test_with_consent_only_the_missing_is_installed(machine, args, answer, env):
    (machine / "missing").write_text("bubblewrap\n")
    done = quickstart(machine, *args, answer=answer, **env)
    assert done.returncode == 0, done.stderr
    installs = [line for line in calls(machine).splitlines() if " install " in line]
    assert len(installs) == 1 and installs[0].endswith("--no-install-recommends bubblewrap")
    assert "sudo" not in calls(machine)


def test_an_ordinary_user_installs_with_sudo(machine):
    (machine / "uid").write_text("1000")
    (machine / "missing").write_text("bubblewrap\n")
    assert quickstart(machine, "--yes", "x").returncode == 0
    assert "sudo env DEBIAN_FRONTEND=noninteractive apt-get" in calls(machine)


def test_a_broken_build_is_shown(machine):
    (machine / "broken").touch()
    done = quickstart(machine, "x")
    assert done.returncode == 1 and "error: broken" in done.stderr and "the build failed" in done.stderr


def test_a_key_chooses_the_hosted_model(machine):
    done = quickstart(machine, "x", WALDO_MODEL="", OPENAI_API_KEY="sk-not-to-be-shown")
    assert "<openai:gpt-5.4-mini>" in done.stdout
    assert "sk-not-to-be-shown" not in done.stdout + done.stderr + calls(machine)
    done = quickstart(machine, "x", WALDO_MODEL="", ANTHROPIC_API_KEY="sk-not-to-be-shown")
    assert "<anthropic:claude-sonnet-5-5>" in done.stdout
    assert "sk-not-to-be-shown" not in done.stdout + done.stderr + calls(machine)


def test_without_a_key_the_download_is_announced(machine):
    done = quickstart(machine, "x", WALDO_MODEL="")
    assert done.returncode == 1 and "tiny demo model, set a key for real answers" in done.stderr
    assert "Will download 127 MB" in done.stderr and "Go on?" in done.stderr


@pytest.mark.parametrize("args", [[], [""], ["a", "b"], ["--yes"]])
def test_wrong_use_explains_itself(machine, args):
    done = quickstart(machine, *args)
    assert done.returncode == 2 and "Usage: sh examples/quickstart.sh" in done.stderr and calls(machine) == ""


# ---- the sandbox ----

def test_without_an_engine_it_is_bubblewrap(machine):
    done = quickstart(machine, "x")
    assert "<-s><local:>" in done.stdout and "Sandbox: local: (bubblewrap; no Docker engine answers)" in done.stderr


def test_an_image_that_is_there_is_used(machine):
    (machine / "engine").write_text("0")
    (machine / "images").write_text("waldo-quickstart\ndebian:bookworm-slim\n")
    done = quickstart(machine, "x")
    assert "<-s><docker:debian:bookworm-slim>" in done.stdout and "Go on?" not in done.stderr
    assert "Sandbox: docker:debian:bookworm-slim (a Docker engine answers and has the image)" in done.stderr
    assert "docker import" not in calls(machine)


def test_an_engine_without_images_gets_one_after_consent(machine):
    (machine / "engine").write_text("0")
    done = quickstart(machine, "x", answer="n\n")
    assert done.returncode == 1 and "will be made and imported" in done.stderr and "import" not in calls(machine)
    done = quickstart(machine, "x", answer="y\n")
    assert done.returncode == 0 and "<-s><docker:waldo-quickstart>" in done.stdout, done.stderr
    assert "docker import - waldo-quickstart" in calls(machine) and int((machine / "imported").read_text()) > 100


def test_an_import_that_fails_is_told(machine):
    (machine / "engine").write_text("0")
    (machine / "import-code").write_text("1")
    done = quickstart(machine, "--yes", "x")
    assert done.returncode == 1 and done.stdout == "" and "WALDO_SANDBOX=local:" in done.stderr


def test_a_sandbox_that_was_named_is_used(machine):
    (machine / "engine").write_text("0")
    done = quickstart(machine, "x", WALDO_SANDBOX="local:,timeout=9")
    assert "<-s><local:,timeout=9>" in done.stdout and "docker" not in calls(machine)

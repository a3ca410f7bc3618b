"""Holds the E2B stand-in to the vendor's own clients, pinned and unmodified: npm and PyPI.

With E2B_API_KEY set (run.sh hands it on as WALDO_TEST_E2B_API_KEY) the cases that need no script also run against the
service itself.
"""
import os
import pathlib
import subprocess

import npm
import pypi
import pytest

HERE = pathlib.Path(__file__).resolve().parent
CASES = "life commands streaming stdin joining files urls watch pty pause network code".split()
SCRIPTED = """bad_key pages rate_limits capacity expiry vanished_in_mid_run odd_streams full_disk new_token
    json_with_spaces port_without_a_listener""".split()
PYTHON_CASES = "life commands streams files watch terminal pause".split()
KEY = os.environ.get("WALDO_TEST_E2B_API_KEY") or os.environ.get("E2B_API_KEY")
LIVE = pytest.mark.skipif(not KEY, reason="E2B_API_KEY is not set")


@pytest.fixture(scope="session")
def packages():
    return npm.install(HERE)


@pytest.fixture(scope="session")
def python():
    return pypi.install(HERE / "requirements.txt")


def environment(standin=None):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    if standin is None:
        return {**clean, "E2B_API_KEY": KEY or ""}
    return {**clean, "E2B_API_KEY": "e2b_0123456789", "E2B_API_URL": standin.url, "E2B_SANDBOX_URL": standin.url}


def run(command, env):
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def javascript(case, packages, standin=None):
    control = f"http://127.0.0.1:{standin.control_port}" if standin else "-"
    return run([npm.newer_node(), HERE / "drive.mjs", case, control, packages], environment(standin))


def nothing_is_left(standin):
    standin.ask("GET", "/_wait?processes=0")


def test_every_case_is_run(packages, python):
    plain, scripted = javascript("--list", packages).splitlines()
    assert (plain.split(), scripted.split()) == (CASES, SCRIPTED)
    assert run([python, HERE / "drive.py", "--list"], environment()).split() == PYTHON_CASES


def test_the_clients_are_the_pinned_ones(packages, python):
    for name, version in (("e2b", "2.51.0"), ("@e2b/code-interpreter", "2.8.0")):
        assert f'"version": "{version}"' in (packages / "node_modules" / name / "package.json").read_text()
    says = run([python, "-c", "import importlib.metadata as m; print(m.version('e2b'))"], environment())
    assert says.strip() == "2.51.0"


@pytest.mark.parametrize("case", CASES + SCRIPTED)
def test_client_is_content(packages, e2b, case):
    if case in ("code", "new_token") and "WALDO_TEST_ENVD" in os.environ:
        pytest.skip("the interpreter is not part of envd, and envd keeps the token it has")
    javascript(case, packages, e2b)
    nothing_is_left(e2b)


@pytest.mark.parametrize("case", PYTHON_CASES)
def test_python_client_is_content(python, e2b, case):
    run([python, HERE / "drive.py", case], environment(e2b))
    nothing_is_left(e2b)


@LIVE
@pytest.mark.parametrize("case", CASES)
def test_service_itself(packages, case):
    javascript(case, packages)


@LIVE
@pytest.mark.parametrize("case", PYTHON_CASES)
def test_service_itself_by_python(python, case):
    run([python, HERE / "drive.py", case], environment())

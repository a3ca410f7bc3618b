"""Holds the Messages stand-in to the vendor's own client, pinned and unmodified (package-lock.json)."""
import pathlib

import npm
import pytest

HERE = pathlib.Path(__file__).resolve().parent
CASES = """models text text_streamed documented_example tools_round_trip thinking_is_kept fragments pause endings
    framing losses_are_noticed errors_inside_a_stream histories_are_judged thinking_is_judged requests_are_judged
    error_classes keys retries_are_counted connection_faults forms_the_client_understands""".split()


@pytest.fixture(scope="session")
def packages():
    return npm.install(HERE)


def test_every_case_is_run(packages):
    assert npm.drive(HERE, "--list", "-", "-", str(packages)).stdout.split() == CASES


def test_the_client_is_the_pinned_one(packages):
    installed = (packages / "node_modules" / "@anthropic-ai" / "sdk" / "package.json").read_text()
    assert '"version": "1.14.0"' in installed


@pytest.mark.parametrize("case", CASES)
def test_client_is_content(packages, messages, case):
    url = messages.url.removesuffix("/v1")  # the client appends it
    done = npm.drive(HERE, case, url, f"http://127.0.0.1:{messages.control_port}", str(packages))
    assert done.returncode == 0, done.stderr

"""Holds the Chat Completions stand-in to the vendor's own client, pinned and unmodified (package-lock.json)."""
import pathlib

import npm
import pytest

HERE = pathlib.Path(__file__).resolve().parent
CASES = """models text text_streamed usage_only_when_asked tools_round_trip tools_round_trip_streamed
    calls_in_own_form_streamed refusal_streamed length_is_reported framing unanswered_call_is_refused error_classes
    codes_survive key_is_demanded retries_are_counted connection_faults errors_inside_a_stream html_instead_of_json
    forms_the_client_understands""".split()


@pytest.fixture(scope="session")
def packages():
    return npm.install(HERE)


def test_every_case_is_run(packages):
    assert npm.drive(HERE, "--list", "-", "-", str(packages)).stdout.split() == CASES


def test_the_client_is_the_pinned_one(packages):
    installed = (packages / "node_modules" / "openai" / "package.json").read_text()
    assert '"version": "7.59.0"' in installed


@pytest.mark.parametrize("case", CASES)
def test_client_is_content(packages, chat, case):
    done = npm.drive(HERE, case, chat.url, f"http://127.0.0.1:{chat.control_port}", str(packages))
    assert done.returncode == 0, done.stderr

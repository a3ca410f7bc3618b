"""Holds the Responses stand-in to the vendor's own client, pinned and unmodified (package-lock.json)."""
import pathlib

import npm
import pytest

HERE = pathlib.Path(__file__).resolve().parent
CASES = """models text text_streamed plain_input documented_example tools_round_trip summaries_and_phases custom_calls
    refusal_streamed unfinished_responses framing obfuscation_only_when_wanted losses_the_client_does_not_notice
    errors_inside_a_stream histories_are_judged requests_are_judged history_is_kept
    conversations_are_kept error_classes key_is_demanded
    retries_are_counted connection_faults""".split()


@pytest.fixture(scope="session")
def packages():
    return npm.install(HERE)


def test_every_case_is_run(packages):
    assert npm.drive(HERE, "--list", "-", "-", str(packages)).stdout.split() == CASES


def test_the_client_is_the_pinned_one(packages):
    installed = (packages / "node_modules" / "openai" / "package.json").read_text()
    assert '"version": "7.59.0"' in installed


@pytest.mark.parametrize("case", CASES)
def test_client_is_content(packages, responses, case):
    done = npm.drive(HERE, case, responses.url, f"http://127.0.0.1:{responses.control_port}", str(packages))
    assert done.returncode == 0, done.stderr

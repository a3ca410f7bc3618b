"""The golden requests are accepted by the stand-in's judge of each server's rules."""
import json
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "standins" / "chat"))
import validate  # noqa: E402

GOLDEN = sorted((HERE / "golden").glob("*.json"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_request_is_accepted(path):
    vendor = path.stem.split("-")[0]
    body = validate.parse(path.read_bytes())

    assert body["messages"][0] == {"role": "system", "content": "Use tools."}
    validate.check(body, "openai" if vendor in ("generic", "mended") else vendor)


def test_there_are_golden_requests():
    assert len(GOLDEN) >= 12

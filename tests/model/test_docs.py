"""docs/models.md tells of every quirk, every server and every key that the table holds."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = (ROOT / "src/model/chat_quirks.c").read_text()
PAGE = (ROOT / "docs/models.md").read_text()


@pytest.mark.parametrize("source,heading,count", [("responses.c", "## OpenAI Responses", 10),
                                                  ("messages.c", "## Anthropic Messages", 9),
                                                  ("chat_quirks.c", "## Servers of Chat Completions differ", 18)])
def test_switches(source, heading, count):
    text = (ROOT / "src/model" / source).read_text()
    switches = re.findall(r'\{ "(\w+)",\s*WALDO__SWITCH_(\w+)', text)
    section = PAGE.split(heading + "\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.M))

    assert len(switches) == count
    assert set(rows) == {name for name, _ in switches}
    assert {name for name, kind in switches if kind == "BOOL"} == {
        name for name, values in rows.items() if values == "on, off"}


def test_servers_and_keys():
    for server in re.findall(r'\.server = "([^"]+)"', SOURCE):
        assert f"`{server}`" in PAGE
    for host, key in re.findall(r'\{ "([\w.]+)", NULL, "\w+", "(\w+)" \}', SOURCE):
        assert f"| `{host}` | `{key}` |" in PAGE

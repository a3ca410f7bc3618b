"""docs/models.md tells of every quirk, every server and every key that the table holds."""
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
SOURCE = (ROOT / "src/model/chat_quirks.c").read_text()
PAGE = (ROOT / "docs/models.md").read_text()


def test_switches():
    switches = re.findall(r'\{ "(\w+)",\s*WALDO__SWITCH_(\w+)', SOURCE)
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE, re.M))

    assert len(switches) >= 16
    assert set(rows) == {name for name, _ in switches}
    assert {name for name, kind in switches if kind == "BOOL"} == {
        name for name, values in rows.items() if values == "on, off"}


def test_servers_and_keys():
    for server in re.findall(r'\.server = "([^"]+)"', SOURCE):
        assert f"`{server}`" in PAGE
    for host, key in re.findall(r'\{ "([\w.]+)", NULL, "\w+", "(\w+)" \}', SOURCE):
        assert f"| `{host}` | `{key}` |" in PAGE

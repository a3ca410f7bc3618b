"""The bench programs build, run and move the same bytes; nothing here judges a time."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import cloud_rows  # noqa: E402
import docker_rows  # noqa: E402
import run  # noqa: E402

BUILD = Path(os.environ.get("WALDO_BUILD", HERE.parent.parent / "build"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """One run of everything at its smallest: the figures, and the page it printed."""
    figures = tmp_path_factory.mktemp("bench") / "figures.json"
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), "--smoke", "--build", str(BUILD),
         "--json", str(figures)],
        capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(figures.read_text())[0], done.stdout


def test_every_program_moves_the_same_bytes(bench):
    figures, _ = bench
    cold = {name.split("/")[1]: row for name, row in figures.items() if name.startswith("cold/")}
    floor = cold["libcurl"]["wire"]
    assert floor["requests"] == 4
    assert {"libcurl", "waldo"} <= set(cold)
    assert ({"agents", "ai"} <= set(cold)) == run.peers_can_run()
    for name, row in cold.items():
        assert row["wire"]["requests"] == 4, name
        assert row["wire"]["bytes_out"] == pytest.approx(floor["bytes_out"], rel=0.02), name
        assert row["wire"]["bytes_in"] == pytest.approx(floor["bytes_in"], rel=0.6), name


def test_the_page_has_every_row_and_names_the_machine(bench):
    figures, page = bench
    assert page.startswith("Machine: ")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) > 20
    assert len({row.count(" | ") for row in rows}) == 1, "a row has lost a column"
    assert "against" in rows[0] and "budget" in rows[0]
    assert figures["history/libcurl"]["history"]["10"] > 0
    assert figures["history/waldo"]["history"]["10"] > 0
    for api, label in run.OTHER_APIS:
        assert figures[f"history/{api}"]["history"]["10"] > 0
        assert f"{label}: CPU per turn around turn 1000" in page


def test_every_way_to_run_a_command_ran(bench):
    figures, _ = bench
    assert {"host", "bwrap", "waldo"} <= set(figures["exec/all"])
    assert {"libcurl_init", "libcurl_request", "waldo"} <= set(figures["startup/all"])


def test_every_way_to_use_docker_ran(bench):
    figures, page = bench
    ways = {"exec": {"host", "bwrap", "waldo", "api", "cli", *docker_rows.peers()[::3]},
            "many": {"waldo", "waldo_16", "api_16"},
            "files": {"waldo_in", "waldo_out", "api_in", "api_out"},
            "open": {"waldo", "api"},
            "pool": {"waldo_pool", "waldo"}}
    for mode, names in ways.items():
        assert names <= set(figures[f"docker {mode}/all"]), mode
    assert "Not measured: Docker" not in page


@pytest.mark.skipif(os.geteuid() != 0, reason="machines of stand-ins have the users that the hand needs by root only")
@pytest.mark.parametrize("provider", cloud_rows.PROVIDERS, ids=lambda provider: provider.STANDIN)
def test_every_way_to_use_a_provider_ran_and_asked_alike(bench, provider):
    figures, page = bench
    exec_, many, open_ = (figures[f"{provider.STANDIN} {mode}/all"] for mode in cloud_rows.MODES)
    clients = cloud_rows.peers(provider)[::3]
    assert set(clients) == (set(provider.PEERS) if run.peers_can_run() else set())
    for row, names in ((exec_, ["waldo", "libcurl"]), (many, ["waldo", "libcurl", "waldo_1"]), (open_, ["waldo"])):
        for name in [*names, *clients]:
            assert row[name] > 0 and row[name + "_cpu"] > 0 and row[name + "_requests"] > 0, (name, row)
    for row in exec_, many:
        assert row["waldo_requests"] == row["libcurl_requests"] == 1, row
    sent = figures[f"{provider.STANDIN} bytes/all"]
    assert sent["libcurl"] == pytest.approx(sent["waldo"], rel=0.1), "not the same work"
    assert f"Not measured: {provider.NAME}" not in page
    assert page.count(f"live {provider.NAME} sandbox") >= 3


def test_both_languages_say_the_same_words():
    header = dict(re.findall(r'#define BENCH_(\w+) +"(.*)"\n', (HERE / "workload.h").read_text()))
    script = dict(re.findall(r'export const (\w+) = "(.*)";\n',
                             (HERE / "peers" / "workload.mjs").read_text()))
    assert len(script) >= 7
    assert script == {name: header[name] for name in script}

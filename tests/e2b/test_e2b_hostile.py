"""The e2b backend against a provider, a proxy and a sandbox that mean no good."""
import json

import pytest

from host import GO
from test_e2b import CREATE, KEY, SEND, START, cloud, empty, make, pytestmark  # noqa: F401 (fixtures)
from test_e2b_faults import KILL_ATTACH

LIST = "GET /v2/sandboxes*"


def stream(*events):
    """Envelopes of a Connect stream; each message is short."""
    return "".join("\0\0\0\0" + chr(len(text)) + text for text in (json.dumps({"event": each}) for each in events))


def test_what_a_provider_says_is_cut(empty):
    for length in (1001, 5000):
        empty.fault(CREATE, status=400, json={"code": 400, "message": "m" * length})
        said = empty.run("true").stderr
        assert said.count("m" * 1000) == 1 and "m" * 1001 not in said, said


def test_keys_are_not_echoed_as_codes(empty):
    empty.fault(CREATE, status=400, json={"code": 400, "message": "no", "error_code": KEY})
    a = empty.host("e2b:")
    assert KEY not in a.ask("open")
    a.finish()
    empty.fault(START, skip=1, times=9, frames={"no_start": True, "error": {"code": "token {token}"}})
    done = empty.run("true")
    token = next(each["headers"]["x-access-token"] for each in empty.asked(START))
    assert done.returncode != 0 and token not in done.stdout + done.stderr


@pytest.mark.parametrize("pid", [{}, {"pid": 0}, {"pid": -7}, {"pid": 1 << 32}, {"pid": 1e300}, {"pid": "no"}])
def test_a_process_without_a_number(empty, pid):
    empty.fault(START, times=9, skip=1, status=200, text=stream({"start": pid}) + "\0", stall_at=1, stall_ms=1)
    done = empty.run("true")
    assert done.returncode != 0 and "e2b: " in done.stderr, done.stderr
    assert empty.asked(SEND) == []


@pytest.mark.parametrize("events", [
    [{"end": {}}], [{"data": {"stdout": "AAAA"}}, {"end": {"exitCode": 1}}],
    [{"start": {"pid": 1}}, {"start": {"pid": 1}}],
    [{"start": {"pid": 1}}, {"data": {"stdout": "=!="}}], [{"start": {"pid": 1}}, {"data": {"stdout": "AAAA"}}]])
def test_streams_out_of_order(empty, events):
    empty.fault(START, times=9, skip=1, status=200, text=stream(*events))
    done = empty.run("true")
    assert done.returncode != 0 and "e2b: " in done.stderr and done.stdout == "", done.stderr


def test_a_pause_that_fails(empty):
    """Its time goes on being extended."""
    a = empty.host("e2b:,lease=12")
    a.good("open")
    empty.fault("POST /sandboxes/*/pause", status=500)
    assert "500" in a.ask("pause")

    before = len(empty.lines())
    assert a.run("sleep 6; echo here") == "here\n"
    assert any(line.endswith("/timeout") for line in empty.lines()[before:])
    a.good("close")


def test_a_stream_that_breaks_while_the_network_is_changed(empty):
    a = empty.host("e2b:,user=root")
    a.good("open")
    a.start(f"until [ -e {GO} ]; do sleep 0.05; done; {KILL_ATTACH}")
    a.run("sleep 1.1")
    empty.fault("PUT /sandboxes/*/network", stall_headers=True)
    streams = len(empty.asked(START))
    a.say("net all")
    assert empty.wait(lambda: any(line.startswith("PUT ") for line in empty.lines()))
    empty.touch(GO)
    assert empty.wait(lambda: len(empty.asked(START)) > streams)
    empty.standin.control(release=True)
    a.hear()
    assert a.run("echo here") == "here\n"
    brought = {line for line in empty.lines() if "path=" in line}
    assert len(brought) == 3  # none under a name that commands could know
    a.good("net none")
    a.good("close")


def test_a_provider_that_does_not_filter(cloud):
    """A name is that of nobody else's machine, and what is listed is ours."""
    other = make(cloud, metadata={"dev.waldo": "1", "dev.waldo.run": "other", "dev.waldo.name": "elsewhere"})
    plain = make(cloud)
    found = [{"sandboxID": name, "startedAt": "2020-01-01T00:00:00Z", "state": "running", **more}
             for name, more in ((other, {"metadata": {"dev.waldo": "1", "dev.waldo.run": "other",
                                                     "dev.waldo.name": "elsewhere"}}),
                                (plain, {}), ("\x1b[31m", {"metadata": {"dev.waldo": "1", "dev.waldo.run": "odd"}}))]
    cloud.fault(LIST, times=2, status=200, json=found)
    a = cloud.host("e2b:,name=lab")
    a.good("open")
    created = [each for each in cloud.asked(CREATE) if "name" in str(each["json"])]
    assert len(created) == 2 and created[-1]["json"]["metadata"]["dev.waldo.name"] == "lab"
    a.finish()
    cloud.fault(LIST, status=200, json=found)
    listed = [json.loads(line) for line in cloud.waldo("ps", "--all", "--json").stdout.splitlines()]
    assert [each["id"] for each in listed] == [other]


def test_forged_states_of_machines_made_elsewhere(cloud):
    """Only the one that the string names is entered without a label."""
    one, other = make(cloud), make(cloud)

    def forged(machine, sandbox):
        (cloud.folder / "forged").write_text(json.dumps({
            "waldo": "sandbox", "version": 1, "backend": "e2b", "background": 0, "workspace": "cloud",
            "machine": json.dumps({"run": "abc", "user": "user", "foreign": True, "machine": machine})}))
        return cloud.host(sandbox, "forged").ask("open")

    assert "attach=" in forged(other, "e2b:")
    assert "attach=" in forged(other, f"e2b:,attach={one},lease=60")
    assert forged(one, f"e2b:,attach={one},lease=60").startswith("OK")
    assert not any(line.startswith(f"POST /v2/sandboxes/{other}") for line in cloud.lines())


def test_machines_made_elsewhere_are_reached_again(cloud):
    one = make(cloud)
    a = cloud.host(f"e2b:,attach={one},lease=60")
    a.good("open")
    number = a.start("echo 1; sleep 1; exit 3")
    a.run("true")
    a.good("save")
    a.kill()
    b = cloud.host(f"e2b:,attach={one},lease=60")
    b.good("open")
    assert b.good("list").startswith(str(number))
    b.good("close")


def test_a_token_with_a_line_break(empty):
    empty.fault(CREATE, status=201, json={"sandboxID": "iabc", "envdVersion": "0.6.13",
                                          "envdAccessToken": "a\r\nX-Evil: 1"})
    done = empty.run("true")
    assert done.returncode != 0 and not any("x-evil" in each["headers"] for each in empty.standin.requests())


@pytest.mark.parametrize("name", ["../../v2", "a/b", "", "i\r\nX: 1", "i" * 100, 7, None, {"a": 1}])
def test_sandboxes_without_a_name(empty, name):
    empty.fault(CREATE, status=201, json={"sandboxID": name, "envdAccessToken": "t" * 64, "envdVersion": "0.6.13"})
    done = empty.run("true")
    assert "names no sandbox" in done.stderr, done.stderr
    assert len(empty.lines()) == 1


def test_redirections_are_not_followed(empty):
    empty.fault(CREATE, status=307, headers={"Location": "/v2/elsewhere"})
    done = empty.run("true")
    assert done.returncode != 0 and "307" in done.stderr and len(empty.lines()) == 1


def test_pages_without_end(empty):
    empty.fault(LIST, times=None, status=200, json=[], headers={"X-Next-Token": "again"})
    empty.waldo("ps")
    assert len(empty.lines()) <= 1000


@pytest.mark.parametrize("options", [",api=http://192.0.2.1", ",envd=http://192.0.2.1"])
def test_no_plain_http_beyond_this_machine(cloud, options):
    done = cloud.run("true", options)
    assert done.returncode != 0 and "https://" in done.stderr, done.stderr

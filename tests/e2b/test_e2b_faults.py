"""Every switch of the stand-in, through the backend: the right result or an error by name, memory with a bound, nothing
done twice, no process left."""
import ast
import base64
import json
import pathlib
import re
import subprocess
import time

import pytest

from host import count, counted, read_all
from test_e2b import CREATE, SEND, START, cloud, empty, make, pytestmark  # noqa: F401 (fixtures)

TESTS = pathlib.Path(__file__).resolve().parents[1]
FILES, FOLDER = "POST /files", "POST /filesystem.Filesystem/MakeDir"
ONCE = "exec echo once >> /tmp/times; cat /tmp/times"
GONE = "WALDO_(ELOST|ENOTFOUND)"  # whichever of the requests at once is the first to be told
MEMORY_MAX_KB = 64 * 1024
# As root, who may: the process that brings the hand's stream.
KILL_ATTACH = ("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -q '^[^ ]* attach ' && "
               "kill -9 ${p#/proc/}; done")


@pytest.fixture
def sound(empty):  # noqa: F811
    """Hosts of this test are orderly at its end, and have not grown."""
    yield empty
    for host in empty.hosts:
        if host.process.poll() is None:
            status = pathlib.Path(f"/proc/{host.process.pid}/status").read_text()
            assert int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) < MEMORY_MAX_KB
            host.ask("close")
            host.finish()


def output(answer):
    """What a command wrote that ended by itself."""
    assert answer.startswith("OK end=1 code=0 "), answer
    return bytes.fromhex(answer.split()[3][1:]).decode()


def sent(request):
    return base64.b64decode(request["json"]["input"]["stdin"])


def machines(sound):
    return {each["vm"] for each in sound.standin.requests() if each["vm"]}


def name(sound):
    return sound.asked(START)[-1]["vm"]


# ---- what changes nothing ----

@pytest.mark.parametrize("fault", [
    {"wait_ms": 150}, {"slow_headers": 1}, {"close": True}, {"headers": {"X-Of-Tomorrow": "x" * 4000}},
    {"split": 1, "delay_ms": 1}, {"stall_at": 0, "stall_ms": 150}], ids=lambda fault: next(iter(fault)))
def test_slow_and_odd_answers(sound, fault):
    """Of everybody, all the time."""
    sound.fault("*", times=None, **fault)
    a = sound.host("e2b:")
    assert output(a.ask(ONCE)) == "once\n" and a.run("cat /tmp/times; head -c 3000 /dev/zero | wc -c") == "once\n3000\n"
    assert len(sound.asked(CREATE)) == 1 and len(machines(sound)) == 1
    assert "close" not in fault or all(each["on_connection"] == 0 for each in sound.standin.requests())


@pytest.mark.parametrize("frames", ["keepalive_before_start", "keepalive_first", "unknown_event", "unknown_field"])
def test_odd_frames(sound, frames):
    sound.fault(START, times=None, frames={frames: True})
    assert output(sound.host("e2b:").ask(ONCE)) == "once\n"


@pytest.mark.parametrize("on,skip,fault", [
    (CREATE, 0, {"stall_headers": True}), (CREATE, 0, {"stall_at": 20}), (FOLDER, 0, {"stall_headers": True}),
    (FILES, 1, {"stall_headers": True}), (START, 0, {"stall_headers": True}), (START, 1, {"stall_headers": True}),
    (START, 1, {"stall_at": 20})])
def test_silence_that_ends(sound, on, skip, fault):
    """What was carried out before the silence is not asked for again."""
    sound.fault(on, skip=skip, **fault)
    a = sound.host("e2b:")
    a.say(ONCE)
    path = on.partition(" ")[2]
    assert sound.wait(lambda: sum(each["path"].startswith(path) for each in sound.standin.requests()) > skip)
    time.sleep(0.3)
    sound.standin.control(release=True)
    assert output(a.hear()) == "once\n" and len(sound.asked(CREATE)) == 1 and len(sound.asked(START)) == 2


def test_silence_about_what_was_sent(sound):
    """The command is not held up by it, the next one is."""
    a = sound.host("e2b:")
    a.good("open")
    sound.fault(SEND, stall_headers=True)
    assert output(a.ask(ONCE)) == "once\n"
    a.say("exec cat /tmp/times")
    time.sleep(0.3)
    sound.standin.control(release=True)
    assert output(a.hear()) == "once\n"


# ---- creation ----

@pytest.mark.parametrize("fault,creations", [
    ({"close_before_reply": True}, 1), ({"close_before_reply": True, "reset": True}, 1), ({"drop_at": 20}, 1),
    ({"drop_at": 20, "reset": True}, 1), ({"status": 500, "after": True}, 1),
    ({"status": 502, "text": "<html>", "after": True}, 1), ({"status": 500, "close_before_reply": True}, 2),
    ({"status": 500, "close_before_reply": True, "reset": True}, 2), ({"status": 504}, 2)])
def test_creations_of_unknown_outcome(sound, fault, creations):
    """Made: found again. Cut before anybody saw it: made a second time. One machine in the end."""
    sound.fault(CREATE, **fault)
    assert output(sound.host("e2b:").ask(ONCE)) == "once\n"
    assert len(sound.asked(CREATE)) == creations and len(machines(sound)) == 1
    assert set(json.loads(sound.standin.ask("GET", "/_processes/list"))) == machines(sound)


def test_too_long_a_life(sound):
    sound.standin.control(max_timeout_s=3600)
    refused = sound.host("e2b:,lease=7200").ask("open")
    assert refused.startswith("WALDO_EINVAL ") and "Timeout cannot be greater" in refused


@pytest.mark.parametrize("on,skip,fault,status", [
    (FILES, 0, {"status": 507}, "WALDO_ENOSPACE"), (FILES, 1, {"status": 507}, "WALDO_ENOSPACE"),
    (FILES, 0, {"status": 401}, "WALDO_EAUTH"), (FILES, 0, {"status": 409}, "WALDO_EBUSY"),
    (FOLDER, 0, {"status": 500}, "WALDO_EPROVIDER"), (START, 0, {"status": 503}, "WALDO_EUNAVAILABLE"),
    (START, 1, {"status": 429}, "WALDO_ERATE"),
    (START, 1, {"status": 403}, "WALDO_EACCESS"), (START, 1, {"status": 404, "text": "<html>"}, "WALDO_ENOTFOUND"),
    (FOLDER, 0, {"vanish": True}, GONE), (FILES, 0, {"vanish": True}, GONE),
    (START, 0, {"vanish": True}, "WALDO_ELOST"), (START, 1, {"vanish": True}, "WALDO_ELOST")])
def test_opening_fails_by_name(sound, on, skip, fault, status):
    sound.fault(on, skip=skip, **fault)
    said = sound.host("e2b:").ask("open")
    assert re.match(f'{status} sandbox "e2b:": e2b: ', said) and len(sound.asked(CREATE)) == 1, said


# ---- in use ----

@pytest.mark.parametrize("fault", [
    {"close_before_reply": True}, {"close_before_reply": True, "reset": True}, {"status": 500, "after": True},
    {"status": 500}, {"status": 500, "close_before_reply": True}, {"status": 429}])
def test_sending_of_unknown_outcome(sound, fault):
    """Lost, never sent again; the machine is reached again."""
    a = sound.host("e2b:")
    a.good("open")
    time.sleep(1.1)  # sooner it is not tried
    sound.fault(SEND, **fault)
    assert a.ask("exec echo once >> /tmp/times; sleep 100").startswith("OK end=6")
    done = a.run("touch /tmp/times; cat /tmp/times")
    assert done == "" or (done == "once\n" and ("status" not in fault or "after" in fault))
    assert sum(b"echo once" in sent(each) for each in sound.asked(SEND)) <= 1


def test_sending_too_often(sound):
    a = sound.host("e2b:")
    a.good("open")
    sound.fault(SEND, status=429, retry_after=1)
    assert output(a.ask(ONCE)) == "once\n"


@pytest.mark.parametrize("fault", [{"end_at": 3000}, {"drop_at": 3000}, {"drop_at": 3000, "reset": True}],
                         ids=lambda fault: next(iter(fault)))
def test_a_stream_that_is_cut(sound, fault):
    """In the middle of a frame; background commands go on, with their exact output."""
    sound.fault(START, skip=1, **fault)
    a = sound.host("e2b:")
    a.good("open")
    number = a.start(count())
    time.sleep(1.1)
    assert a.ask("exec echo once >> /tmp/times; head -c 3000 /dev/urandom; sleep 100").startswith("OK end=6")
    assert a.run("cat /tmp/times") == "once\n"
    assert read_all(a, number) == (counted(), (1, 7)) and len(machines(sound)) == 1


@pytest.mark.parametrize("away", [{"status": 503}, {"status": 409}, {"close_before_reply": True, "status": 500}],
                         ids=lambda away: str(away["status"]))
def test_a_provider_that_is_away_for_a_while(sound, away):
    """When the stream is to be made anew."""
    sound.fault(START, skip=1, drop_at=3000, reset=True)
    sound.fault(FILES, skip=2, times=2, **away)
    a = sound.host("e2b:")
    a.good("open")
    number = a.start(count())
    a.run("sleep 1.1")
    assert a.ask("exec echo once >> /tmp/times; head -c 3000 /dev/urandom; sleep 100").startswith("OK end=6")
    assert a.run("cat /tmp/times") == "once\n"
    assert read_all(a, number) == (counted(), (1, 7)) and len(machines(sound)) == 1


@pytest.mark.parametrize("frames", [
    {}, {"no_end": True}, {"twice_end": True}, {"no_end_stream": True}, {"no_end": True, "no_end_stream": True},
    {"after_end_stream": True}, {"end_error": {"code": "internal", "message": "late"}}], ids="-".join)
def test_the_process_of_the_stream_ends(sound, frames):
    sound.fault(START, skip=1, frames=frames)
    a = sound.host("e2b:,user=root")
    a.good("open")
    number = a.start(count())
    time.sleep(1.1)
    assert a.ask(f"exec echo once >> /tmp/times; {KILL_ATTACH}; sleep 100").startswith("OK end=6")
    assert a.run("cat /tmp/times") == "once\n"
    assert read_all(a, number) == (counted(), (1, 7)) and len(machines(sound)) == 1


@pytest.mark.parametrize("frames", [
    {"join": True, "error": {"code": "internal", "message": "ill"}}, {"error": {"code": "internal", "message": "ill"}},
    {"no_start": True, "error": {"code": "internal", "message": "ill"}}, {"garbage": "{no json"},
    {"huge": 1 << 30}, {"huge": (1 << 32) - 1}, {"compressed": True}, {"flags": 128}], ids="-".join)
def test_streams_that_are_none(sound, frames):
    sound.fault(START, times=None, skip=1, frames=frames)
    said = sound.host("e2b:").ask(ONCE)
    assert re.match('WALDO_E[A-Z_]+ sandbox "e2b:": ', said) and "e2b: the hand's stream: " in said, said
    assert ("ill" in said) == ("error" in frames) and b"once" not in b"".join(map(sent, sound.asked(SEND)))


@pytest.mark.parametrize("on,skip,fault", [(SEND, 1, {"vanish": True}), (START, 1, {"vanish_at": 3000})])
def test_the_machine_ends_in_use(sound, on, skip, fault):
    sound.fault(on, skip=skip, **fault)
    a = sound.host("e2b:")
    a.good("open")
    assert a.ask("exec head -c 3000 /dev/urandom; sleep 100").startswith("OK end=6")
    lost = a.ask("exec true")
    assert lost.startswith("WALDO_ELOST") and "the sandbox is gone" in lost and len(sound.asked(CREATE)) == 1, lost


def test_one_machine_of_two(sound):
    a, b = sound.host("e2b:"), sound.host("e2b:", "other")
    for host in (a, b):
        host.good("open")
    sound.fault(SEND, vm=name(sound), times=None, status=502)
    assert output(a.ask(ONCE)) == "once\n" and b.ask(ONCE).startswith("OK end=6")
    assert output(a.ask("exec cat /tmp/times")) == "once\n" and b.ask(ONCE).startswith("WALDO_ELOST ")


def test_the_end_of_it_without_an_answer(sound):
    a = sound.host("e2b:")
    a.good("open")
    sound.fault("DELETE *", close_before_reply=True)
    a.good("close")


# ---- what others order ----

def test_somebody_pauses_it(sound):
    a = sound.host("e2b:")
    a.good("open")
    a.say("exec echo once >> /tmp/times; sleep 100")
    assert sound.wait(lambda: "sleep 100" in sound.running())
    sound.standin.control(pause="*")
    assert a.hear().startswith("OK end=6")
    said = a.ask("exec cat /tmp/times")
    assert said.startswith("WALDO_ELOST") and "paused" in said, said


def test_somebody_pauses_what_resumes_by_itself(cloud):
    """By the question for its health: the stream is made again, in the same machine."""
    other = make(cloud, autoPause=True, autoResume={"enabled": True})
    a = cloud.host(f"e2b:,attach={other}")
    a.good("open")
    number = a.start(count())
    a.run("sleep 1.1")  # it has begun then, and a stream that breaks sooner is not made again
    cloud.standin.control(pause=other)
    assert read_all(a, number) == (counted(), (1, 7))
    assert a.run("echo here") == "here\n" and len(cloud.asked(CREATE)) == 1
    a.good("close")
    a.finish()
    assert cloud.wait(lambda: cloud.processes() == 3), cloud.running()


def test_its_token_changes(sound):
    """Refused by name; who opens it again is told the new one."""
    a = sound.host()
    assert output(a.ask(ONCE)) == "once\n"
    a.good("save")
    time.sleep(1.1)
    sound.standin.control(rotate_token="*")
    assert a.ask(ONCE).startswith("OK end=6")
    lost = a.ask("exec true")
    assert lost.startswith("WALDO_E") and "token was refused" in lost, lost
    a.kill()
    assert output(sound.host().ask("exec cat /tmp/times")) == "once\n"


def test_the_key_is_revoked(sound):
    a = sound.host("e2b:")
    a.good("open")
    sound.standin.control(key="e2b_another")
    assert output(a.ask(ONCE)) == "once\n"  # the machine has its own
    said = sound.host("e2b:", "other").ask("open")
    assert said.startswith("WALDO_EAUTH") and "check the key" in said, said
    sound.standin.control(key=None)


# ---- the list ----

HERE, MAIN = "e2b/test_e2b_faults.py", "e2b/test_e2b.py"
NO_FAULTS = {"on", "skip", "times", "record"}  # say which requests are meant, or which are remembered
LIST = {
    (HERE, "test_slow_and_odd_answers"): "wait_ms slow_headers close headers split delay_ms stall_at stall_ms",
    (HERE, "test_odd_frames"): "keepalive_before_start keepalive_first unknown_event unknown_field",
    (HERE, "test_silence_that_ends"): "stall_headers release",
    (HERE, "test_creations_of_unknown_outcome"): "close_before_reply reset drop_at status after text",
    (HERE, "test_too_long_a_life"): "max_timeout_s",
    (HERE, "test_opening_fails_by_name"): "vanish",
    (HERE, "test_sending_too_often"): "retry_after",
    (HERE, "test_a_stream_that_is_cut"): "end_at",
    (HERE, "test_the_process_of_the_stream_ends"): "frames no_end twice_end no_end_stream after_end_stream end_error",
    (HERE, "test_streams_that_are_none"): "join error no_start garbage huge compressed flags",
    (HERE, "test_the_machine_ends_in_use"): "vanish_at",
    (HERE, "test_one_machine_of_two"): "vm",
    (HERE, "test_somebody_pauses_it"): "pause",
    (HERE, "test_its_token_changes"): "rotate_token",
    (HERE, "test_the_key_is_revoked"): "key",
    (MAIN, "test_keys_are_not_echoed"): "json",
    (MAIN, "test_too_many_sandboxes"): "concurrent",
    (MAIN, "test_a_full_disk"): "disk_bytes",
    (MAIN, "test_clocks_may_differ"): "clock_skew_s",
    (MAIN, "test_an_older_control_plane"): "no_v2",
    (MAIN, "test_options_reach_the_provider"): "templates",
    (MAIN, "test_any_split_and_white_space"): "spaces",
}


def known():
    """Every word the stand-in takes, from its code, and those of its table."""
    code = ("import sys; sys.path.append(sys.argv[1]); import server, frames; "
            "print(*server.STATE.faults.known | frames.KNOWN | set(server.SETTINGS))")
    done = subprocess.run(["/usr/bin/python3", "-B", "-c", code, str(TESTS / "standins" / "e2b")], capture_output=True,
                          text=True, check=True, timeout=60)
    page = (TESTS.parent / "docs" / "adding-a-stand-in.md").read_text().partition("\n## Faults\n")[2]
    rows = re.findall(r"^\| (`[^|]*) \|", page.partition("\n## ")[0], re.M)
    return set(done.stdout.split()), {word for row in rows for word in re.findall(r"`(\w+)", row)}


def words_of(place, test):
    """Names of arguments, keys and texts in a test and its decorators."""
    tree = ast.parse((TESTS / place).read_text())
    body, = (each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == test)
    found = {node.arg for node in ast.walk(body) if isinstance(node, ast.keyword)}
    return found | {node.value for node in ast.walk(body) if isinstance(node, ast.Constant)}


def test_every_switch_has_a_test():
    code, page = known()
    listed = {word for words in LIST.values() for word in words.split()}
    assert code - NO_FAULTS == listed - {"pause", "rotate_token", "release"}
    assert page | {"release", "vm"} == listed | ({"record"} & page)
    for (place, test), words in LIST.items():
        assert set(words.split()) <= words_of(place, test), test

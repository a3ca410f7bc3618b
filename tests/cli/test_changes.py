"""What a run changed: --patch, --apply, --each."""
import json
import subprocess

import pytest
from program import Sleep, call

EDIT = "echo two > a.txt; mkdir -p new; printf 'x\\0y' > new/b.bin; rm gone.txt; printf end > 'with space.txt'"


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    (folder / "gone.txt").write_text("gone\n")
    return folder


def git(folder, *words):
    return subprocess.run(["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t", *words],
                          capture_output=True, text=True)


def repository(folder):
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    assert git(folder, "commit", "-qm", "first").returncode == 0


def tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts}


CHANGED = {"a.txt": b"two\n", "new/b.bin": b"x\0y", "with space.txt": b"end"}


def test_a_patch_is_saved_and_the_directory_is_as_it_was(agent, chat, work, tmp_path):
    before = tree(work)
    chat.queue(call(cmd=EDIT), {"text": "done"})
    done = agent("run", "-w", work, "--patch", tmp_path / "p", "x")
    assert done.returncode == 0, done.stderr
    assert tree(work) == before and list(agent.temp.iterdir()) == []
    applied = git(work, "apply", tmp_path / "p")
    assert applied.returncode == 0, applied.stderr
    assert tree(work) == CHANGED


@pytest.mark.parametrize("place", ["no repository", "top", "below the top"])
def test_apply_always(agent, chat, work, place):
    if place != "no repository":
        repository(work if place == "top" else work.parent)
    chat.queue(call(cmd=EDIT), {"text": "done"})
    done = agent("run", "-w", ".", "--apply", "always", "x", cwd=work)
    assert done.returncode == 0, done.stderr
    assert tree(work) == CHANGED and "applied" in done.stderr
    assert list(agent.temp.iterdir()) == []


def test_apply_never_leaves_nothing(agent, chat, work):
    before = tree(work)
    chat.queue(call(cmd=EDIT), {"text": "done"})
    assert agent("run", "-w", work, "--apply", "never", "x").returncode == 0
    assert tree(work) == before and list(agent.temp.iterdir()) == []


def test_changes_that_nobody_asked_for_are_kept_and_named(agent, chat, work):
    chat.queue(call(cmd=EDIT), {"text": "done"})
    done = agent("run", "-w", work, "x")
    patch, = agent.temp.iterdir()
    assert done.returncode == 0 and str(patch) in done.stderr, done.stderr
    assert git(work, "apply", "--check", patch).returncode == 0


def test_a_conflict_changes_nothing_and_is_told(agent, chat, work):
    chat.queue(call(cmd="echo two > a.txt; echo new > c.txt"), {"text": "done", "stall_headers": True})
    process = agent.start("run", "-w", work, "--apply", "always", "x")
    chat.wait(requests=2)
    (work / "a.txt").write_text("three\n")
    chat.control(release=True)
    _, errors = process.communicate(timeout=120)
    patch, = agent.temp.iterdir()
    assert process.returncode == 1, errors
    assert b"not applied" in errors and str(patch).encode() in errors
    assert (work / "a.txt").read_text() == "three\n" and not (work / "c.txt").exists()


def test_nothing_changed(agent, chat, work, tmp_path):
    chat.queue(call(cmd="cat a.txt"), {"text": "done"})
    done = agent("run", "-w", work, "--patch", tmp_path / "p", "--apply", "always", "x")
    assert done.returncode == 0 and (tmp_path / "p").read_bytes() == b"", done.stderr
    assert list(agent.temp.iterdir()) == []


def test_work_of_a_run_that_hit_a_limit_is_kept(agent, chat, work, tmp_path):
    chat.queue(call(cmd="echo two > a.txt"), call(cmd="true"))
    done = agent("run", "-w", work, "--patch", tmp_path / "p", "--max-turns", "1", "x")
    assert done.returncode == 3 and b"+two" in (tmp_path / "p").read_bytes(), done.stderr


def test_the_directory_itself(agent, chat, work):
    chat.queue(call(cmd="echo two > a.txt"), {"text": "{result}"}, call(cmd="echo three > a.txt"), {"text": "{result}"})
    done = agent("run", "-w", work, "--mode", "rw", "x")
    assert done.returncode == 0 and (work / "a.txt").read_text() == "two\n", done.stderr
    done = agent("run", "-w", work, "--mode", "ro", "x")
    assert done.returncode == 0 and "Read-only" in done.stdout and (work / "a.txt").read_text() == "two\n"


# ---- --each ----

@pytest.fixture
def services(tmp_path):
    for name in ("services/billing", "services/mail", "services/search", "services-mail"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.txt").write_text("one\n")
    (tmp_path / "services" / "README").write_text("not a folder")
    return tmp_path


def test_each_directory_gets_a_machine_and_a_patch(agent, chat, services):
    edit = call(cmd="ls > seen; echo two > a.txt")
    chat.control(model="none", turns=[edit, {"text": "did it"}])
    done = agent("run", "--each", "services/*/", "-j", "2", "--out", "patches", "x", cwd=services)
    assert done.returncode == 0, done.stderr
    patches = sorted(path.name for path in (services / "patches").iterdir())
    assert patches == ["services-billing.patch", "services-mail.patch", "services-search.patch"]
    for name in ("billing", "mail", "search"):
        folder = services / "services" / name
        assert tree(folder) == {"a.txt": b"one\n"}
        assert git(folder, "apply", services / "patches" / f"services-{name}.patch").returncode == 0
        assert tree(folder) == {"a.txt": b"two\n", "seen": b"a.txt\nseen\n"}
        assert f"==> services/{name}/ <==\ndid it\n" in done.stdout
    assert "3 of 3 runs done" in done.stderr


def test_two_directories_never_share_a_patch(agent, chat, services):
    chat.control(model="none", turns=[call(cmd="pwd >a.txt"), {"text": "did it"}])
    done = agent("run", "--each", "{services/mail,services-mail}", "--out", "p", "x", cwd=services)
    done2 = agent("run", "--each", "services*", "--out", "q", "x", cwd=services)
    assert (done.returncode, done2.returncode) == (0, 0), done.stderr + done2.stderr
    assert {path.name for path in (services / "p").iterdir()} == {"services-mail.patch", "services-mail-2.patch"}
    assert {path.name for path in (services / "q").iterdir()} == {"services.patch", "services-mail.patch"}


def test_one_that_fails_spoils_no_other(agent, chat, services):
    chat.control(model="none", turns=[call(cmd="cat a.txt"), {"text": "fine"}])
    chat.queue({"status": 404, "json": {"error": {"message": "gone", "code": "model_not_found"}}})
    done = agent("run", "--each", "services/*", "-j", "1", "--out", "p", "x", cwd=services)
    assert done.returncode == 5, done.stderr
    assert "2 of 3 runs done, 1 failed" in done.stderr and done.stdout.count("fine") == 2
    assert "services/billing: " in done.stderr


def test_each_in_json_names_the_directory(agent, chat, services):
    chat.control(model="none", turns=[{"text": "fine"}])
    done = agent("run", "--each", "services/*", "--json", "x", cwd=services)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert {event["run"] for event in events} == {f"services/{n}" for n in ("billing", "mail", "search")}
    assert sum(event["type"] == "end" for event in events) == 3
    assert [path.name for path in services.glob("*.patch")] == []  # nothing changed


def test_nothing_matches(agent, services):
    done = agent("run", "--each", "services/R*", "x", cwd=services)
    assert done.returncode == 2 and "no directory matches" in done.stderr


def test_each_cannot_ask(agent, services):
    assert agent("run", "--each", "*", "--approve", "ask", "x", cwd=services).returncode == 2


def test_a_signal_ends_all(agent, chat, services):
    sleep = Sleep()
    chat.control(model="none", turns=[call(cmd=sleep.words)])
    process = agent.start("run", "--each", "services/*", "x", cwd=services)
    sleep.wait(3)
    process.terminate()
    assert process.wait(timeout=120) == 130
    process.communicate()
    sleep.wait(0)

"""Drives the stand-in, or the service, with the vendor's Python client: python drive.py CASE; run in its venv.

The environment says where: E2B_API_KEY, and for the stand-in E2B_API_URL and E2B_SANDBOX_URL.
"""
import contextlib
import io
import sys
import time


@contextlib.contextmanager
def sandbox(**options):
    made = Sandbox.create(timeout=120, **options)
    try:
        yield made
    finally:
        made.kill()


def fails(kind, call, *args, **more):
    try:
        call(*args, **more)
    except kind as why:
        return why
    raise AssertionError(f"no {kind.__name__}")


def wait(condition):
    late = time.monotonic() + 120
    while time.monotonic() < late:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def life():
    made = Sandbox.create(timeout=60, metadata={"k": "v w", "x&y": "a=b"}, envs={"GREETING": "hi"})
    try:
        assert made.is_running()
        info = made.get_info()
        assert (info.state.value, info.metadata["x&y"]) == ("running", "a=b"), info
        before = info.end_at
        made.set_timeout(300)
        assert (made.get_info().end_at - before).total_seconds() > 200
        found = Sandbox.list(query=e2b.SandboxQuery(metadata={"k": "v w"})).next_items()
        assert made.sandbox_id in [one.sandbox_id for one in found]
        assert made.commands.run("echo $GREETING").stdout == "hi\n"
        assert Sandbox.connect(made.sandbox_id).commands.run("id -un").stdout == "user\n"
        assert isinstance(made.get_metrics(), list)
    finally:
        assert made.kill()
    assert not made.is_running() and not made.kill()
    fails(e2b.SandboxNotFoundException, made.get_info)
    fails(e2b.TimeoutException, made.commands.run, "true")


def commands():
    with sandbox() as made:
        done = made.commands.run("echo out; echo err >&2; pwd; echo $A", envs={"A": "b c"}, cwd="/tmp")
        assert (done.exit_code, done.stdout, done.stderr) == (0, "out\n/tmp\nb c\n", "err\n"), done
        assert fails(e2b.CommandExitException, made.commands.run, "exit 3").exit_code == 3
        assert fails(e2b.CommandExitException, made.commands.run, "kill -9 $$").exit_code == -1
        assert made.commands.run("echo $USER ~", user="root").stdout == "root /root\n"
        fails(e2b.AuthenticationException, made.commands.run, "true", user="zz")
        fails(e2b.InvalidArgumentException, made.commands.run, "true", cwd="/missing")
        fails(e2b.TimeoutException, made.commands.run, "sleep 60", timeout=0.5)
        assert made.commands.kill(999999) is False


def streams():
    with sandbox() as made:
        script = "while read line; do echo got $line; done; echo end >&2"
        handle = made.commands.run(script, background=True, stdin=True)
        made.commands.send_stdin(handle.pid, "one\n")
        made.commands.send_stdin(handle.pid, "zwölf\n")
        assert handle.pid in [one.pid for one in made.commands.list()]
        made.commands.close_stdin(handle.pid)
        pieces = []
        done = handle.wait(on_stdout=pieces.append)
        assert done.stdout == "got one\ngot zwölf\n" == "".join(pieces) and done.stderr == "end\n"
        first = made.commands.run("read a; echo got $a", background=True, stdin=True)
        first.disconnect()
        second = made.commands.connect(first.pid)
        made.commands.send_stdin(first.pid, "it\n")
        assert second.wait().stdout == "got it\n"
        assert len(made.commands.run("head -c 2000000 /dev/zero | tr '\\0' x").stdout) == 2000000
        slept = made.commands.run("sleep 60", background=True)
        assert slept.kill()
        assert "killed" in fails(e2b.CommandExitException, slept.wait).error


def files():
    every = bytes(at % 251 for at in range(70000))
    with sandbox() as made:
        for options in ({}, {"use_octet_stream": True}, {"gzip": True}):
            assert made.files.write("/tmp/dir/é b.bin", every, **options).path == "/tmp/dir/é b.bin"
            assert made.files.read("/tmp/dir/é b.bin", format="bytes", gzip=options.get("gzip", False)) == every
        made.files.write("/tmp/stream", io.BytesIO(every))
        assert b"".join(made.files.read("/tmp/stream", format="stream")) == every
        two = made.files.write_files([{"path": "one.txt", "data": "1"}, {"path": "d/two.txt", "data": "22"}])
        assert [one.path for one in two] == ["/home/user/one.txt", "/home/user/d/two.txt"]
        listed = {one.path: one for one in made.files.list("/home/user", depth=2)}
        assert (listed["/home/user/d/two.txt"].size, listed["/home/user/d/two.txt"].owner) == (2, "user")
        assert made.files.make_dir("new/er") is True and made.files.make_dir("new/er") is False
        assert made.files.rename("one.txt", "moved.txt").path == "/home/user/moved.txt"
        assert made.files.exists("moved.txt") and not made.files.exists("one.txt")
        made.files.remove("new")
        made.files.write("empty", "")
        assert made.files.read("empty") == ""
        fails(e2b.NotFoundException, made.files.read, "missing")
        fails(e2b.InvalidArgumentException, made.files.read, "/tmp")
        fails(e2b.NotFoundException, made.files.list, "missing")


def watch():
    with sandbox() as made:
        made.files.make_dir("/tmp/w/deep")
        watcher = made.files.watch_dir("/tmp/w", recursive=True, include_entry=True)
        made.files.write("/tmp/w/a", "x")
        made.files.write("/tmp/w/deep/in", "x")
        made.files.remove("/tmp/w/a")
        seen = []

        def all_there():
            seen.extend((event.type.value, event.name) for event in watcher.get_new_events())
            return {("create", "a"), ("write", "a"), ("remove", "a"), ("create", "deep/in")} <= set(seen)
        wait(all_there)
        watcher.stop()
        fails(e2b.SandboxException, watcher.get_new_events)


def terminal():
    with sandbox() as made:
        shown = []
        handle = made.pty.create(e2b.PtySize(rows=20, cols=70), cwd="/tmp")
        made.pty.send_stdin(handle.pid, b"stty size; pwd\n")
        made.pty.resize(handle.pid, e2b.PtySize(rows=30, cols=90))
        made.pty.send_stdin(handle.pid, b"stty size; exit 5\n")
        why = fails(e2b.CommandExitException, handle.wait, on_pty=lambda data: shown.append(bytes(data)))
        assert why.exit_code == 5 and b"30 90" in b"".join(shown) and b"/tmp\r\n" in b"".join(shown), shown


def pause():
    with sandbox() as made:
        made.commands.run("echo kept >/tmp/kept")
        made.pause()
        assert made.get_info().state.value == "paused" and not made.is_running()
        fails(e2b.TimeoutException, made.commands.run, "true")
        again = Sandbox.connect(made.sandbox_id, timeout=60)
        assert again.files.read("/tmp/kept") == "kept\n" and made.is_running()


CASES = {function.__name__: function for function in (life, commands, streams, files, watch, terminal, pause)}

if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print(*CASES)
    else:
        import e2b
        from e2b import Sandbox
        CASES[sys.argv[1]]()

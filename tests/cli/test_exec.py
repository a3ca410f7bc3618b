"""`waldo exec`: one command through a local sandbox."""
import fcntl
import hashlib
import os
import random
import select
import signal
import struct
import subprocess
import termios

import pytest
from patience import PATIENCE
from program import Sleep


@pytest.fixture
def sandbox(waldo):
    waldo.args = ("-s", "local:")
    return waldo


@pytest.mark.parametrize("code", [0, 1, 2, 7, 125, 255])
def test_the_exit_code_is_passed_on(sandbox, code):
    done = sandbox("exec", "--", "sh", "-c", f"exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_words_are_passed_on_as_they_are(sandbox):
    words = ["", "two words", "it's", "$HOME", "*", "-i", "--", "é", "new\nline"]
    done = sandbox("exec", "printf", "<%s>", *words)
    assert done.stdout == "".join(f"<{word}>" for word in words), done.stderr


def test_streams_stay_apart_and_exact(sandbox):
    done = sandbox("exec", "--", "sh", "-c", r"printf 'a\0\377\r\n'; printf 'b\033[2J' >&2", text=False)
    assert (done.stdout, done.stderr) == (b"a\0\xff\r\n", b"b\033[2J")


def test_a_signal_becomes_a_code(sandbox):
    assert sandbox("exec", "--", "sh", "-c", "kill -SEGV $$").returncode == 128 + signal.SIGSEGV


def test_a_timeout_ends_the_tree(sandbox):
    sleep = Sleep()
    done = sandbox("exec", "--timeout", "8", "--", "sh", "-c", f"echo begun; setsid {sleep.words} & {sleep.words}")
    assert (done.returncode, done.stdout) == (124, "begun\n") and "timed out" in done.stderr
    sleep.wait(0)


def test_a_timeout_of_the_sandbox_string(waldo):
    done = waldo("exec", "-s", "local:,timeout=500ms", "--", "sleep", "600")
    assert done.returncode == 124 and "0.5" in done.stderr, done.stderr


def test_a_command_that_is_not_there(sandbox):
    done = sandbox("exec", "--", "no-such-program")
    assert done.returncode == 127 and "no such file" in done.stderr


def test_without_bubblewrap(sandbox):
    done = sandbox("exec", "--", "true", env={"PATH": "/nonexistent"})
    assert done.returncode == 125 and "bubblewrap" in done.stderr, done.stderr


def test_the_environment_is_its_own(sandbox):
    script = 'echo "$A,${E-unset},${SECRET_OF_HOST-none}"'
    done = sandbox("exec", "--env", "A=b c", "--env", "E=", "--", "sh", "-c", script, env={"SECRET_OF_HOST": "seen"})
    assert done.stdout == "b c,,none\n", done.stderr


def test_the_workspace(sandbox, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("one\n")
    script = ["--", "sh", "-c", "cat a && echo two >a && cat a"]
    done = sandbox("exec", "-w", work, *script)
    assert (done.returncode, done.stdout, (work / "a").read_text()) == (0, "one\ntwo\n", "one\n"), done.stderr
    done = sandbox("exec", "-w", work, "--mode", "ro", *script)
    assert done.returncode != 0 and (work / "a").read_text() == "one\n"
    done = sandbox("exec", "-w", work, "--mode", "rw", *script)
    assert (done.returncode, (work / "a").read_text()) == (0, "two\n"), done.stderr


# ---- standard input ----

def noise(size):
    return random.Random(size).randbytes(size)


def test_without_the_option_nothing_is_read(sandbox):
    done = sandbox("exec", "--", "cat", input="not for you")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("size", [0, 1, 65536, 20_000_000])
def test_input_goes_through_exactly(sandbox, size):
    data = noise(size)
    done = sandbox("exec", "-i", "--", "cat", input=data, text=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) == size and done.stdout == data


def test_a_command_that_reads_late_gets_everything(sandbox, tmp_path):
    """More than the library will queue waits in the pipe until the command reads."""
    data = noise(16_000_000)
    work = tmp_path / "work"
    work.mkdir()
    os.mkfifo(work / "go")
    with sandbox.start("exec", "-w", work, "--mode", "rw", "-i", "--", "sh", "-c", "read x <go; sha256sum",
                       stdin=subprocess.PIPE) as process:
        os.set_blocking(process.stdin.fileno(), False)
        sent = 0
        # Until the queue and the pipe are full, and stay so.
        while select.select([], [process.stdin], [], 1 if sent >= 4 << 20 else PATIENCE)[1]:
            sent += os.write(process.stdin.fileno(), data[sent:sent + 65536])
        assert 4 << 20 <= sent < 8 << 20
        (work / "go").write_text("go\n")
        os.set_blocking(process.stdin.fileno(), True)
        out, errors = process.communicate(data[sent:], timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert out.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_a_command_that_reads_only_some_of_it(sandbox):
    done = sandbox("exec", "-i", "--", "head", "-c", "3", input=noise(10_000_000), text=False)
    assert done.returncode == 0 and done.stdout == noise(10_000_000)[:3], done.stderr


def test_input_from_a_file_and_from_a_closed_descriptor(sandbox, tmp_path):
    (tmp_path / "in").write_bytes(noise(1000))
    with open(tmp_path / "in", "rb") as file:
        assert sandbox("exec", "-i", "--", "cat", stdin=file, text=False).stdout == noise(1000)
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *sandbox.command("exec", "-i", "--", "cat")]
    done = subprocess.run(command, capture_output=True, env=sandbox.env, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr


# ---- standard output ----

def test_much_output_to_a_slow_reader_is_complete(sandbox):
    with sandbox.start("exec", "--", "sh", "-c", "head -c 30000000 /dev/zero; echo; echo end") as process:
        total = 0
        while block := process.stdout.read(100_000):
            total += len(block)
        assert total == 30_000_005
    assert process.returncode == 0


def test_a_reader_that_leaves_ends_the_command(sandbox):
    sleep = Sleep()
    with sandbox.start("exec", "--", "sh", "-c", f"{sleep.words} & yes") as process:
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert process.wait(timeout=PATIENCE) == 128 + signal.SIGPIPE
        assert process.stderr.read() == b""
    sleep.wait(0)


def test_a_full_disk_is_told(sandbox):
    with open("/dev/full", "wb") as full:
        done = sandbox("exec", "--", "sh", "-c", "echo x", stdout=full)
    assert done.returncode == 125 and "No space left" in done.stderr, done.stderr


# ---- terminals ----

def test_a_command_on_a_terminal(sandbox):
    script = 'test -t 0 && test -t 1 && test -t 2 && echo "$TERM"; stty size; read x; echo "got $x"; exit 5'
    with sandbox.terminal("exec", "-it", "--", "sh", "-c", script, env={"TERM": "xterm-256color"}) as terminal:
        terminal.expect("xterm-256color")
        terminal.send("words\r")
        terminal.expect("got words\r\n")
        assert terminal.end() == 5


def test_keys_and_the_size_reach_the_command(sandbox):
    sleep = Sleep()
    script = (f"trap 'echo interrupted' INT; echo ready; {sleep.words}; "
              "until [ \"$(stty size)\" = '33 99' ]; do sleep 0.05; done; echo resized; read x")
    with sandbox.terminal("exec", "--tty", "--", "bash", "-c", script) as terminal:
        terminal.expect("ready")
        sleep.wait(1)
        terminal.send("\x03")
        terminal.expect("interrupted")
        fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
        terminal.expect("resized")
        assert not termios.tcgetattr(terminal.master)[3] & termios.ICANON
        terminal.process.terminate()
        assert terminal.end() == 130
        assert termios.tcgetattr(terminal.master)[3] & termios.ICANON  # as it was before
    sleep.wait(0)


def test_a_terminal_fed_by_a_pipe(sandbox):
    done = sandbox("exec", "--tty", "--", "sh", "-c", "read x; echo got $x; cat", input=b"words\nmore\n", text=False)
    assert done.returncode == 0 and b"got words\r\n" in done.stdout and done.stdout.count(b"more") == 2, done.stdout


# ---- signals ----

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(sandbox, number):
    sleep = Sleep()
    with sandbox.start("exec", "--", "sh", "-c", f"{sleep.words} & {sleep.words}") as process:
        sleep.wait(2)
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE) == 130
    sleep.wait(0)


def test_a_command_that_ignores_the_end_is_killed(sandbox):
    sleep = Sleep()
    with sandbox.start("exec", "--", "sh", "-c", f"trap '' TERM INT HUP; {sleep.words}; {sleep.words}") as process:
        sleep.wait(1)
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 130
    sleep.wait(0)


def test_the_second_signal_leaves_at_once(sandbox):
    sleep = Sleep()
    with sandbox.start("exec", "--", "sh", "-c", f"trap '' TERM INT HUP; {sleep.words}") as process:
        sleep.wait(1)
        process.terminate()
        assert process.stderr.readline() == b"\n" and b"once more" in process.stderr.readline()
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 130
    sleep.wait(0)


def test_ended_by_kill_it_leaves_nothing(sandbox):
    sleep = Sleep()
    with sandbox.start("exec", "--", "sh", "-c", f"setsid {sleep.words} & {sleep.words}") as process:
        sleep.wait(2)
        process.kill()
    sleep.wait(0)


def test_an_ignored_signal_stays_ignored(sandbox):
    """As under nohup, or in a script's background."""
    sleep = Sleep()
    command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *sandbox.command("exec", "--", "sh", "-c", f"{sleep.words}")]
    with subprocess.Popen(command, env=sandbox.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        sleep.wait(1)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert b"stopping" in process.stderr.read()
        assert process.wait(timeout=PATIENCE) == 130
    sleep.wait(0)

"""`waldo exec` in a container: on a terminal, and what is said when the container or its engine is gone."""
import fcntl
import os
import signal
import struct
import termios

import pytest

from dockerd import IMAGE
from program import Sleep, call


@pytest.fixture
def contained(waldo, engine):
    waldo.args = ("-s", f"docker:{IMAGE}")
    waldo.env["DOCKER_HOST"] = engine.url
    yield waldo
    assert engine.wait(lambda: not engine.containers())


def resize(terminal, rows, columns):
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@pytest.mark.parametrize("options", ["", ",lease=600"])
def test_a_terminal(contained, options):
    """Echo, control-C, a new size and the exit code, as on a terminal of one's own."""
    contained.args = ("-s", contained.args[1] + options)
    script = ("trap 'echo interrupted' INT; echo ready $TERM; read x; echo got $x; "
              "until [ \"$(stty size)\" = '33 99' ]; do sleep 0.05; done; echo resized; exit 9")
    with contained.terminal("exec", "-it", "--", "sh", "-c", script, env={"TERM": "xterm-256color"}) as terminal:
        terminal.expect("ready xterm-256color\r\n")
        terminal.send("words\r")
        terminal.expect("words\r\ngot words\r\n")
        terminal.send("\x03")
        terminal.expect("^Cinterrupted\r\n")
        resize(terminal, 33, 99)
        terminal.expect("resized\r\n")
        assert terminal.end() == 9


def test_a_shell_ends_with_its_input(contained):
    with contained.terminal("exec", "-it", "--", "sh") as terminal:
        terminal.expect("$ ")
        terminal.send("echo a$((1 + 1))\r")
        terminal.expect("a2\r\n")
        terminal.send("\x10\x11\x15")  # what would detach from `docker attach` means nothing here
        terminal.send("exit 4\r")
        assert terminal.end() == 4


def begin(contained, *words):
    process = contained.start("exec", *words, "--", "sh", "-c", "echo up; sleep 600")
    assert process.stdout.readline() == b"up\n"
    return process


def test_a_container_that_is_removed(contained, engine):
    process = begin(contained)
    container, = engine.containers()
    assert engine.ask("DELETE", f"/v1.41/containers/{container['Id']}?force=1&v=1")[0] == 204
    _, said = process.communicate(timeout=60)
    assert process.returncode == 125 and b"the container ended with exit code 137" in said, said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to stop the engine")
def test_an_engine_that_hangs(contained, engine):
    """The limit of the command holds all the same, and it is told who may be to blame."""
    if engine.process is None:
        pytest.skip("the engine is not ours")
    process = begin(contained, "--timeout", "1")
    engine.process.send_signal(signal.SIGSTOP)
    try:
        _, said = process.communicate(timeout=120)
    finally:
        engine.process.send_signal(signal.SIGCONT)
    assert process.returncode == 125 and b"its stream goes through" in said, said


def test_only_the_command_is_lost(contained):
    """It has killed what watches over it; the sandbox is whole."""
    done = contained("exec", "--", "sh", "-c", "kill -9 $PPID; sleep 600")
    assert done.returncode == 125 and "the command was lost" in done.stderr, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_its_tree(contained, number):
    sleep = Sleep()
    script = f"trap '' TERM INT; setsid {sleep.words} & {sleep.words}"
    with contained.start("exec", "--", "sh", "-c", script) as process:
        sleep.wait(2)
        process.send_signal(number)
        assert process.wait(timeout=60) == 130
    sleep.wait(0)


def test_an_interrupted_run_leaves_nothing(agent, chat, engine):
    sleep = Sleep()
    agent.args = (*agent.args[:-1], f"docker:{IMAGE}")
    chat.queue(call(cmd=f"setsid {sleep.words} & {sleep.words}"))
    with agent.terminal("run", "--approve", "never", "x", env={"DOCKER_HOST": engine.url}) as terminal:
        sleep.wait(2)
        terminal.send("\x03")
        assert terminal.end() == 130
    sleep.wait(0)
    assert engine.wait(lambda: not engine.containers())

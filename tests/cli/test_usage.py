"""Help, wrong use, defaults, the manual page and what shells complete."""
import os
import re
import shutil
import socket
import subprocess

import pytest
from program import BUILD, PROGRAM, ROOT, Terminal

COMMANDS = ("run", "chat", "exec", "cp", "ps", "gc", "doctor")
MANUAL = ROOT / "docs" / "man" / "waldo.1"
COMPLETIONS = BUILD / "examples" / "cli" / "completions"
OPTION = re.compile(r"^  (?:-(\w),|   ) --([a-z-]+)", re.M)


def program(*words, **more):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=120, **more)


def options(command):
    """(letter or "", long name) of each option in the help."""
    return OPTION.findall(program(command, "--help").stdout)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"], ["help", "run"], *[[c, "--help"] for c in COMMANDS]])
def test_help_goes_to_stdout(words):
    done = program(*words)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.startswith("Usage: waldo ")


def test_the_version_names_what_is_built_in():
    done = program("--version")
    assert done.returncode == 0 and re.match(r"waldo \d+\.\d+\.\d+\n", done.stdout)
    assert "backend.local" in done.stdout and "model.chat" in done.stdout


@pytest.mark.parametrize("words,says", [
    ([], "Usage: waldo "),
    (["walk"], 'no command "walk"'),
    (["help", "walk"], 'no command "walk"'),
    (["run", "--walk", "x"], "--walk"),
    (["run", "--model"], "requires an argument"),
    (["run"], "one PROMPT, not 0 words"),
    (["run", "two", "words"], "quote it"),
    (["run", ""], "the prompt is empty"),
    (["run", " \n"], "the prompt is empty"),
    (["run", "--mode", "rx", "x"], "copy|ro|rw"),
    (["run", "--approve", "yes", "x"], "ask|never|always"),
    (["run", "--max-turns", "1.5", "x"], "whole number"),
    (["run", "--max-turns", "0", "x"], "whole number"),
    (["run", "--temperature", "nan", "x"], "number from 0 to 2"),
    (["run", "--env", "=x", "x"], "NAME=VALUE"),
    (["run", "-w", "/no/such/folder", "x"], "No such file"),
    (["run", "-w", "/etc/passwd", "x"], "not a directory"),
    (["run", "--record", "r", "--each", "*", "x"], "--record is for one run"),
    (["run", "--patch", "p", "x"], "--patch needs -w"),
    (["run", "--patch", "p", "-w", ".", "--mode", "rw", "x"], "--mode copy"),
    (["run", "--patch", "/no/such/folder/p", "-w", ".", "x"], "No such file"),
    (["run", "--each", "*", "-w", ".", "x"], "--each"),
    (["run", "--jobs", "2", "x"], "--each"),
    (["run", "-m", "walk:x", "-s", "local:", "x"], "chat:"),
    (["run", "-m", "chat:http://127.0.0.1:1/v1#x", "-s", "walk:", "x"], "local"),
    (["run", "-m", "chat:http://127.0.0.1:1/v1#x", "-s", "local:,walk=1", "x"], "timeout"),
    (["run", "-m", "chat:http://127.0.0.1:1/v1#x", "-s", "local:", "--tool-choice", "walk", "x"], "walk"),
    (["run", "-m", "chat:http://192.0.2.1/v1#x", "-s", "local:", "x"], "ALLOW_PLAIN_HTTP"),
    (["run", "-m", "chat:http://127.0.0.1:1/v1", "-s", "local:", "x"], "#"),
    (["chat", "word"], "takes no words"),
    (["chat", "-m", "walk:x", "-s", "local:"], "chat:"),
    (["doctor", "word"], "takes no words"),
    (["ps", "word"], "takes no words"),
    (["cp"], "FROM and TO"),
    (["cp", "a", "b"], "one of FROM and TO"),
    (["cp", "@a:x", "@b:y"], "one of FROM and TO"),
    (["cp", "@a", "b"], "@NAME:PATH"),
    (["cp", "@a:", "b"], "@NAME:PATH"),
    (["cp", "-s", "local:", "@a:x", "b"], "given twice"),
    (["cp", "-s", "walk:", ":x", "b"], "local:"),
    (["cp", "@a b:x", "y"], "behind the @"),
    (["gc", "--json"], "--json"),
    (["completion", "walk"], "bash"),
])
def test_wrong_use_says_what_is_right(waldo, words, says):
    done = program(*words, env=waldo.env, cwd=waldo.home, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert says in done.stderr


@pytest.mark.parametrize("words,says", [
    (["exec"], "needs a COMMAND"), (["exec", "--walk", "true"], "--walk"),
    (["exec", "--timeout", "x", "true"], "number"),
    (["exec", "-s", "walk:", "true"], "local"), (["exec", "-w", "/no/such/folder", "true"], "No such file")])
def test_exec_keeps_the_codes_of_its_command_free(waldo, words, says):
    done = program(*words, env=waldo.env, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (125, "") and says in done.stderr


def test_an_error_that_quotes_its_input_cannot_drive_the_terminal(waldo):
    done = program("run", "-w", "/no\033[2Jsuch", "x", env=waldo.env)
    assert done.returncode == 2 and "\033" not in done.stderr and "^[[2J" in done.stderr


def test_output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "No space left" in done.stderr


def chosen(waldo, **env):
    """What is said of the model when it was not given; an unknown sandbox ends it before any request."""
    done = waldo("run", "-s", "walk:", "x", env=env)
    assert done.returncode == 2, done.stderr
    return done.stderr.splitlines()[0]


def test_the_model_is_chosen_and_the_reason_told(waldo):
    config = waldo.home / "config" / "waldo"
    config.mkdir(parents=True)
    key = {"OPENAI_API_KEY": "sk-0123456789"}
    assert chosen(waldo, **key) == "model openai:gpt-5.4-mini (OPENAI_API_KEY is set)"
    other = {"ANTHROPIC_API_KEY": "sk-ant-0123456789"}
    assert chosen(waldo, **other) == "model anthropic:claude-sonnet-5-5 (ANTHROPIC_API_KEY is set)"
    assert chosen(waldo, **key, **other) == "model openai:gpt-5.4-mini (OPENAI_API_KEY is set)"
    (config / "config").write_text('# mine\n model = "chat:http://127.0.0.1:1/v1#a"\nsandbox = local:\n')
    assert chosen(waldo, **key) == "model chat:http://127.0.0.1:1/v1#a (configuration file)"
    key["WALDO_MODEL"] = "chat:http://127.0.0.1:1/v1#b"
    assert chosen(waldo, **key) == "model chat:http://127.0.0.1:1/v1#b (WALDO_MODEL)"


def test_the_sandbox_is_chosen_and_the_reason_told(waldo):
    def said(**env):
        return waldo("run", "-m", "walk:", "x", env=env).stderr.splitlines()[0]

    assert said(DOCKER_HOST="unix:///no/engine.sock") == (
        "sandbox local: (bubblewrap on this machine, without network; no Docker engine can be used)")
    (waldo.home / "config" / "waldo").mkdir(parents=True)
    (waldo.home / "config" / "waldo" / "config").write_text("sandbox = local:,timeout=9\n")
    assert said() == "sandbox local:,timeout=9 (configuration file)"
    assert said(WALDO_SANDBOX="local:,timeout=8") == "sandbox local:,timeout=8 (WALDO_SANDBOX)"


def test_without_any_model_it_says_what_to_do(waldo):
    for port in (8080, 11434, 8000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"something answers on port {port}")
    done = waldo("run", "x")
    assert done.returncode == 5 and "-m" in done.stderr and "OPENAI_API_KEY" in done.stderr


# ---- the manual page ----

def test_the_manual_has_every_option_and_no_other():
    text = MANUAL.read_text()
    said = {(letter or "", name) for letter, name in
            re.findall(r"^\.It (?:Fl (\w) , )?Fl -([a-z-]+)", text, re.M)}
    assert said == {option for command in COMMANDS for option in options(command)}
    for block in text.split("\n.It ")[1:]:
        found = re.match(r"(?:Fl \w , )?Fl -([a-z-]+)[^\n]*\n\.Pq Cm ([a-z ,]+)\n", block)
        if found:
            takers = set(found[2].split(" , "))
            assert takers == {command for command in COMMANDS if found[1] in dict(map(reversed, options(command)))}


def test_the_manual_is_clean():
    done = subprocess.run(["mandoc", "-Tlint", MANUAL], capture_output=True, text=True)
    assert done.stdout == "" and done.returncode == 0


# ---- completions ----

def bash(*words):
    """What bash offers for the last of the words."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _waldo; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", COMPLETIONS / "waldo", "waldo", *words],
                          capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes():
    assert set(COMMANDS) <= bash("")
    for command in COMMANDS:
        assert bash(command, "--") == {f"--{name}" for _, name in options(command)}
    assert bash("run", "--mode", "") == {"copy", "ro", "rw"}
    assert bash("run", "--mode", "r") == {"ro", "rw"} == bash("run", "--mode", "=", "r")
    assert bash("run", "--tool-choice", "") == {"auto", "required", "none"}
    assert "local:" in bash("exec", "-s", "")
    assert {"docs", "src"} <= bash("run", "-w", "") and "meson.build" not in bash("run", "-w", "")
    assert "meson.build" in bash("exec", "--", "meson.b")
    assert bash("help", "d") == {"doctor"}


def fish(home, line):
    done = subprocess.run(["fish", "--no-config", "-c", f"source {COMPLETIONS}/waldo.fish; complete -C '{line}'"],
                          capture_output=True, text=True, check=True, cwd=ROOT,
                          env={"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"})
    return {row.split("\t")[0] for row in done.stdout.splitlines()}


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes(tmp_path):
    assert set(COMMANDS) <= fish(tmp_path, "waldo ")
    for command in COMMANDS:
        assert fish(tmp_path, f"waldo {command} --") == {f"--{name}" for _, name in options(command)}
    assert fish(tmp_path, "waldo run --mode r") == {"ro", "rw"}
    assert "local:" in fish(tmp_path, "waldo exec -s ")
    assert "docs/" in fish(tmp_path, "waldo run -w d")


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh_completes(tmp_path):
    setup = (f"fpath=({COMPLETIONS} $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump; "
             "setopt no_beep list_ambiguous; unsetopt menu_complete auto_menu; PS1='ready> '\n")
    env = {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8",
           "TERM": "xterm"}
    with Terminal(["zsh", "-f", "-i"], env=env, cwd=ROOT) as shell:
        shell.send(setup)
        for typed, offered in (("waldo do", "doctor"), ("waldo run --tempe", "--temperature"),
                               ("waldo exec --time", "--timeout"), ("waldo run --mode c", "copy"),
                               ("waldo exec -s loc", "local:"), ("waldo run --approve al", "always")):
            shell.expect("ready> ")
            shell.send(typed + "\t")
            shell.expect(offered)
            shell.send("\x15\n")


def test_completions_and_the_manual_are_installed(tmp_path):
    if not (BUILD / "build.ninja").exists():
        pytest.skip("not a build folder of meson")
    plan = subprocess.run(["meson", "introspect", "--install-plan", BUILD], capture_output=True, text=True, check=True)
    for place in ("bash-completion/completions/waldo", "zsh/site-functions/_waldo",
                  "fish/vendor_completions.d/waldo.fish", "man1/waldo.1"):
        assert place in plan.stdout


def test_no_command_is_forgotten():
    listed = re.findall(r"^  (\w+) ", program("--help").stdout, re.M)
    assert tuple(listed) == COMMANDS

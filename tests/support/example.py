"""The example programs, compiled as a user would do it, with other strings in them."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", ROOT / "build"))
MODEL = '"openai:gpt-5.1"'
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]


def sanitizers():
    linked = subprocess.run(["ldd", BUILD / "libwaldo.so"], capture_output=True, text=True, check=True).stdout
    return ["-fsanitize=address,undefined"] if "asan" in linked else []


def build(tmp_path, name, *replace):
    """Compile an example, with some of its strings replaced, and link it with the library."""
    source = (ROOT / "examples" / f"{name}.c").read_text()
    for old, new in replace:
        assert old in source
        source = source.replace(old, new)
    (tmp_path / f"{name}.c").write_text(source)
    program = tmp_path / name
    subprocess.run(["gcc", "-std=c11", *STRICT, *sanitizers(), "-I", ROOT / "include", tmp_path / f"{name}.c",
                    "-o", program, "-L", BUILD, "-L", BUILD / "src/testing", "-lwaldo_testing", "-lwaldo",
                    f"-Wl,-rpath,{BUILD / 'src/testing'}", f"-Wl,-rpath,{BUILD}"], check=True)
    return program


def run(program, cwd, *words, code=0, **env):
    done = subprocess.run([program, *words], cwd=cwd, capture_output=True, text=True, timeout=180,
                          env={**os.environ, **env})
    assert done.returncode == code, done.stdout + done.stderr
    return done


def call(tool, **arguments):
    return {"id": "c1", "name": tool, "arguments": json.dumps(arguments)}


def model(chat, name="scripted"):
    return MODEL, f'"chat:{chat.url}#{name}"'

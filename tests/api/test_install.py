"""What `meson install` puts where, and that a program finds it with pkg-config alone."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", ROOT / "build"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    root = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", root], check=True)
    return root


def pkg_config(root, *args, package="waldo"):
    found = next(root.rglob("waldo.pc")).parent
    env = {**os.environ, "PKG_CONFIG_PATH": str(found), "PKG_CONFIG_SYSROOT_DIR": str(root)}
    done = subprocess.run(["pkg-config", *args, package], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_everything_is_there(installed):
    names = {path.name for path in installed.rglob("*") if path.is_file() or path.is_symlink()}
    assert {"libwaldo.so", "libwaldo.so.0", "libwaldo.a", "waldo.pc", "waldo", "waldo.1"} <= names
    for header in (ROOT / "include" / "waldo").rglob("*.h"):
        assert list(installed.rglob(str(header.relative_to(ROOT / "include")))), header
    # Nothing of ours that a user has no use for.
    tests = {path.name for path in installed.rglob("*test*")}
    assert tests == {"testing.h", "waldo_testing.pc", "libwaldo_testing.a", "libwaldo_testing.so",
                     "libwaldo_testing.so.0", f"libwaldo_testing.so.{pkg_config(installed, '--modversion')[0]}"}
    assert not list(installed.rglob("example-*"))


def test_a_program_builds_with_pkg_config(installed, tmp_path):
    source = tmp_path / "program.c"
    source.write_text('#include <stdio.h>\n#include <waldo/waldo.h>\n'
                      'int main(void)\n{\n    printf("%s %s\\n", waldo_version(), WALDO_VERSION_STRING);\n'
                      '    return 0;\n}\n')
    program = tmp_path / "program"
    flags = pkg_config(installed, "--cflags", "--libs")
    linked = subprocess.run(["ldd", BUILD / "libwaldo.so"], capture_output=True, text=True, check=True).stdout
    sanitize = ["-fsanitize=address,undefined"] if "asan" in linked else []
    subprocess.run(["gcc", *sanitize, source, "-o", program, *flags], check=True)
    library = str(next(installed.rglob("libwaldo.so")).parent)
    said = subprocess.run([program], env={**os.environ, "LD_LIBRARY_PATH": library}, capture_output=True, text=True,
                          check=True).stdout.split()
    assert said[0] == said[1] == pkg_config(installed, "--modversion")[0]


def test_a_test_links_statically(installed, tmp_path):
    """Both archives hold the machines in memory."""
    linked = subprocess.run(["ldd", BUILD / "libwaldo.so"], capture_output=True, text=True, check=True).stdout
    sanitize = ["-fsanitize=address,undefined"] if "asan" in linked else []
    archives = [next(installed.rglob(name)) for name in ("libwaldo_testing.a", "libwaldo.a")]
    flags = [*pkg_config(installed, "--cflags"), *archives, "-lcurl", "-lcjson", "-lsodium", "-lm", "-pthread"]
    subprocess.run(["gcc", *sanitize, ROOT / "examples/own_test.c", "-o", tmp_path / "own_test", *flags], check=True)
    done = subprocess.run([tmp_path / "own_test"], capture_output=True, text=True, check=True)
    assert done.stdout == "Test 3 fails: it divides by zero.\n"
    libraries = subprocess.run(["ldd", tmp_path / "own_test"], capture_output=True, text=True, check=True).stdout
    assert "libwaldo" not in libraries


def test_a_test_builds_with_pkg_config(installed, tmp_path):
    linked = subprocess.run(["ldd", BUILD / "libwaldo.so"], capture_output=True, text=True, check=True).stdout
    sanitize = ["-fsanitize=address,undefined"] if "asan" in linked else []
    flags = pkg_config(installed, "--cflags", "--libs", package="waldo_testing")
    subprocess.run(["gcc", *sanitize, ROOT / "examples/own_test.c", "-o", tmp_path / "own_test", *flags], check=True)
    library = str(next(installed.rglob("libwaldo.so")).parent)
    done = subprocess.run([tmp_path / "own_test"], env={**os.environ, "LD_LIBRARY_PATH": library},
                          capture_output=True, text=True, check=True)
    assert done.stdout == "Test 3 fails: it divides by zero.\n"


def test_pkg_config_tells_the_backends(installed):
    assert pkg_config(installed, "--variable=backends")[0].split(",")[:1] == ["local"]

"""Archives of other programs: GNU tar and Python's tarfile in each format; what they hold is what is read."""
import io
import os
import pathlib
import subprocess
import tarfile

import pytest

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
TOOL = BUILD / "tests" / "contract" / "tar-tool"
FILE, HARD, LINK, FOLDER, OTHER = map(str, range(5))


def read(archive):
    """{name: (type, mode, size, mtime, link, sum)}"""
    done = subprocess.run([TOOL], input=archive, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows = {}
    for line in done.stdout.decode().splitlines():
        kind, mode, size, mtime, name, link, *checksum = line.split(" ")
        rows[bytes.fromhex(name)] = (kind, int(mode, 8), int(size), int(mtime), bytes.fromhex(link), int(checksum[0]))
    return rows


def checksum(data):
    value = 0
    for byte in data:
        value = (value * 31 + byte) % 2**32
    return value


def tree(folder):
    """A tree with everything that is awkward; its entries as they should be read."""
    names = [b"plain", b"a b\nc", b"\xff\xfe", b"n" * 200, "ü".encode() * 60, b"sub/" + b"deep/" * 40 + b"leaf"]
    for number, name in enumerate(names):
        path = os.path.join(os.fsencode(folder), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(name * number * 100)
        os.chmod(path, [0o644, 0o755, 0o600, 0o444, 0o4755, 0o640][number])
    os.mkdir(folder / "empty", 0o700)
    os.symlink("plain", folder / "link")
    os.symlink("t" * 300, folder / "long-link")
    os.symlink("/etc/passwd", folder / "outside")
    os.mkfifo(folder / "pipe")
    wanted = {}
    for parent, folders, files in os.walk(os.fsencode(folder)):
        for name in folders + files:
            path = os.path.join(parent, name)
            os.utime(path, (1600000000, 1600000000 + len(wanted)), follow_symlinks=False)
            info = os.lstat(path)
            link = os.readlink(path) if os.path.islink(path) else b""
            data = b""
            if os.path.isfile(path) and not link:
                with open(path, "rb") as source:
                    data = source.read()
            kind = LINK if link else FOLDER if os.path.isdir(path) else OTHER if name == b"pipe" else FILE
            wanted[os.path.relpath(path, os.fsencode(folder))] = (
                kind, info.st_mode & 0o7777, len(data), int(info.st_mtime), link, checksum(data))
    for path in wanted:  # making what is below touched the folders
        os.utime(os.path.join(os.fsencode(folder), path), (0, wanted[path][3]), follow_symlinks=False)
    return wanted


def same(found, wanted):
    found = {os.path.normpath(name): row for name, row in found.items() if os.path.normpath(name) != b"."}
    assert found.keys() == wanted.keys()
    for name, row in wanted.items():
        assert found[name] == row, name


@pytest.mark.parametrize("kind", ["gnu", "posix", "oldgnu"])
def test_gnu_tar(tmp_path, kind):
    wanted = tree(tmp_path)
    made = subprocess.run(["tar", f"--format={kind}", "-C", tmp_path, "-c", "."], capture_output=True, check=True)
    same(read(made.stdout), wanted)


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_pythons_tarfile(tmp_path, kind):
    wanted = tree(tmp_path)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind, errors="surrogateescape", encoding="utf-8") as archive:
        archive.add(tmp_path, ".")
    same(read(out.getvalue()), wanted)


def test_ustar_splits_names(tmp_path):
    name = "/".join(["folder" * 5] * 7)
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("x")
    made = subprocess.run(["tar", "--format=ustar", "-C", tmp_path, "-c", name], capture_output=True, check=True)
    assert list(read(made.stdout)) == [name.encode()]


def test_hard_links(tmp_path):
    (tmp_path / "a").write_text("x")
    os.link(tmp_path / "a", tmp_path / "b")
    made = subprocess.run(["tar", "-C", tmp_path, "-c", "a", "b"], capture_output=True, check=True)
    found = read(made.stdout)
    assert found[b"b"][0] == HARD and found[b"b"][4] == b"a" and found[b"b"][2] == 0


@pytest.mark.parametrize("kind", ["gnu", "posix"])
def test_sparse_files_are_refused(tmp_path, kind):
    with open(tmp_path / "holes", "wb") as out:
        out.truncate(1 << 22)
        out.seek(1 << 21)
        out.write(b"x")
    made = subprocess.run(["tar", f"--format={kind}", "-S", "-C", tmp_path, "-c", "holes"], capture_output=True,
                          check=True)
    done = subprocess.run([TOOL], input=made.stdout, capture_output=True, timeout=60)
    assert done.returncode == 1 and done.stderr == b"WALDO_ENOTSUP"

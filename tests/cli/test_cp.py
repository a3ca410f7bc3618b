"""`waldo cp` with a local sandbox whose workspace is a copy of a folder; on kept machines: docker/test_copies.py."""
import io
import os
import subprocess
import tarfile

import pytest


@pytest.fixture
def cp(waldo):
    waldo.work = waldo.home / "work"
    waldo.work.mkdir()
    waldo.args = ("-s", "local:", "-w", str(waldo.work))
    return waldo


def fill(folder):
    (folder / "sub" / "empty").mkdir(parents=True)
    (folder / "sub" / "tool").write_text("#!/bin/sh\n")
    (folder / "sub" / "tool").chmod(0o755)
    (folder / "sub" / "data\nline").write_bytes(bytes(range(256)) * 1000)
    (folder / "sub" / "link").symlink_to("tool")


def look(folder):
    return sorted((str(path.relative_to(folder)), path.lstat().st_mode & 0o777 if not path.is_symlink() else 0,
                   os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b"")
                  for path in folder.rglob("*"))


def test_a_folder_out(cp):
    fill(cp.work)
    to = cp.home / "to"
    done = cp("cp", ":sub", str(to))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert look(to) == look(cp.work / "sub")
    to.joinpath("mine").write_text("kept")
    assert cp("cp", ":sub", str(to)).returncode == 0  # into the folder, now that it is there
    assert look(to / "sub") == look(cp.work / "sub") and (to / "mine").read_text() == "kept"
    all_of_it = cp.home / "all"
    all_of_it.mkdir()
    assert cp("cp", ":.", str(all_of_it)).returncode == 0
    assert look(all_of_it) == look(cp.work)


def test_a_file_out(cp):
    fill(cp.work)
    to = cp.home / "to"
    assert cp("cp", ":sub/tool", str(to)).returncode == 0
    assert to.read_text() == "#!/bin/sh\n" and to.stat().st_mode & 0o777 == 0o755
    (cp.home / "folder").mkdir()
    assert cp("cp", ":/workspace/sub/tool", str(cp.home / "folder")).returncode == 0
    assert (cp.home / "folder" / "tool").is_file()
    assert cp("cp", ":sub/tool", "-").stdout == "#!/bin/sh\n"
    done = cp("cp", ":sub/data\nline", "-", text=False)
    assert done.stdout == bytes(range(256)) * 1000
    assert cp("cp", ":/bin/sh", "-", text=False).stdout[:4] == b"\x7fELF"


def test_a_folder_to_standard_output(cp):
    fill(cp.work)
    with tarfile.open(fileobj=io.BytesIO(cp("cp", ":sub", "-", text=False).stdout)) as archive:
        assert sorted(archive.getnames()) == ["data\nline", "empty", "link", "tool"]


@pytest.mark.parametrize("words,says", [
    ((":missing", "to"), "missing"),
    ((":../up", "to"), "leaves the workspace"),
    ((":sub", "to/no/such"), "No such file"),
    (("no-such-file", ":x"), "no such file"),
    (("/dev/null", ":x"), "neither file nor folder"),
])
def test_what_cannot_be(cp, words, says):
    fill(cp.work)
    done = cp("cp", *words, cwd=cp.home)
    assert done.returncode == (2 if "up" in words[0] else 1) and says.lower() in done.stderr.lower()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../up", "sub/../../../up", "a/../.."])
def test_links_that_lead_out_are_refused(cp, target):
    """Nothing is made then; links that stay inside are links."""
    fill(cp.work)
    (cp.work / "sub" / "evil").symlink_to(target)
    done = cp("cp", ":sub", str(cp.home / "to"))
    assert done.returncode == 1 and "evil: the link leads out" in done.stderr and not (cp.home / "to").exists()


def test_nothing_is_written_through_links_of_the_host(cp):
    fill(cp.work)
    outside = cp.home / "outside"
    outside.mkdir()
    (outside / "tool").write_text("mine")
    to = cp.home / "to"
    to.mkdir()
    (to / "sub").symlink_to(outside)
    assert cp("cp", ":.", str(to)).returncode == 1
    assert (outside / "tool").read_text() == "mine" and sorted(os.listdir(outside)) == ["tool"]
    (to / "sub").unlink()
    (to / "sub").mkdir()
    (to / "sub" / "tool").symlink_to(outside / "tool")
    assert cp("cp", ":.", str(to)).returncode == 0
    assert (outside / "tool").read_text() == "mine" and not (to / "sub" / "tool").is_symlink()


@pytest.mark.parametrize("what", ["tool", "link"])
def test_what_is_no_file_is_not_replaced(cp, what):
    """A pipe here, as /dev/stdout, /dev/null or a socket might be: what it is for would be gone."""
    fill(cp.work)
    to = cp.home / "to"
    os.mkfifo(to)
    done = cp("cp", f":sub/{what}", str(to))
    assert done.returncode == 1 and "to: is neither file, folder nor link" in done.stderr and to.is_fifo()
    assert sorted(os.listdir(cp.home)) == ["to", "work"]
    folder = cp.home / "folder"
    (folder / "sub").mkdir(parents=True)
    os.mkfifo(folder / "sub" / what)
    done = cp("cp", ":sub", str(folder))
    assert done.returncode == 1 and "neither file" in done.stderr and (folder / "sub" / what).is_fifo()


def test_a_pipe_of_the_sandbox_is_no_file(cp):
    fill(cp.work)
    done = cp("cp", ":/dev/null", str(cp.home / "to"))
    assert done.returncode == 1 and "no file, folder or link" in done.stderr and not (cp.home / "to").exists()


def test_into_a_sandbox(cp):
    """It ends with the command, so only that it works is seen here."""
    fill(cp.work)
    assert cp("cp", str(cp.work / "sub"), ":new").returncode == 0
    assert cp("cp", str(cp.work / "sub" / "tool"), ":sub").returncode == 0
    assert cp("cp", "-", ":deep/file", input="text").returncode == 0
    assert cp("cp", str(cp.work / "sub" / "tool"), ":/workspace/tool").returncode == 0
    assert cp("cp", str(cp.work / "sub"), ":sub/tool").returncode == 1


def test_standard_output_that_is_closed(cp):
    (cp.work / "big").write_bytes(b"x" * 20_000_000)
    process = cp.start("cp", ":big", "-")
    assert process.stdout.read(10) == b"x" * 10
    process.stdout.close()
    assert process.wait(timeout=120) == 1 and process.stderr.read() == b""
    process.stderr.close()


def test_tar_reads_what_comes(cp):
    fill(cp.work)
    archive = cp("cp", ":.", "-", text=False).stdout
    to = cp.home / "to"
    to.mkdir()
    subprocess.run(["tar", "-x", "-C", to], input=archive, check=True)
    assert look(to) == look(cp.work)

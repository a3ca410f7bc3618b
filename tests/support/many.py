"""Ten thousand commands in one sandbox: what the host's process and the hand hold before and after."""
import os
import pathlib
import re
import subprocess
import time

from patience import PATIENCE

BUILD = pathlib.Path(os.environ.get("WALDO_BUILD", pathlib.Path(__file__).parents[2] / "build"))
TOOL = BUILD / "tests" / "contract" / "many-tool"
COUNT = 10000

# An allocator with a quarantine keeps what was freed.
SANITIZER = "quarantine_size_mb=1:thread_local_quarantine_size_kb=64:malloc_context_size=0"


def status(pid, name):
    """A number of /proc/PID/status."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1])


def descriptors(pid):
    """How many it has; another user's are for root to count."""
    sudo = [] if os.access(f"/proc/{pid}/fd", os.R_OK) else ["sudo", "-n"]
    return len(subprocess.run([*sudo, "ls", f"/proc/{pid}/fd"], capture_output=True, check=True, text=True)
               .stdout.split())


def hold(pids):
    return {pid: (status(pid, "VmRSS"), descriptors(pid)) for pid in pids}


def children(pid):
    text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in text.stdout.split()]


def descendants(pid):
    found = children(pid)
    for each in found:
        found += children(each)
    return found


def settled(hands, pid):
    """Those that stay: what started the last command may not have gone yet."""
    found, since, late = hands(pid), time.monotonic(), time.monotonic() + PATIENCE
    while time.monotonic() < min(late, since + 1):
        time.sleep(0.05)
        now = hands(pid)
        found, since = now, since if now == found else time.monotonic()
    return found


def check(sandbox, hands, env):
    """hands(pid of the tool): the processes of ours beside it."""
    options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), SANITIZER]))
    process = subprocess.Popen([TOOL, sandbox, str(COUNT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={**env, "ASAN_OPTIONS": options})
    try:
        assert process.stdout.readline() == "warm\n", process.communicate()[1]
        ours = settled(hands, process.pid)
        assert ours
        host, inside = hold([process.pid]), hold(ours)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "done\n", process.communicate()[1]
        assert sorted(settled(hands, process.pid)) == sorted(ours)
        host_after, inside_after = hold([process.pid]), hold(ours)
        _, said = process.communicate("\n", timeout=PATIENCE)
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.wait()
    # 9 000 commands later: not 512 bytes each on the host, not 16 in the hand, and no descriptor at all
    for before, after, more_kib in ((host, host_after, 4096), (inside, inside_after, 128)):
        for pid in before:
            assert after[pid][1] <= before[pid][1], (before, after)
            assert after[pid][0] <= before[pid][0] + more_kib, (before, after)

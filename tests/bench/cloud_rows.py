"""The rows about cloud providers, each by its stand-in on loopback: whom to measure, and what the figures are held to.

A provider is a module like cloud_e2b.py and an entry in PROVIDERS.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

import cloud_e2b
from node import peers_can_run

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
PROVIDERS = (cloud_e2b,)
# mode of bench_cloud_latency: name of its size
MODES = {"exec": "cloud_execs", "many": "cloud_many", "open": "cloud_opens"}
# What the hand answers a command with: the frames STARTED and EXIT in one write, see docs/hand-protocol.md
ANSWER = 9 + 4 + 9 + 96
MANY = 16


def peers(provider):
    """NAME PROGRAM SCRIPT of those that run here."""
    return [word for name, (package, script, _) in provider.PEERS.items()
            if peers_can_run() and (HERE / "node_modules" / package).is_dir()
            for word in (name, "node", str(HERE / "peers" / script))]


def packages():
    return json.loads((HERE / "package.json").read_text())["dependencies"]


class Cloud:
    """The stand-in of a provider, while its rows are measured."""

    def __init__(self, provider, processors):
        import standin
        self.provider = provider
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, processors)  # its machines have them from it
        try:
            self.standin = standin.Standin(provider.STANDIN)
        finally:
            os.sched_setaffinity(0, before)
        self.url = f"http://127.0.0.1:{self.standin.port}"
        self.folder = tempfile.mkdtemp(prefix="waldo-bench-")

    def close(self):
        self.standin.stop()
        shutil.rmtree(self.folder)

    def measure(self, run, program, sizes):
        """{mode: figures}; bodies are kept only until those of waldo have been seen."""
        figures = {}
        os.environ.update(self.provider.environment(self.url))
        start = [str(program), "probe", "1", self.provider.SANDBOX, f"{self.url}/_requests/count", self.folder]
        run(start)
        sent = [request["body"] for request in self.standin.requests()
                if f"{request['method']} {request['path']}" == self.provider.INPUT]
        self.standin.control(record=False)
        for mode, size in MODES.items():
            plan = self.provider.plan(self.url, len(self.provider.input_of(sent[-1])), ANSWER)
            for name, text in plan.items():
                (pathlib.Path(self.folder) / name).write_bytes(text)
            figures[mode] = run([*start[:1], mode, str(sizes[size]), *start[3:], *peers(self.provider)])
        figures["bytes"] = {"waldo": len(sent[-1]), "libcurl": len(plan["1.body"])}
        return figures


def measure(provider, run, program, sizes, processors):
    """{scenario: figures} of one round."""
    cloud = Cloud(provider, processors)
    try:
        figures = cloud.measure(run, program, sizes)
    finally:
        cloud.close()
    return {f"{provider.STANDIN} {mode}": row for mode, row in figures.items()}


def missing(provider, program):
    """{what: reason} of what cannot be measured."""
    try:
        import standin  # noqa: F401
    except ImportError as failure:
        return {provider.NAME: str(failure)}
    if not program.exists():
        return {provider.NAME: "bench_cloud_latency is not built"}
    if os.geteuid() != 0:
        return {provider.NAME: "only root can give machines the users that the hand needs"}
    return {name: "Node 20, or its package, is missing; run.sh installs packages"
            for name in provider.PEERS if name not in peers(provider)}


def rows(table, provider):
    """What against what, and the largest ratio allowed."""
    name = provider.NAME
    own = [(peer, f"{label} {packages()[package]}") for peer, (package, _, label) in provider.PEERS.items()]

    def add(mode, what, kind, *others):
        key = (f"{provider.STANDIN} {mode}", "all")
        unit = "requests" if kind == "_requests" else "us"
        for theirs, label, budget in others:
            table.add(what, (*key, "waldo" + kind), (*key, theirs + kind), label, unit, budget)

    for mode, what in (("exec", f"`true` on a live {name} sandbox"),
                       ("many", f"{MANY} of them at once in one sandbox")):
        more = [(peer, label, None) for peer, label in own]
        add(mode, f"CPU of {what}", "_cpu", ("libcurl", "bare libcurl, the same requests", 2.0), *more)
        add(mode, f"requests of {what}", "_requests", ("libcurl", "bare libcurl", 1.0), *more)
        add(mode, f"wall time of {what}", "", ("libcurl", "bare libcurl", None), *more)
    for kind, what in (("_requests", "requests"), ("", "wall time"), ("_cpu", "CPU")):
        add("open", f"{what} of a new {name} sandbox to its first result", kind,
            *((peer, label, None) for peer, label in own))

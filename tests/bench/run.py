#!/usr/bin/env python3
"""Measure waldo, bare libcurl, the Node peers, Docker and the cloud providers in one interleaved run; print one table.

    sh tests/bench/run.sh                 builds a release first, takes some minutes
    sh tests/bench/run.sh --rounds 3      fewer repetitions
    sh tests/bench/run.sh --write         also puts the table into docs/performance.md
    python3 tests/bench/run.py --smoke --build DIR    tiny sizes, programs of an existing build

Every round runs every program of a comparison one after the other; a ratio is taken inside a round
and the median of the rounds is shown. So other load on the machine moves both sides.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import cloud_rows
import docker_rows
from node import peers_can_run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "performance.md"
MARKS = ("<!-- begin: written by tests/bench/run.py --write -->\n", "<!-- end -->\n")

# name: full size, smoke size
SIZES = {
    "rounds": (5, 1),
    "warm_runs": (300, 4),  # conversations of 10 turns
    "warm_runs_node": (30, 2),
    "cold_turns": (50, 4),
    "history_turns": (1000, 10),
    "held": (1000, 12),
    "idle": (2000, 20),
    "beside": (9000, 20),
    "active": (10000, 20),
    "starts": (20, 2),
    "execs": (100, 3),
    "docker_execs": (60, 2),
    "docker_many": (20, 1),
    "docker_files": (20, 1),
    "docker_opens": (8, 1),
    "docker_pool": (8, 1),
    "cloud_execs": (100, 2),
    "cloud_many": (30, 1),
    "cloud_opens": (8, 1),
}


# Besides Chat Completions, which the other rows speak: name of the option, name in the table.
OTHER_APIS = (("openai", "Responses"), ("anthropic", "Messages"))


class Failed(Exception):
    """A program of the bench did not do its work."""


def build(folder):
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", str(folder), "--buildtype=release", "-Db_sanitize=none"],
                       cwd=ROOT, check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-j2", "-C", str(folder), "bench"], check=True, stdout=sys.stderr)


def cpus():
    """The processor of the stand-in and those of the clients: neither disturbs the other."""
    usable = sorted(os.sched_getaffinity(0))
    return ({usable[-1]}, set(usable[:-1])) if len(usable) > 1 else (set(usable), set(usable))


class Standin:
    def __init__(self, program):
        self.process = subprocess.Popen([str(program)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        os.sched_setaffinity(self.process.pid, cpus()[0])
        line = self.process.stdout.readline().split()
        if len(line) != 2:
            raise Failed("the stand-in did not start")
        self.port = line[1]

    def stats(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}/stats", timeout=10) as answer:
            return json.load(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


class Bench:
    def __init__(self, folder, smoke, rounds):
        self.sizes = {name: pair[smoke] for name, pair in SIZES.items()}
        self.sizes["rounds"] = rounds or self.sizes["rounds"]
        self.folder = folder / "tests" / "bench"
        self.standin = Standin(self.folder / "bench_standin")
        self.rounds = []  # one {(scenario, program): figures} a round
        self.missing = {}
        self.commands = self.find_programs()
        self.docker = self.find_docker()
        self.providers = [provider for provider in cloud_rows.PROVIDERS if self.find_provider(provider)]

    def find_provider(self, provider):
        missing = cloud_rows.missing(provider, self.folder / "bench_cloud_latency")
        self.missing.update(missing)
        return provider.NAME not in missing

    def find_docker(self):
        """The engine, or None, with the reason among the missing."""
        docker = None
        if not (self.folder / "bench_docker_latency").exists():
            self.missing["Docker"] = "bench_docker_latency is not built"
        else:
            docker = docker_rows.Docker()
            if docker.missing:
                self.missing["Docker"] = docker.missing
                return None
            for name in ("dockerode", "docker_py"):
                if name not in docker_rows.peers():
                    self.missing[name] = "its packages are not installed; run.sh does that"
        return docker

    def close(self):
        self.standin.close()
        if self.docker:
            self.docker.close()

    def find_programs(self):
        commands = {"libcurl": [str(self.folder / "bench_bare_curl")]}
        if (self.folder / "bench_waldo_turns").exists():
            commands["waldo"] = [str(self.folder / "bench_waldo_turns")]
        else:
            self.missing["waldo"] = "bench_waldo_turns is not built"
        for name, script in (("agents", "agents.mjs"), ("ai", "ai.mjs")):
            if peers_can_run():
                commands[name] = ["node", str(HERE / "peers" / script)]
            else:
                self.missing[name] = "Node 20, or the packages of package-lock.json, are missing"
        return commands

    def run(self, command, pinned=True):
        """One process to its end: what it printed, with its CPU time and what the stand-in saw."""
        before = self.standin.stats()
        with tempfile.TemporaryFile("w+") as out:
            process = subprocess.Popen(command, stdout=out)
            if pinned:
                os.sched_setaffinity(process.pid, cpus()[1])
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            text = out.read()
        if process.returncode != 0:
            raise Failed(f"{' '.join(command)} ended with {process.returncode}: {text}")
        after = self.standin.stats()
        figures = json.loads(text)
        figures["process_cpu_us"] = (usage.ru_utime + usage.ru_stime) * 1e6
        figures["wire"] = {key: after[key] - before[key] for key in before}
        return figures

    def turns(self, name, **options):
        arguments = [part for key, value in options.items()
                     for part in (f"--{key}", str(value))]
        return self.run([*self.commands[name], "--port", self.standin.port, *arguments])

    # ---- the comparisons; each returns {program: figures} ----

    def warm(self, name, **options):
        node = name in ("agents", "ai")
        runs = self.sizes["warm_runs_node" if node else "warm_runs"]
        return self.turns(name, turns=10, runs=runs, warmup=max(1, runs // 10), **options)

    def one_round(self, number):
        """Everything once; who begins changes from round to round."""
        results = {}
        names = list(self.commands)
        names = names[number % len(names):] + names[:number % len(names)]
        native = [name for name in names if name in ("libcurl", "waldo")]
        for name in names:
            results["cold", name] = self.turns(name, turns=self.sizes["cold_turns"])
        for name in names:
            results["burst", name] = self.warm(name, concurrency=16)
        for name in names:
            results["paced", name] = self.warm(name, concurrency=64, model="bench-tools-paced")
        for name in native:
            results["history", name] = self.turns(name, mode="history",
                                                  turns=self.sizes["history_turns"])
        for api, _ in OTHER_APIS if "waldo" in self.commands else ():
            results["history", api] = self.turns("waldo", mode="history", api=api,
                                                 turns=self.sizes["history_turns"])
        for name in native:
            results["held", name] = self.turns(name, hold=self.sizes["held"], runs=1, turns=2)
        for name in native:
            results["beside", name] = self.warm(name, concurrency=16, hold=self.sizes["beside"])
        if "waldo" in self.commands:
            idle = self.sizes["idle"]
            results["idle", "waldo"] = self.turns("waldo", mode="idle", runs=idle,
                                                  warmup=max(1, idle // 10), turns=1,
                                                  model="bench-text", concurrency=16)
            for scenario, slice_us in (("stall", 0), ("slice", 5000)):
                results[scenario, "waldo"] = self.turns(
                    "waldo", mode="stall", model="bench-tools-paced", turns=2,
                    runs=self.sizes["active"], concurrency=self.sizes["active"],
                    **{"slice-us": slice_us})
        results["startup", "all"] = self.startup()
        if (self.folder / "bench_exec_latency").exists():
            results["exec", "all"] = self.run(
                [str(self.folder / "bench_exec_latency"), str(self.sizes["execs"])], pinned=False)
        if self.docker:
            figures = self.docker.measure(lambda command: self.run(command, pinned=False),
                                          self.folder / "bench_docker_latency", self.sizes)
            for mode, row in figures.items():
                results["docker " + mode, "all"] = row
        for provider in self.providers:
            figures = cloud_rows.measure(provider, self.run, self.folder / "bench_cloud_latency", self.sizes,
                                         cpus()[0])
            for scenario, row in figures.items():
                results[scenario, "all"] = row
        self.rounds.append(results)

    def startup(self):
        command = [str(self.folder / "bench_startup"), str(self.sizes["starts"])]
        starts = [("libcurl_init", "libcurl", "init"), ("libcurl_request", "libcurl", "request"),
                  ("waldo", "waldo", "request")]
        separator = []
        for label, name, mode in starts:
            if name in self.commands:
                command += [*separator, label, *self.commands[name], "--mode", mode,
                            "--port", "PORT"]
                separator = ["--"]
        return self.run(command, pinned=False)


class Table:
    """Rows of figures and ratios out of the rounds."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.rows = []

    def values(self, scenario, program, key):
        """One number a round, or None where it was not measured; key may name nested figures."""
        found = []
        for results in self.rounds:
            figure = results.get((scenario, program))
            for part in key.split("."):
                figure = figure.get(part) if isinstance(figure, dict) else None
            found.append(figure)
        return found

    def median(self, scenario, program, key):
        found = [value for value in self.values(scenario, program, key) if value is not None]
        return statistics.median(found) if found else None

    def ratio(self, ours, theirs):
        pairs = [(a, b) for a, b in zip(self.values(*ours), self.values(*theirs))
                 if a is not None and b]
        return statistics.median(a / b for a, b in pairs) if pairs else None

    def add(self, what, ours, theirs, label, unit, budget):
        """A row "ours against theirs"; budget is the largest ratio allowed, None without one."""
        ratio = self.ratio(ours, theirs)
        self.rows.append((what, show(self.median(*ours), unit),
                          f"{label} {show(self.median(*theirs), unit)}",
                          show_ratio(ratio),
                          "" if budget is None else f"≤ {show_ratio(budget)}",
                          verdict(ratio, budget)))

    def add_value(self, what, value, unit, note, budget, budget_text):
        self.rows.append((what, show(value, unit), note, "", budget_text, verdict(value, budget)))

    def markdown(self):
        head = ("what", "waldo", "against", "ratio", "budget", "met")
        rows = [head, tuple("---" for _ in head), *self.rows]
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def show(value, unit):
    if value is None:
        return "not measured"
    if unit == "us":
        return f"{value / 1000:.1f} ms" if value >= 10000 else f"{value:.0f} µs"
    return f"{value:.1f} {unit}"


def show_ratio(ratio):
    if ratio is None:
        return ""
    return f"1/{1 / ratio:.0f}" if 0 < ratio < 0.2 else f"{ratio:.2f} x"


def verdict(value, budget):
    if budget is None:
        return ""
    return "?" if value is None else "yes" if value <= budget else "**no**"


def cpu_rows(table):
    per_turn = "cpu_us_per_turn"
    for scenario, text in (("paced", "64 runs, one event at a time"),
                           ("burst", "16 runs, each answer in one write")):
        table.add(f"CPU per turn, warm, {text}", (scenario, "waldo", per_turn),
                  (scenario, "libcurl", per_turn), "bare libcurl", "us", 1.6)
        for name, label in (("agents", "`@openai/agents`"), ("ai", "`ai`")):
            table.add(f"the same, {label}", (scenario, "waldo", per_turn),
                      (scenario, name, per_turn), label, "us", None)
    table.add("wall per turn, warm, 16 runs", ("burst", "waldo", "wall_us_per_turn"),
              ("burst", "libcurl", "wall_us_per_turn"), "bare libcurl", "us", None)
    for turn in ("10", "100", "1000"):
        table.add(f"CPU per turn around turn {turn}", ("history", "waldo", f"history.{turn}"),
                  ("history", "libcurl", f"history.{turn}"), "bare libcurl", "us", 1.6)
    for api, label in OTHER_APIS:
        for turn in ("10", "100", "1000"):
            table.add(f"{label}: CPU per turn around turn {turn}",
                      ("history", api, f"history.{turn}"), ("history", "waldo", f"history.{turn}"),
                      "Chat Completions", "us", None)
    table.add("CPU per turn beside 9 000 open streams", ("beside", "waldo", per_turn),
              ("burst", "waldo", per_turn), "waldo without them", "us", 1.5)
    table.add("the same", ("beside", "waldo", per_turn), ("beside", "libcurl", per_turn),
              "bare libcurl beside them, one multi handle", "us", None)


def cold_rows(table):
    for name, label, budget in (("libcurl", "bare libcurl", None),
                                ("agents", "`@openai/agents`", 1 / 50), ("ai", "`ai`", 1 / 30)):
        table.add("CPU of a cold process of 50 turns", ("cold", "waldo", "process_cpu_us"),
                  ("cold", name, "process_cpu_us"), label, "us", budget)
    for name, label in (("agents", "`@openai/agents`"), ("ai", "`ai`")):
        table.add("peak memory of that process", ("cold", "waldo", "peak_kib"),
                  ("cold", name, "peak_kib"), label, "KiB", None)
    table.add("start to first request byte", ("startup", "all", "waldo"),
              ("startup", "all", "libcurl_init"), "libcurl loaded and initialised", "us", 1.5)
    table.add("the same", ("startup", "all", "waldo"), ("startup", "all", "libcurl_request"),
              "bare libcurl to its first byte", "us", None)


def memory_rows(table):
    idle = table.median("idle", "waldo", "idle_kib_each")
    table.add_value("memory of one idle run with one answer", idle, "KiB", "", 16, "≤ 16 KiB")
    ours = table.median("held", "waldo", "held_kib_each")
    theirs = table.median("held", "libcurl", "held_kib_each")
    beyond = None if ours is None or theirs is None else ours - theirs
    table.add_value("memory of one active run beyond bare libcurl", beyond, "KiB",
                    f"{show(ours, 'KiB')} less {show(theirs, 'KiB')} for the open stream", 64,
                    "≤ 64 KiB")
    for scenario, note in (("stall", "dispatch without a limit: all begin at once"),
                           ("slice", "dispatch asked to end after 5 ms")):
        wall = show(table.median(scenario, "waldo", "longest_dispatch_us"), "us")
        table.add_value("longest loop stall with 10 000 active runs, processor time",
                        table.median(scenario, "waldo", "longest_dispatch_cpu_us"), "us",
                        f"{note}; {wall} by the wall clock", None, "reported")
    table.add_value("CPU per turn of those", table.median("stall", "waldo", "cpu_us_per_turn"), "us",
                    "", None, "reported")


def exec_rows(table):
    for name, label, budget in (("host", "posix_spawn on the host", 1.7),
                                ("bwrap", "one bubblewrap a command", None)):
        table.add("`true` on a live local sandbox", ("exec", "all", "waldo"),
                  ("exec", "all", name), label, "us", budget)
        table.add("the same, the fastest tenth", ("exec", "all", "waldo_fast"),
                  ("exec", "all", f"{name}_fast"), label, "us", None)


def stripped_kib(file):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["strip", "-o", f"{folder}/out", file], check=True)
        return os.path.getsize(f"{folder}/out") / 1024


def size_rows(table, folder):
    libraries = [path for path in folder.glob("libwaldo.so.*.*.*") if path.is_file()]
    table.add_value("library, stripped", max(map(stripped_kib, libraries), default=None), "KiB", "",
                    500, "≤ 500 KiB")
    # Built without symbols and sections; there may be one for each of several processors.
    hands = [path.stat().st_size / 1024 for path in (folder / "src/hand").glob("waldo-hand*")]
    table.add_value("the largest hand", max(hands, default=None), "KiB", "", 40, "≤ 40 KiB")


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "missing"
    return (done.stdout or done.stderr).splitlines()[0].strip()


def machine(docker):
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="ascii")
                if line.startswith("model name")), platform.machine())
    packages = json.loads((HERE / "package.json").read_text())["dependencies"]
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    return (f"{cpu}, {os.cpu_count()} cores, Linux {platform.release()}; "
            f"{first_line('cc', '--version')}; {first_line('curl-config', '--version')}; "
            f"node {first_line('node', '--version')}; {versions}; "
            f"{first_line('bwrap', '--version')}{'; Docker Engine ' + docker.version if docker else ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, help="use this build folder as it is")
    parser.add_argument("--rounds", type=int, help="how often everything is repeated")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does it all run?")
    parser.add_argument("--json", type=Path, help="write every figure here")
    parser.add_argument("--write", action="store_true", help="renew the table of " + PAGE.name)
    options = parser.parse_args()
    folder = (options.build or ROOT / "build-bench").resolve()
    if options.build is None:
        build(folder)
    load = os.getloadavg()[0]
    bench = Bench(folder, options.smoke, options.rounds)
    try:
        for number in range(bench.sizes["rounds"]):
            print(f"round {number + 1} of {bench.sizes['rounds']}", file=sys.stderr)
            bench.one_round(number)
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    finally:
        bench.close()
    if options.json:
        options.json.write_text(json.dumps(
            [{"/".join(key): figures for key, figures in results.items()}
             for results in bench.rounds], indent=1))
    table = Table(bench.rounds)
    cpu_rows(table)
    cold_rows(table)
    memory_rows(table)
    exec_rows(table)
    if bench.docker:
        docker_rows.rows(table)
    for provider in bench.providers:
        cloud_rows.rows(table, provider)
    size_rows(table, folder)
    text = (f"Machine: {machine(bench.docker)}. Load average {load:.1f} before, {os.getloadavg()[0]:.1f} after; "
            f"{bench.sizes['rounds']} rounds.\n\n")
    for name, reason in bench.missing.items():
        text += f"Not measured: {name} ({reason}).\n\n"
    text += table.markdown() + "\n"
    print(text, end="")
    if options.write:
        before, rest = PAGE.read_text().split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        PAGE.write_text(before + MARKS[0] + text + MARKS[1] + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())

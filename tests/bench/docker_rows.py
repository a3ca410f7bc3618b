"""The rows about Docker: an engine, one program that measures, and what its figures are held to."""

import os
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
VENV = HERE.parent.parent / "build-bench-venv"

# mode of bench_docker_latency: name of its size
MODES = {"exec": "docker_execs", "many": "docker_many", "files": "docker_files", "open": "docker_opens",
         "pool": "docker_pool"}


def peers():
    """NAME PROGRAM SCRIPT of those whose packages are here."""
    found = []
    if shutil.which("node") and (HERE / "node_modules" / "dockerode").is_dir():
        found += ["dockerode", "node", str(HERE / "peers" / "dockerode.mjs")]
    if (VENV / "bin" / "python3").exists():
        found += ["docker_py", str(VENV / "bin" / "python3"), str(HERE / "peers" / "docker_py.py")]
    return found


def docker_py_version():
    lines = (HERE / "requirements.txt").read_text().split("\n")
    return next(line.split()[0].removeprefix("docker==") for line in lines if line.startswith("docker=="))


class Docker:
    """The engine that answers, or one of our own, as the tests have it."""

    def __init__(self):
        self.own = False
        self.engine = None
        self.missing = None
        sys.path.insert(0, str(HERE.parent / "support"))
        try:
            import dockerd
        except ImportError as failure:
            self.missing = str(failure)
            return
        self.image = dockerd.IMAGE
        self.engine = dockerd.answering()
        if self.engine is None:
            if not shutil.which("dockerd", path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
                self.missing = "there is no dockerd"
                return
            self.own = True
            folder = pathlib.Path(tempfile.mkdtemp(prefix="waldo-bench-"))
            folder.chmod(0o755)
            self.engine = dockerd.Engine(folder / "docker.sock")
            self.engine.folder = folder
        try:
            if self.own:
                self.engine.start()
            dockerd.load_images(self.engine)
            self.version = self.engine.ask("GET", "/version")[1]["Version"]
        except BaseException:
            self.close()
            raise

    def measure(self, run, program, sizes):
        """{mode: figures}"""
        os.environ["DOCKER_HOST"] = self.engine.url
        figures = {}
        for mode, size in MODES.items():
            more = peers() if mode == "exec" else []
            figures[mode] = run([str(program), mode, str(sizes[size]), self.engine.path, self.image, *more])
        return figures

    def close(self):
        if self.own:
            if self.engine.process and self.engine.process.poll() is None:
                self.engine.end()
            self.engine.remove()


def rows(table):
    """What against what, and the largest ratio allowed."""
    def add(mode, what, ours, *others):
        for theirs, label, budget in others:
            table.add(what, ("docker " + mode, "all", ours), ("docker " + mode, "all", theirs), label, "us",
                      budget)

    add("exec", "`true` on a live Docker sandbox", "waldo",
        ("host", "posix_spawn of the same binary", 1.7), ("bwrap", "one bubblewrap a command", None),
        ("cli", "`docker exec`", 1 / 50), ("api", "exec of the bare Engine API", None),
        ("dockerode", "dockerode", None), ("docker_py", f"docker-py {docker_py_version()}", None))
    add("exec", "the same, the fastest tenth", "waldo_fast",
        ("host_fast", "posix_spawn of the same binary", None), ("cli_fast", "`docker exec`", None),
        ("api_fast", "exec of the bare Engine API", None))
    add("many", "16 of them at once in one sandbox", "waldo_16",
        ("waldo", "one", max(16 / os.cpu_count(), 2)), ("api_16", "16 execs of the bare Engine API", None))
    add("open", "new Docker sandbox to its first result", "waldo",
        ("api", "create, start and exec of the bare Engine API", 0.6))
    add("pool", "the same where a spare is ready", "waldo_pool",
        ("waldo", "`true` in it afterwards", 2.0))
    add("files", "10 MB into a Docker sandbox", "waldo_in", ("api_in", "PUT archive", 0.5))
    add("files", "10 MB out of it", "waldo_out", ("api_out", "GET archive", 0.5))

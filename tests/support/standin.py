"""Starts a stand-in service for a Python test. Fixtures `chat`, `responses`, `messages` and `e2b` are fresh ones."""
import base64
import http.client
import json
import os
import pathlib
import subprocess

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent


class Standin:
    """tests/standins/NAME/server.py as a child process; a context manager."""

    def __init__(self, name, *args):
        command = ["/usr/bin/python3", "-B", str(TESTS / "standins" / name / "server.py"), "--until-eof", *args]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ports = [self.process.stdout.readline().split() for _ in range(2)]
        if [words[:1] for words in ports] != [["PORT"], ["CONTROL"]]:
            self.stop()
            raise RuntimeError(f"the stand-in {name} does not start")
        self.port, self.control_port = int(ports[0][1]), int(ports[1][1])
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=120)
        self.process.stdout.close()

    def ask(self, method, path, body=b""):
        connection = http.client.HTTPConnection("127.0.0.1", self.control_port, timeout=120)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {response.status} {answer[:400]!r}")
        return answer

    def control(self, **order):
        self.ask("POST", "/_control", json.dumps(order).encode())

    def queue(self, *replies):
        self.control(replies=list(replies))

    def reset(self):
        self.ask("POST", "/_reset")

    def wait(self, requests=0, aborted=0):
        self.ask("GET", f"/_wait?requests={requests}&aborted={aborted}")

    def requests(self):
        """Every request so far; `raw` holds the exact bytes of the body, `json` what they mean."""
        found = json.loads(self.ask("GET", "/_requests"))
        for request in found:
            request["raw"] = base64.b64decode(request["raw"])
            request["headers"] = {name.lower(): value for name, value in request["headers"]}
            request["json"] = json.loads(request["body"]) if request["body"].startswith("{") else None
        return found


@pytest.fixture
def chat():
    with Standin("chat") as standin:
        yield standin


@pytest.fixture
def responses():
    with Standin("responses") as standin:
        yield standin


@pytest.fixture
def messages():
    with Standin("messages") as standin:
        yield standin


@pytest.fixture
def e2b():
    real = os.environ.get("WALDO_TEST_ENVD")  # the provider's own daemon: see docs/adding-a-stand-in.md
    with Standin("e2b", *(["--envd", real] if real else [])) as standin:
        standin.url = f"http://127.0.0.1:{standin.port}"
        yield standin

"""What the rows about cloud providers have to know of E2B, and of its stand-in."""

import base64
import json
import struct
import urllib.request

NAME = "E2B"
STANDIN = "e2b"
SANDBOX = "e2b:base"
INPUT = "POST /process.Process/SendInput"
KEY = "e2b_" + "0" * 40
PEERS = {"e2b_js": ("e2b", "e2b.mjs", "npm `e2b`")}  # its package, script, label
TAG = "bench"
ECHO = 'while read -r line; do /bin/true; printf "%s\\377\\377\\377" "$1"; done'


def environment(url):
    return {"E2B_API_KEY": KEY, "E2B_API_URL": url, "E2B_SANDBOX_URL": url}


def create(url):
    """A sandbox of the floor's own, and what requests to its daemon bear."""
    request = urllib.request.Request(f"{url}/v2/sandboxes", method="POST",
                                     data=json.dumps({"templateID": "base", "timeout": 3600}).encode(),
                                     headers={"X-API-Key": KEY, "Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        made = json.load(answer)
    return [f"E2b-Sandbox-Id: {made['sandboxID']}", "E2b-Sandbox-Port: 49983", "Connect-Protocol-Version: 1",
            f"X-Access-Token: {made['envdAccessToken']}"]


def input_of(body):
    """The bytes for the hand in a request of waldo."""
    return base64.b64decode(json.loads(body)["input"]["stdin"])


def plan(url, sent, answer):
    """{file: bytes} for cloud_floor.h: a shell that answers each line of `sent` bytes with one write of as many bytes
    as the hand's; a multiple of three, so that the last bytes are the same in base64 wherever they stand."""
    headers = create(url)
    start = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", ECHO, "sh", "x" * (answer + -answer % 3 - 3)]},
                        "tag": TAG, "stdin": True}).encode()
    files = {"stream": "\n".join([f"{url}/process.Process/Start", *headers,
                                  "Content-Type: application/connect+json", "Keepalive-Ping-Interval: 30"]),
             "stream.body": struct.pack(">BI", 0, len(start)) + start,
             "input": "\n".join([f"{url}/process.Process/SendInput", *headers, "Content-Type: application/json"])}
    for count in (1, 16):
        lines = ("y" * (sent - 1) + "\n").encode() * count
        files[f"{count}.body"] = json.dumps({"process": {"tag": TAG}, "input": {
            "stdin": base64.b64encode(lines).decode()}}, separators=(",", ":"))
    return {name: text if isinstance(text, bytes) else text.encode() for name, text in files.items()}

"""A stand-in for E2B that really runs commands: control plane and data plane on one port, machines by bubblewrap.

    /usr/bin/python3 server.py [--tls CERT KEY] [--until-eof]

Prints `PORT n` and `CONTROL n`, as every stand-in does (common/http1.py). A request goes to the control plane
(cloud.py) unless E2b-Sandbox-Id and E2b-Sandbox-Port, a host `PORT-ID.DOMAIN`, or the signature of a file URL name a
machine (vms.py), in which envd (envd/) answers; proxy.py is between. Templates: base, and code-interpreter-v1 with a
Python on port 49999.

    POST /_control  {"faults": [..]} queues faults, see docs/adding-a-stand-in.md; {"release": true} ends stalls;
                    at once, ID may be "*": {"vanish": ID} ends a machine, {"pause": ID} freezes it,
                    {"rotate_token": ID} gives it another token (connect tells it);
                    settings until the reset: "key": K is the only good key; "no_v2": true knows POST /sandboxes only;
                    "concurrent": N machines at most; "templates": [..] are known too; "max_timeout_s"; "disk_bytes": N
                    makes /workspace of new machines a disk of that size; "clock_skew_s" moves all times told;
                    "spaces": true varies white space in JSON of new machines; "record": false keeps no requests
    GET /_requests  every request as JSON, with its machine `vm`, `port` and `status`; GET /_requests/count;
                    GET /_requests/N/body; with ?vm=ID&on=METHOD+PATH (may hold *) only those
    GET /_processes the number of processes in all machines, bubblewrap and envd (3 a machine) among them;
                    GET /_processes/list
    GET /_wait?requests=N&aborted=N&processes=N  returns when it is so, 504 after 20 s
    POST /_reset    ends all machines and forgets all of this
"""
import fnmatch
import json
import os
import pathlib
import sys
import threading
import time
import urllib.parse

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
import cloud  # noqa: E402
import faults  # noqa: E402
import http1  # noqa: E402
import proxy  # noqa: E402
import send  # noqa: E402
import service  # noqa: E402

SETTINGS = {"key": None, "no_v2": False, "concurrent": None, "templates": [], "max_timeout_s": 86400,
            "disk_bytes": None, "clock_skew_s": 0, "spaces": False, "record": True}


class State:
    def __init__(self):
        self.changed = threading.Condition()
        self.settings, self.epoch = dict(SETTINGS), 0
        self.cloud = cloud.Cloud(self.settings)
        self.reset()

    def reset(self):
        self.cloud.fleet.end_all()
        with self.changed:
            self.epoch += 1
            self.requests, self.count, self.aborted, self.faults = [], 0, 0, faults.Faults()
            self.settings.clear()
            self.settings.update(SETTINGS)
            self.changed.notify_all()

    def control(self, order):
        for name in ("vanish", "pause", "rotate_token"):
            if name in order:
                chosen = order.pop(name)
                for vm in self.cloud.fleet.all() if chosen == "*" else [self.cloud.find(chosen)]:
                    {"vanish": self.cloud.fleet.drop, "pause": lambda vm: self.cloud.pause(vm, b""),
                     "rotate_token": self.cloud.rotate}[name](vm)
        with self.changed:
            for fault in order.pop("faults", []):
                self.faults.add(fault)
            if order.pop("release", False):
                self.epoch += 1
            if set(order) - set(SETTINGS):
                raise ValueError(f"not known: {sorted(set(order) - set(SETTINGS))}")
            self.settings.update(order)
            self.changed.notify_all()

    def received(self, record):
        with self.changed:
            self.count += 1
            if self.settings["record"]:
                self.requests.append(record)
            self.changed.notify_all()

    def left(self, record):
        with self.changed:
            self.aborted += 1
            record["aborted"] = True
            self.changed.notify_all()

    def processes(self):
        return {vm.name: vm.processes() for vm in self.cloud.fleet.all()}

    def wait(self, requests, aborted, processes):
        late = time.monotonic() + 20
        while time.monotonic() < late:
            with self.changed:
                if not self.changed.wait_for(lambda: self.count >= requests and self.aborted >= aborted,
                                             late - time.monotonic()):
                    return False
            if processes is None or sum(map(len, self.processes().values())) == processes:
                return True
            time.sleep(0.02)
        return False


STATE = State()


class Handler(http1.Peer):
    def one_request(self):
        (method, target, _), headers = self.head()
        low = {name.lower(): value for name, value in headers}
        path = urllib.parse.urlsplit(target).path
        if path.startswith("/_"):
            status, answer = control(method, target, self.body(low))
            kind = {"Content-Type": "application/json"}
            return send.send(self.request, status, kind, answer, {"length": True}, lambda: True)
        record = {"method": method, "path": target, "headers": headers, "raw": b"", "vm": None, "port": None,
                  "connection": "%s:%d" % self.client_address[:2], "on_connection": self.served}
        exchange = proxy.Exchange(self, STATE, record, low)
        try:
            return exchange.run(method, target, path)
        except (send.Gone, OSError):
            STATE.left(record)
            raise


def control(method, target, raw):
    url = urllib.parse.urlsplit(target)
    path = url.path.strip("/").split("/")
    query = dict(urllib.parse.parse_qsl(url.query))
    if (method, path) == ("POST", ["_reset"]):
        STATE.reset()
    elif (method, path) == ("POST", ["_control"]):
        try:
            STATE.control(json.loads(raw))
        except (ValueError, KeyError, AttributeError, TypeError, cloud.Refused) as why:
            return 400, json.dumps({"error": repr(why)}).encode()
    elif (method, path) == ("GET", ["_requests"]):
        return 200, json.dumps([service.shown(record) for record in chosen(query)]).encode()
    elif (method, path) == ("GET", ["_requests", "count"]):
        return 200, str(len(chosen(query)) if query else STATE.count).encode()
    elif method == "GET" and path[0] == "_requests" and path[2:] == ["body"] and int(path[1]) < len(STATE.requests):
        return 200, bytes(STATE.requests[int(path[1])]["raw"])
    elif (method, path) == ("GET", ["_processes"]):
        return 200, str(sum(map(len, STATE.processes().values()))).encode()
    elif (method, path) == ("GET", ["_processes", "list"]):
        return 200, json.dumps({name: {pid: command(pid) for pid in pids}
                                for name, pids in STATE.processes().items()}).encode()
    elif (method, path) == ("GET", ["_wait"]):
        processes = int(query["processes"]) if "processes" in query else None
        if not STATE.wait(int(query.get("requests", 0)), int(query.get("aborted", 0)), processes):
            return 504, b"{}"
    else:
        return 404, b"{}"
    return 200, b"{}"


def chosen(query):
    """The requests that `vm` and `on` (as in a fault) choose."""
    return [record for record in list(STATE.requests) if query.get("vm", record["vm"]) == record["vm"]
            and fnmatch.fnmatchcase(f"{record['method']} {record['path'].partition('?')[0]}", query.get("on", "*"))]


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


if __name__ == "__main__":
    http1.serve(Handler, sys.argv[1:])
    STATE.cloud.fleet.end_all()
    os._exit(0)  # there are threads that wait for machines

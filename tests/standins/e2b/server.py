"""A stand-in for E2B that really runs commands: control plane and data plane on one port, machines by bubblewrap.

    /usr/bin/python3 server.py [--tls CERT KEY] [--until-eof] [--envd FILE]

Prints `PORT n` and `CONTROL n`, as every stand-in does (common/http1.py). A request goes to the control plane
(cloud.py) unless E2b-Sandbox-Id and E2b-Sandbox-Port, a host `PORT-ID.DOMAIN`, or the signature of a file URL name a
machine (vms.py), in which envd (envd/) answers; proxy.py is between. Templates: base, and code-interpreter-v1 with a
Python on port 49999. With FILE, a build of the provider's own envd, that one runs in the machines.

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
    GET /_wait?requests=N&aborted=N&processes=N  returns when it is so, 504 after 60 s
    POST /_reset    ends all machines and forgets all of this
"""
import fnmatch
import json
import os
import pathlib
import sys
import urllib.parse

sys.path.append(str(pathlib.Path(__file__).parents[1] / "common"))
import cloud  # noqa: E402
import desk  # noqa: E402
import faults  # noqa: E402
import frames  # noqa: E402
import http1  # noqa: E402
import proxy  # noqa: E402
import send  # noqa: E402
import vms  # noqa: E402

SETTINGS = {"key": None, "no_v2": False, "concurrent": None, "templates": [], "max_timeout_s": 86400,
            "disk_bytes": None, "clock_skew_s": 0, "spaces": False, "record": True}


class State(desk.Desk):
    def __init__(self):
        self.settings = dict(SETTINGS)
        self.cloud = cloud.Cloud(self.settings)
        super().__init__()

    def forget(self):
        super().forget()
        with self.changed:
            self.faults = faults.Faults(["vanish", "vanish_at", "frames", "end_at"])
            self.settings.clear()
            self.settings.update(SETTINGS)

    def reset(self):
        self.cloud.fleet.end_all()
        self.forget()

    @property
    def record(self):
        return self.settings["record"]

    def control(self, order):
        for name, act in (("vanish", self.cloud.fleet.drop), ("pause", self.cloud.pause),
                          ("rotate_token", self.cloud.rotate)):
            if name in order:
                wanted = order.pop(name)
                found = self.cloud.fleet.all() if wanted == "*" else [self.cloud.fleet.find(wanted)]
                if None in found:
                    raise ValueError(f"no machine {wanted}")
                for vm in found:
                    act(vm)
        with self.changed:
            for fault in order.pop("faults", []):
                frames.check(fault.get("frames", {}))
                self.faults.add(fault)
            if order.pop("release", False):
                self.release()
            if set(order) - set(SETTINGS):
                raise ValueError(f"not known: {sorted(set(order) - set(SETTINGS))}")
            self.settings.update(order)

    def processes(self):
        card = slice(2, 3) if vms.Vm.real else slice(0)  # a process of its own beside the provider's envd
        found = {vm.name: vm.processes() for vm in self.cloud.fleet.all()}
        for pids in found.values():
            del pids[card]
        return found

    def count_processes(self):
        return sum(map(len, self.processes().values()))

    def ready(self, query):
        return "processes" not in query or self.count_processes() == int(query["processes"])

    def chosen(self, query):
        """The requests that `vm` and `on` (as in a fault) choose."""
        return [record for record in list(self.requests) if query.get("vm", record["vm"]) == record["vm"]
                and fnmatch.fnmatchcase(f"{record['method']} {record['path'].partition('?')[0]}", query.get("on", "*"))]

    def more(self, method, path, query):
        if (method, path) == ("GET", ["_processes"]):
            return str(self.count_processes()).encode()
        if (method, path) == ("GET", ["_processes", "list"]):
            found = {name: {pid: command(pid) for pid in pids} for name, pids in self.processes().items()}
            return json.dumps(found).encode()
        return None


STATE = State()


class Handler(http1.Peer):
    def one_request(self):
        (method, target, _), headers = self.head()
        low = {name.lower(): value for name, value in headers}
        path = urllib.parse.urlsplit(target).path
        if path.startswith("/_"):
            status, answer = STATE.answer(method, target, self.body(low))
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


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


if __name__ == "__main__":
    if "--envd" in sys.argv:
        vms.Vm.real = pathlib.Path(sys.argv[sys.argv.index("--envd") + 1]).resolve()
    http1.serve(Handler, sys.argv[1:])
    STATE.cloud.fleet.end_all()
    os._exit(0)  # there are threads that wait for machines

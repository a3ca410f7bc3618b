"""What stands before the machines: finds whom a request is for, passes it on, and breaks what the script names."""
import json
import re
import select
import socket
import ssl
import time
import urllib.parse

import cloud
import frames
import machines
import send
import vms

ENVD = vms.Vm.daemon_port
STREAM = "application/connect+json"
RESERVED = {"/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"}
HOP = {"connection", "keep-alive", "te", "upgrade", "transfer-encoding", "content-length", "expect"}
JSON = {"Content-Type": "application/json"}
GONE = "The sandbox was not found"
CLOSED = "The sandbox is running but port is not open"
TRAFFIC = "e2b-traffic-access-token"
KEEP = 1 << 20  # bytes of a streamed request that are remembered


class Over(Exception):
    """The body is to end here, in good order."""


class Exchange:
    """One request and its answer."""

    def __init__(self, peer, state, record, low):
        self.peer, self.state, self.record, self.low = peer, state, record, low
        self.client, self.fault, self.pieces = peer.request, {}, None
        self.released = state.released()

    def run(self, method, target, path):
        try:
            route = self.route(method, target, path)
        except cloud.Refused as why:
            self.peer.body(self.low)
            self.state.received(self.record)
            return self.reply(why.status, {"Content-Type": "text/plain; charset=utf-8"}, str(why).encode())
        streamed = route and (route[1] != ENVD or path == "/files") and method not in ("GET", "HEAD")
        if not streamed:
            self.record["raw"] = self.peer.body(self.low)
        if route:
            self.record["vm"], self.record["port"] = route
        self.state.received(self.record)
        with self.state.changed:
            self.fault = self.state.faults.take(method, path, self.record["vm"])
        if streamed:
            self.pieces = self.kept(self.peer.parts(self.low))
        self.before()
        return self.pass_on(method, target, path, *route) if route else self.ask_cloud(method, target)

    def kept(self, parts):
        self.record["raw"] = bytearray()
        for part in parts:
            self.record["raw"] += part[:KEEP - len(self.record["raw"])]
            yield part

    def route(self, method, target, path):
        """(machine, port) when the request is for one."""
        name, port = self.low.get("e2b-sandbox-id"), self.low.get("e2b-sandbox-port")
        label, dot, _ = self.low.get("host", "").partition(".")
        parts = label.split("-")
        if name is None and port is None:
            if path == "/files":
                return self.signed(method, target)
            if not (dot and len(parts) >= 2 and parts[0].isdigit()):
                return None
            port, name = parts[:2]
        if name is None or port is None:
            raise cloud.Refused(400, "missing header")
        name = name.partition("-")[0]
        if not re.fullmatch(r"[a-z0-9]+", name):
            raise cloud.Refused(400, "Invalid sandbox ID")
        if not port.isdigit() or not 0 < int(port) < 65536:
            raise cloud.Refused(400, "Invalid sandbox port")
        return name, int(port)

    def signed(self, method, target):
        """Whose signature it is, as one address serves all machines."""
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(target).query, keep_blank_values=True))
        operation = "read" if method == "GET" else "write"
        for vm in self.state.cloud.fleet.all():
            if vm.token and query.get("signature") == vms.signature(
                    vm.token, query.get("path", ""), operation, query.get("username", ""),
                    query.get("signature_expiration")):
                return vm.name, ENVD
        raise cloud.Refused(400, "Invalid host")

    # --- faults --------------------------------------------------------------------------------------

    def before(self):
        """What goes wrong before anybody has seen the request."""
        if "wait_ms" in self.fault:
            send.hold(self.client, send.until(self.released, self.fault["wait_ms"]))
        if self.fault.get("vanish") and self.record["vm"]:
            vm = self.state.cloud.fleet.find(self.record["vm"])
            if vm:
                self.state.cloud.fleet.drop(vm)

    def instead(self):
        """The answer that the script gives in place of the real one."""
        fault, status, vm = self.fault, self.fault["status"], self.record["vm"]
        headers = dict(JSON)
        if "retry_after" in fault:
            headers |= {"Retry-After": fault["retry_after"], "RateLimit-Limit": 10, "RateLimit-Remaining": 0,
                        "RateLimit-Reset": fault["retry_after"]}
        if "text" in fault:
            return status, {"Content-Type": "text/html"}, fault["text"].encode()
        says = {401: "unauthorized access, please provide a valid access token or method signing if supported",
                429: "Rate limit exceeded", 502: GONE, 507: "not enough disk space available",
                409: "The sandbox is still transitioning. Try again in a moment."}.get(status, "broken by the script")
        body = {"code": status, "message": says}
        if vm and status in (409, 429, 502):
            body = {"sandboxId": vm, **body}
        return status, headers, dump(fault.get("json", body))

    def reply(self, status, headers, body):
        self.record["status"] = status
        if status == 204:
            send.send_head(self.client, status, headers, self.fault, self.released)
            return not self.fault.get("close")
        return send.send(self.client, status, headers, body, {**self.fault, "length": True}, self.released)

    # --- the control plane ---------------------------------------------------------------------------

    def ask_cloud(self, method, target):
        if "status" in self.fault and not self.fault.get("after"):
            return self.reply(*self.instead())
        trace = {"X-E2B-Trace-ID": f"{self.state.count:032x}"}
        try:
            status, headers, body = self.state.cloud.answer(method, target, self.low, self.record["raw"])
        except cloud.Refused as why:
            status, headers, body = why.status, why.headers, why.body
        if "status" in self.fault:
            return self.reply(*self.instead())
        if isinstance(body, str):
            return self.reply(status, {**trace, **headers, "Content-Type": "text/plain"}, body.encode())
        return self.reply(status, {**JSON, **trace, **headers}, b"" if body is None else dump(body))

    # --- the data plane ------------------------------------------------------------------------------

    def pass_on(self, method, target, path, name, port):
        if "status" in self.fault and not self.fault.get("after"):
            self.drain()
            return self.reply(*self.instead())
        vm = self.state.cloud.fleet.find(name)
        if vm and vm.state == "paused" and vm.resumes:
            vm.ends = time.time() + vm.length
            self.state.cloud.wake(vm)
        if vm is None or vm.state != "running":
            return self.refuse(502, sandboxId=name, message=GONE)
        if port == ENVD and path in RESERVED:
            return self.refuse(404, message="This endpoint is reserved for internal use", path=path)
        if port != ENVD and not vm.public and self.low.get(TRAFFIC) != vms.keyed("sandbox-traffic-" + name):
            says = (f"Provided token in header '{TRAFFIC}' is invalid" if TRAFFIC in self.low else
                    f"Sandbox is secured with traffic access token. Token header '{TRAFFIC}' is missing")
            return self.refuse(403, sandboxId=name, message=says)
        try:
            connection = machines.Connection(vm, port, self.wait)
        except ConnectionRefusedError:
            return self.refuse(502, sandboxId=name, message=CLOSED, port=port)
        except (OSError, send.Gone):
            return self.refuse(502, sandboxId=name, message=GONE)
        vm.relays.add(connection.request)
        try:
            return self.relay(vm, connection, method, target)
        finally:
            vm.relays.discard(connection.request)
            connection.request.close()

    def drain(self):
        for _ in self.pieces or ():
            pass

    def refuse(self, status, **body):
        self.drain()
        return self.reply(status, JSON, dump({**body, "code": status}))

    def wait(self, machine):
        """Until the machine says something; the client may leave before."""
        if isinstance(self.client, ssl.SSLSocket):
            return
        watched = [machine, self.client]
        while True:
            ready = select.select(watched, [], [])[0]
            if machine in ready:
                return
            if not self.client.recv(1, socket.MSG_PEEK):
                raise send.Gone
            watched = [machine]  # the client's next request waits

    def relay(self, vm, connection, method, target):
        headers = [(name, value) for name, value in self.record["headers"] if name.lower() not in HOP]
        headers.append(("Connection", "close"))
        body = self.record["raw"] if self.pieces is None else self.pieces
        connection.ask(method, target, headers, body, self.low.get("content-length"))
        try:
            status, headers = connection.answer()
        except (send.Gone, OSError):
            return self.lost(vm)
        low = {name.lower(): value for name, value in headers}
        parts = connection.rest(status, low)
        if "status" in self.fault:
            for _ in parts:
                pass
            return self.reply(*self.instead())
        self.record["status"] = status
        return self.copy(vm, status, headers, low, parts)

    def lost(self, vm):
        """The machine has broken the connection: so does the proxy."""
        if vm.state == "running" and vm.process.poll() is None:
            raise send.Gone  # it was the client
        send.cut(self.client, {"reset": True})

    def copy(self, vm, status, headers, low, parts):
        bodyless = status in (204, 304)
        chunked = not bodyless and "content-length" not in low
        out = {name: value for name, value in headers if name.lower() not in HOP}
        if chunked:
            out["Transfer-Encoding"] = "chunked"
        elif not bodyless:
            out["Content-Length"] = low["content-length"]
        send.send_head(self.client, status, out, self.fault, self.released)
        body = send.Body(self.client, self.fault, self.released, chunked)
        if "vanish_at" in self.fault:
            body.marks[self.fault["vanish_at"]] = lambda: self.vanish(vm)
        if "end_at" in self.fault:
            body.marks[self.fault["end_at"]] = self.over
        odd = None
        if "frames" in self.fault and low.get("content-type") == STREAM:
            odd = frames.Frames(self.fault["frames"])
        try:
            for part in parts:
                body.write(odd.feed(part) if odd else part)
            body.end()
        except Over:
            pass
        except (send.Gone, OSError):
            self.lost(vm)
        if chunked:
            self.client.sendall(b"0\r\n\r\n")
        return not self.fault.get("close")

    def over(self):
        raise Over

    def vanish(self, vm):
        self.state.cloud.fleet.drop(vm)
        send.cut(self.client, {"reset": True})


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

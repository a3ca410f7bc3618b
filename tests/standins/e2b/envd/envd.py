"""The daemon inside a machine of the stand-in, as the provider's envd is seen from outside.

    /usr/bin/python3 envd.py LISTENER

LISTENER: see common/inside.py.
"""
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.parse

sys.path.append(str(pathlib.Path(__file__).parents[2] / "common"))
import connect  # noqa: E402
import files  # noqa: E402
import filesystem  # noqa: E402
import inside  # noqa: E402
import process  # noqa: E402
import send  # noqa: E402
import users  # noqa: E402
import watch  # noqa: E402

PORT = 49983
PROCESS, FILES = "/process.Process/", "/filesystem.Filesystem/"
UNARY = {PROCESS + "List": process.listing, PROCESS + "SendInput": process.send_input,
         PROCESS + "SendSignal": process.send_signal, PROCESS + "Update": process.update,
         PROCESS + "CloseStdin": process.close_stdin}
AS_USER = {FILES + "Stat": filesystem.status, FILES + "MakeDir": filesystem.make_folder,
           FILES + "Move": filesystem.move, FILES + "ListDir": filesystem.list_folder,
           FILES + "Remove": filesystem.remove,
           FILES + "CreateWatcher": watch.create, FILES + "GetWatcherEvents": watch.drain,
           FILES + "RemoveWatcher": watch.remove}
STREAMS = {PROCESS + "Start", PROCESS + "Connect", PROCESS + "StreamInput", FILES + "WatchDir"}


class Peer(inside.Peer):
    def one_request(self):
        (method, target, _), headers = self.head()
        low = {name.lower(): value for name, value in headers}
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        try:
            try:
                files.check_token(method, url.path, low)
            except connect.Refused:
                self.body(low)
                raise
            return self.rest(method, url.path, query, low)
        except connect.Refused as why:
            body = connect.dump({"code": why.status, "message": why.message}) + b"\n"
            return self.answer(why.status, {"Content-Type": "application/json; charset=utf-8",
                                            "X-Content-Type-Options": "nosniff"}, body)

    def rest(self, method, path, query, low):
        quiet = {"Cache-Control": "no-store"}
        if (method, path) == ("POST", "/files"):
            return files.write(self, query, low)
        raw = self.body(low)
        if (method, path) == ("GET", "/files"):
            return files.read(self, query, low)
        if (method, path) == ("GET", "/health"):
            return self.answer(204, quiet, None)
        if (method, path) == ("POST", "/init"):
            message = connect.load(raw)
            files.init(message)
            if message.get("interpreter"):
                start_interpreter()
            return self.answer(204, {"X-Envd-Version": files.VERSION}, None)
        if method == "GET" and path in ("/metrics", "/envs"):
            found = files.metrics() if path == "/metrics" else dict(process.ENVIRONMENT)
            return self.answer(200, {**quiet, "Content-Type": "application/json"}, connect.dump(found))
        if path in UNARY or path in AS_USER or path in STREAMS:
            if method != "POST":
                return self.answer(405, {"Allow": "POST"}, b"")
            return self.call(path, low, raw)
        return self.answer(404, {"Content-Type": "text/plain; charset=utf-8"}, b"404 page not found\n")

    def call(self, path, low, raw):
        if path in UNARY:
            return connect.unary(self, low, raw, UNARY[path])
        if path in AS_USER:
            return connect.unary(self, low, raw, lambda message: AS_USER[path](message, user_of(low)))
        interval = low.get("keepalive-ping-interval", "")
        interval = float(interval) if re.fullmatch(r"\d+(\.\d+)?", interval) else 90  # a fraction is for tests

        def method(message):
            if path.endswith("Start"):
                return process.start(message, user_of(low), interval, connect.deadline(low))
            if path.endswith("Connect"):
                return process.connect(message, interval, connect.deadline(low))
            if path.endswith("StreamInput"):
                return process.stream_input(message)
            return watch.stream(message, user_of(low), interval)
        method.one_message = not path.endswith("StreamInput")
        return connect.stream(self, low, raw, method)

    def answer(self, status, headers, body):
        if body is not None and len(body) > connect.SMALL:
            self.start_body(status, {**headers, "Transfer-Encoding": "chunked"})
            self.chunk(body)
            return self.end_chunks()
        if body is not None:
            headers = {**headers, "Content-Length": len(body)}
        self.request.sendall(send.head(status, headers) + (body or b""))
        return True

    def start_body(self, status, headers):
        self.request.sendall(send.head(status, headers))

    def start_chunks(self, headers):
        self.start_body(200, {**headers, "Transfer-Encoding": "chunked"})

    def chunk(self, data):
        self.request.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def end_chunks(self):
        self.request.sendall(b"0\r\n\r\n")
        return True


def user_of(low):
    """Who `Authorization: Basic` names, with an empty password."""
    given = low.get("authorization", "")
    name = connect.octets(given[6:]).decode().partition(":")[0] if given.lower().startswith("basic ") else ""
    try:
        return users.find(name)
    except KeyError as why:
        raise connect.Failure("unauthenticated", f"invalid username: '{name}'") from why


def start_interpreter():
    """The service on port 49999; it listens when this returns."""
    user = users.find("user")
    home = {"cwd": user.pw_dir, "env": {"PATH": os.environ["PATH"], "HOME": user.pw_dir, **process.ENVIRONMENT}}
    program = str(pathlib.Path(__file__).with_name("interpreter.py"))
    subprocess.Popen(["/usr/bin/python3", "-B", program], **home, **users.credentials(user))
    late = time.monotonic() + 60
    while time.monotonic() < late:
        with contextlib.suppress(OSError):
            return socket.create_connection(("127.0.0.1", 49999)).close()
        time.sleep(0.01)


if __name__ == "__main__":
    inside.serve(Peer, PORT, "-isnotfc", "-no-cgroups", "-port", str(PORT))

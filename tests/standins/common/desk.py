"""What every stand-in remembers, and the paths beginning with `/_` by which a test asks and orders.

    POST /_control  an order as JSON: what it may hold, each stand-in says
    GET /_requests  every request as JSON; GET /_requests/count; GET /_requests/N/body  the raw bytes of one
    GET /_wait?requests=N&aborted=N  returns when so many came / were left by the peer, 504 after 60 s
    POST /_reset    forgets all of this
"""
import base64
import json
import threading
import time
import urllib.parse

PATIENCE_S = 60


class Desk:
    record = True  # whether requests are kept

    def __init__(self):
        self.changed = threading.Condition()
        self.epoch = 0
        self.forget()

    def forget(self):
        with self.changed:
            self.epoch += 1  # ends the stalls of the time before
            self.requests, self.count, self.aborted = [], 0, 0
            self.changed.notify_all()

    def reset(self):
        self.forget()

    def control(self, order):
        """Do what a test says; ValueError and the like when it makes no sense."""

    def more(self, method, path, query):
        """The answer to a path of this stand-in's own, or None."""

    def ready(self, query):
        """Whether what else /_wait names is so; asked again and again."""
        return True

    def release(self):
        with self.changed:
            self.epoch += 1
            self.changed.notify_all()

    def released(self):
        """A function that tells whether stalls that begin now are over."""
        epoch = self.epoch
        return lambda: self.epoch != epoch

    def received(self, record):
        with self.changed:
            self.count += 1
            if self.record:
                self.requests.append(record)
            self.changed.notify_all()

    def left(self, record):
        """The connection ended before the answer was through."""
        with self.changed:
            self.aborted += 1
            record["aborted"] = True
            self.changed.notify_all()

    def chosen(self, query):
        return list(self.requests)

    def wait(self, query):
        requests, aborted = int(query.get("requests", 0)), int(query.get("aborted", 0))
        late = time.monotonic() + PATIENCE_S
        while (left := late - time.monotonic()) > 0:
            with self.changed:
                if not self.changed.wait_for(lambda: self.count >= requests and self.aborted >= aborted, left):
                    return False
            if self.ready(query):
                return True
            time.sleep(0.02)
        return False

    def answer(self, method, target, raw):
        """Status and body."""
        url = urllib.parse.urlsplit(target)
        path, query = url.path.strip("/").split("/"), dict(urllib.parse.parse_qsl(url.query))
        if (method, path) == ("POST", ["_reset"]):
            self.reset()
        elif (method, path) == ("POST", ["_control"]):
            try:
                self.control(json.loads(raw))
            except (ValueError, KeyError, AttributeError, TypeError) as why:
                return 400, json.dumps({"error": repr(why)}).encode()
        elif (method, path) == ("GET", ["_requests"]):
            return 200, json.dumps([shown(record) for record in self.chosen(query)]).encode()
        elif (method, path) == ("GET", ["_requests", "count"]):
            return 200, str(len(self.chosen(query)) if query else self.count).encode()
        elif method == "GET" and path[0] == "_requests" and path[2:] == ["body"] and int(path[1]) < len(self.requests):
            return 200, bytes(self.requests[int(path[1])]["raw"])
        elif (method, path) == ("GET", ["_wait"]):
            return (200 if self.wait(query) else 504), b"{}"
        else:
            found = self.more(method, path, query)
            return (404, b"{}") if found is None else (200, found)
        return 200, b"{}"


def shown(record):
    raw = record["raw"]
    return {**record, "raw": base64.b64encode(raw).decode(), "body": raw.decode("utf-8", "replace")}

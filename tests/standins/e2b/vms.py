"""The machines of E2B, with envd inside, and what is computed from their names."""
import base64
import hashlib
import hmac
import json
import secrets
import time

import machines

SEED = secrets.token_bytes(32)


def keyed(text):
    return hmac.new(SEED, text.encode(), hashlib.sha256).hexdigest()


def signature(token, path, operation, user, expires=None):
    """Of a file URL that needs no other proof."""
    raw = ":".join([path, operation, user, token, *([expires] if expires is not None else [])])
    return "v1_" + base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode().rstrip("=")


class Vm(machines.Machine):
    folder, program = "e2b/envd", "envd.py"
    daemon_port = 49983
    token = old = None

    def init(self, **message):
        """Tell envd what it must know; returns when it runs."""
        connection = self.reach()
        with connection.request:
            connection.request.settimeout(60)
            headers = [("Host", "envd"), ("Content-Type", "application/json"), ("X-Access-Token", self.old or "")]
            message |= {"accessToken": self.token} if self.token else {}
            connection.ask("POST", "/init", headers, json.dumps(message).encode())
            if connection.answer()[0] != 204:
                raise OSError("envd does not start")
        self.old, self.state = self.token, "running"

    def reach(self):
        """A connection to envd; one that is not ours takes a while until it listens."""
        late = time.monotonic() + 60
        while True:
            try:
                return machines.Connection(self, self.daemon_port)
            except ConnectionRefusedError:
                if time.monotonic() > late:
                    raise
                time.sleep(0.01)

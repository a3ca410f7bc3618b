"""The machines of E2B, with envd inside, and what is computed from their names."""
import base64
import hashlib
import hmac
import json
import secrets

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
        connection = machines.Connection(self, self.daemon_port)
        with connection.request:
            connection.request.settimeout(30)
            headers = [("X-Access-Token", self.old)] if self.old else []
            connection.ask("POST", "/init", headers, json.dumps({"accessToken": self.token, **message}).encode())
            if connection.answer()[0] != 204:
                raise OSError("envd does not start")
        self.old, self.state = self.token, "running"

"""What every stand-in for a model service is made of: HTTP by hand, scripts, and what came in.

A stand-in is a `Service`; `serve()` prints `PORT n` (and `CONTROL n`, a second port, never TLS, for the paths that
begin with `/_`; the first port serves them too). A reply is the next of the queue, else the scenario with the model's
name, else "ok".

    POST /_control  {"replies": [..]} queues; {"model": M, "replies": [..]} queues for one model; {"model": M,
                    "turns": [..]} defines a scenario; {"key": K} demands that key; {"strict": false} lets any history
                    pass; {"release": true} ends all stalls
The other paths of a test: desk.py.
"""
import base64
import urllib.parse

import desk
import http1
import send
from wire import PARSE, Refused, dump, parse


class Service:
    """One API: what differs between stand-ins."""
    vendor = "openai"  # whose rules hold at /v1
    vendors = {"openai"}  # base paths /VENDOR/v1 with rules of their own
    path = []  # behind /v1
    id_header = "x-request-id"
    scenarios = {}

    def keys(self, low):
        """The keys that the headers hold; the first one counts."""
        return [low["authorization"].removeprefix("Bearer ")] if "authorization" in low else []

    def refusal(self, why, request_id):
        """The body that says why."""
        return {"error": why.error}

    def models(self, names):
        data = [{"id": name, "object": "model", "created": 1764400000, "owned_by": "stand-in"} for name in names]
        return {"object": "list", "data": data}

    def check_headers(self, low):
        """Refuse what the vendor would refuse for its headers."""

    def reset(self):
        """Forget what was kept of requests."""

    def order(self, order):
        """Switches of /_control that are this API's own."""

    def other(self, method, parts, raw):
        """The object that another path of the API answers with; None: there is no such path."""

    def turn(self, body):
        """How many answers the history holds already."""

    def check(self, body, vendor):
        """Refuse what the vendor would refuse."""

    def said(self, body):
        """The results behind the last answer, and what the user said."""

    def fill(self, reply, body):
        """Put what the conversation holds into the reply's text: {result}, {results}, {user}."""
        if "text" not in reply or "{" not in (reply["text"] or ""):
            return reply
        results, users = self.said(body)
        text = reply["text"].replace("{results}", "\n".join(results)).replace("{user}", users[-1] if users else "")
        return {**reply, "text": text.replace("{result}", results[-1] if results else "")}

    def stream(self, reply, body):
        """The text of a streamed reply."""

    def whole(self, reply, body):
        """The object of a reply that is not streamed."""


class State(desk.Desk):
    service = Service()

    def reset(self):
        with self.changed:
            self.forget()
            self.queue, self.queues, self.scenarios = [], {}, dict(self.service.scenarios)
            self.key, self.strict = None, True
            self.service.reset()

    def control(self, order):
        with self.changed:
            if "turns" in order:
                self.scenarios[order["model"]] = order["turns"]
            if "replies" in order:
                queue = self.queues.setdefault(order["model"], []) if "model" in order else self.queue
                queue.extend(order["replies"])
            self.key, self.strict = order.get("key", self.key), order.get("strict", self.strict)
            self.service.order(order)
            if order.get("release"):
                self.release()

    def next_reply(self, body):
        with self.changed:
            for queue in (self.queues.get(body["model"]), self.queue):
                if queue:
                    return queue.pop(0)
            turns = self.scenarios.get(body["model"], [{"text": "ok"}])
        return turns[min(self.service.turn(body), len(turns) - 1)]


STATE = State()


class Handler(http1.Peer):
    def one_request(self):
        (method, target, _), headers = self.head()
        low = {name.lower(): value for name, value in headers}
        raw = self.body(low)
        if urllib.parse.urlsplit(target).path.startswith("/_"):
            status, answer = STATE.answer(method, target, raw)
            headers = {"Content-Type": "application/json"}
            return send.send(self.request, status, headers, answer, {"length": True}, lambda: True)
        record = {"method": method, "path": target, "headers": headers, "raw": raw,
                  "connection": "%s:%d" % self.client_address[:2], "on_connection": self.served}
        released = STATE.released()  # before anybody can know of the request: what is released then is this one, too
        STATE.received(record)
        try:
            return self.answer(method, target, headers, low, raw, released)
        except (send.Gone, OSError):
            STATE.left(record)
            raise

    def answer(self, method, target, headers, low, raw, released):
        try:
            status, kind, body, reply = self.judge(method, target, headers, low, raw)
        except Refused as why:
            status, kind, reply = why.status, "application/json", {"length": True}
            body = dump(STATE.service.refusal(why, "req_%d" % len(STATE.requests)))
        out = {"Content-Type": kind, STATE.service.id_header: "req_%d" % len(STATE.requests)}
        return send.send(self.request, status, out, send.framed(body, reply), reply, released)

    def judge(self, method, target, headers, low, raw):
        """Status, content type, body and switches of the answer."""
        parts = urllib.parse.urlsplit(target).path.strip("/").split("/")
        vendor = parts.pop(0) if parts[0] in STATE.service.vendors else STATE.service.vendor
        if STATE.key is not None and STATE.service.keys(low)[:1] != [STATE.key]:
            raise Refused("Incorrect API key provided.", None, "invalid_api_key", 401)
        if (method, parts) == ("GET", ["v1", "models"]):
            models = STATE.service.models(sorted(STATE.scenarios))
            return 200, "application/json", dump(models), {"length": True}
        other = STATE.service.other(method, parts[1:], raw) if parts[0] == "v1" else None
        if other is not None:
            return 200, "application/json", dump(other), {"length": True}
        if (method, parts) != ("POST", ["v1", *STATE.service.path]):
            raise Refused(f"Invalid URL ({method} {target})", status=404)
        if not low.get("content-type", "").startswith("application/json"):
            raise Refused(PARSE)
        body = parse(raw)
        if STATE.strict:
            STATE.service.check_headers(low)
            STATE.service.check(body, vendor)
        return render(STATE.service.fill(STATE.next_reply(body), body), body, headers, raw)


def quoted(headers, raw, reply):
    """The request as an error may quote it: as it is, and in the `forms` base64 and url."""
    text = "\n".join(f"{name}: {value}" for name, value in headers) + "\n\n" + raw.decode("utf-8", "replace")
    forms = {"base64": base64.b64encode(text.encode()).decode(), "url": urllib.parse.quote(text, safe="")}
    return "\n".join([text, *[forms[name] for name in reply.get("forms", [])]])


def render(reply, body, headers, raw):
    status = reply.get("status", 200)
    if "html" in reply:
        return status, "text/html", reply["html"], reply
    if reply.get("echo"):  # a proxy that quotes the whole request, key and all
        says = quoted(headers, raw, reply)
        if status != 200:
            why = Refused(says, status=status)
            return status, "application/json", dump(STATE.service.refusal(why, "req_quoted")), reply
        pieces = [says[at:at + 23] for at in range(0, len(says), 23)]  # shorter than keys are
        reply = {**reply, "text": says, "pieces": pieces, "message": says, "quoted": [says]}
    if "json" in reply:
        return status, "application/json", dump(reply["json"]), reply
    if body.get("stream"):
        return status, reply.get("content_type", "text/event-stream"), STATE.service.stream(reply, body), reply
    if reply.get("raw") == "":
        return status, "application/json", "", reply
    return status, "application/json", dump(STATE.service.whole(reply, body)), reply


def serve(made, args):
    STATE.service = made
    STATE.reset()
    http1.serve(Handler, args)

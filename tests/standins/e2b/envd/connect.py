"""Connect over HTTP/1.1 with JSON, as connect-go speaks it: unary calls, server streams, errors."""
import base64
import binascii
import gzip
import json
import random
import struct

STATUS = {"canceled": 499, "unknown": 500, "invalid_argument": 400, "deadline_exceeded": 504, "not_found": 404,
          "already_exists": 409, "permission_denied": 403, "resource_exhausted": 429, "failed_precondition": 400,
          "aborted": 409, "out_of_range": 400, "unimplemented": 501, "internal": 500, "unavailable": 503,
          "data_loss": 500, "unauthenticated": 401}
STREAM = "application/connect+json"
SMALL = 2048  # longer answers of Go's handlers come in chunks
spaces = False  # Go's protojson varies its white space from build to build


class Failure(Exception):
    """A Connect error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.body = {"code": code, "message": message}


class Refused(Exception):
    """An answer of envd itself, outside Connect: {"code": STATUS, "message": ...}."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status, self.message = status, message


def dump(value):
    around = (", ", ": ") if spaces and random.getrandbits(1) else (",", ":")
    return json.dumps(value, ensure_ascii=False, separators=around).encode()


def load(raw):
    try:
        value = json.loads(raw.decode("utf-8"))
    except (UnicodeError, ValueError) as why:
        raise Failure("invalid_argument", f"unmarshal message: {why}") from why
    if not isinstance(value, dict):
        raise Failure("invalid_argument", "unmarshal message: not an object")
    return value


def octets(text):
    """A bytes field: any alphabet, with or without padding."""
    try:
        text = text.replace("-", "+").replace("_", "/").rstrip("=")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (AttributeError, binascii.Error, ValueError) as why:
        raise Failure("invalid_argument", "unmarshal message: invalid value for bytes field") from why


def text_of(data):
    return base64.b64encode(data).decode()


def frame(payload, flags=0):
    return struct.pack(">BI", flags, len(payload)) + payload


def last_frame(failure=None):
    return frame(b"{}" if failure is None else dump({"error": failure.body}), 2)


def only_frame(raw):
    """The one message that a server stream's request holds."""
    if not raw:
        raise Failure("unimplemented", "unary request has zero messages")
    if len(raw) < 5 or len(raw) != 5 + struct.unpack(">I", raw[1:5])[0]:
        raise Failure("invalid_argument", "protocol error: incomplete envelope: unexpected EOF")
    return frames(raw)[0]


def frames(raw):
    """The messages of a client stream."""
    found = []
    while raw:
        flags, size = struct.unpack(">BI", raw[:5])
        if flags:
            raise Failure("internal", f"protocol error: invalid envelope flags {flags}")
        found.append(load(raw[5:5 + size]))
        raw = raw[5 + size:]
    return found


def deadline(low):
    """Seconds that the client gives, 0 included, or None."""
    given = low.get("connect-timeout-ms", "")
    if given and not (given.isdigit() and len(given) <= 10):
        says = f'parse timeout: strconv.ParseInt: parsing "{given}": invalid syntax'
        raise Failure("invalid_argument", says)
    return int(given) / 1000 if given else None


def accepts_gzip(low):
    """Whether Accept-Encoding ranks gzip above identity."""
    rank = {}
    for word in low.get("accept-encoding", "").split(","):
        name, _, quality = word.strip().partition(";")
        quality = quality.strip().removeprefix("q=")
        rank[name.strip().lower()] = float(quality or 1)
    best = rank.get("gzip", rank.get("*", 0))
    return best > 0 and best >= rank.get("identity", 0)


def unary(peer, low, raw, method):
    """Answer one unary call by method(message)."""
    kind = low.get("content-type", "").partition(";")[0]
    if kind != "application/json":
        return peer.answer(415, {"Accept-Post": f"application/json, {STREAM}"}, b"")
    try:
        if low.get("connect-protocol-version", "1") != "1":
            says = f'Connect-Protocol-Version must be "1": got "{low["connect-protocol-version"]}"'
            raise Failure("invalid_argument", says)
        body = dump(method(load(raw)))
    except Failure as why:
        return peer.answer(STATUS[why.body["code"]], {"Content-Type": "application/json"}, dump(why.body))
    headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
    if accepts_gzip(low):
        headers["Content-Encoding"], body = "gzip", gzip.compress(body, 1)
    return peer.answer(200, headers, body)


def stream(peer, low, raw, method):
    """Answer by the messages that method(message) yields; its errors are said inside HTTP 200."""
    if low.get("content-type", "").partition(";")[0] != STREAM:
        return peer.answer(415, {"Accept-Post": f"application/json, {STREAM}"}, b"")
    peer.start_chunks({"Content-Type": STREAM, "Connect-Accept-Encoding": "gzip"})
    failure, messages = None, None
    try:
        messages = method(only_frame(raw) if method.one_message else frames(raw))
        for message in messages:
            peer.chunk(frame(dump(message)))
    except Failure as why:
        failure = why
    finally:
        if hasattr(messages, "close"):
            messages.close()
    peer.chunk(last_frame(failure))
    return peer.end_chunks()

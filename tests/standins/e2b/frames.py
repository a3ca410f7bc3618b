"""What a script makes of the frames of a Connect stream."""
import json
import struct

KNOWN = set("""no_end no_end_stream twice_end unknown_event unknown_field keepalive_first keepalive_before_start huge
    compressed flags error end_error join garbage no_start after_end_stream""".split())
END_STREAM = 2


def frame(value, flags=0):
    payload = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return struct.pack(">BI", flags, len(payload)) + payload


def check(orders):
    if set(orders) - KNOWN:
        raise ValueError(f"not switches of frames: {sorted(set(orders) - KNOWN)}")


class Frames:
    """Takes the bytes of a Connect stream, gives them back as the script wants them."""

    def __init__(self, orders):
        self.orders, self.buffer, self.kept = orders, b"", b""
        self.over = False  # the end-stream frame has been

    def feed(self, data):
        self.buffer += data
        out = b""
        while len(self.buffer) >= 5:
            flags, size = struct.unpack(">BI", self.buffer[:5])
            if len(self.buffer) < 5 + size:
                break
            payload, self.buffer = self.buffer[5:5 + size], self.buffer[5 + size:]
            if not self.over:
                out += self.changed(flags, payload)
        if self.orders.get("join"):  # everything in one write
            self.kept += out
            out, self.kept = (self.kept, b"") if self.over else (b"", self.kept)
        return out

    def changed(self, flags, payload):
        """One frame, with what comes before and after it."""
        if flags & END_STREAM:
            return self.end_stream(payload)
        event = (json.loads(payload).get("event") or {})
        if "start" in event:
            return self.start(payload)
        if "data" in event and "compressed" in self.orders:
            return frame(payload, 1)
        if "data" in event and "flags" in self.orders:
            return frame(payload, self.orders["flags"])
        if "end" in event:
            times = 0 if "no_end" in self.orders else 2 if "twice_end" in self.orders else 1
            return frame(payload) * times
        return frame(payload)

    def start(self, payload):
        out = b"" if "no_start" in self.orders else frame(payload)
        if "keepalive_before_start" in self.orders:
            out = frame({"event": {"keepalive": {}}}) + out
        if "keepalive_first" in self.orders:
            out += frame({"event": {"keepalive": {}}})
        if "unknown_event" in self.orders:
            out += frame({"event": {"novelty": {"of": "tomorrow"}}}) + frame({"other": {}})
        if "unknown_field" in self.orders:
            out += frame({"event": {"keepalive": {"new": [1]}, "more": None}, "added": {"x": "y"}})
        if "huge" in self.orders:  # a frame that says it is so long; its bytes come without an end
            out += struct.pack(">BI", 0, self.orders["huge"]) + b'{"event":{"data":{"stdout":"' + b"A" * (1 << 16)
        if "garbage" in self.orders:
            out += frame(self.orders["garbage"].encode())
        if "error" in self.orders:
            self.over = True
            out += frame({"error": self.orders["error"]}, END_STREAM)
        return out

    def end_stream(self, payload):
        self.over = True
        if "no_end_stream" in self.orders:
            return b""
        if "end_error" in self.orders:
            payload = json.dumps({"error": self.orders["end_error"]}).encode()
        out = frame(payload, END_STREAM)
        if "after_end_stream" in self.orders:
            out += frame({"event": {"keepalive": {}}})
        return out

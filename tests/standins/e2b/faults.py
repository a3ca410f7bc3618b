"""What a script makes go wrong: which requests it meets, and what it does to the frames of a stream."""
import fnmatch
import json
import struct


class Faults:
    """A queue of faults; each meets the requests that `on` names, `times` times, after `skip` of them."""

    def __init__(self):
        self.waiting = []

    def add(self, fault):
        unknown = set(fault) - KNOWN
        if unknown or "on" not in fault:
            raise ValueError(f"not switches of a fault: {sorted(unknown) or 'on is missing'}")
        unknown = set(fault.get("frames", {})) - FRAMES
        if unknown:
            raise ValueError(f"not switches of frames: {sorted(unknown)}")
        self.waiting.append({"times": 1, "skip": 0, **fault})

    def take(self, method, path, vm):
        """The first fault that meets this request, or nothing."""
        for fault in self.waiting:
            if not fnmatch.fnmatchcase(f"{method} {path}", fault["on"]) or fault.get("vm", vm) != vm:
                continue
            if fault["skip"]:
                fault["skip"] -= 1
                continue
            if fault["times"] is not None:
                fault["times"] -= 1
                if not fault["times"]:
                    self.waiting.remove(fault)
            return fault
        return {}


KNOWN = set("""on vm times skip wait_ms status json text retry_after after vanish vanish_at frames reset close
    close_before_reply stall_headers slow_headers headers drop_at stall_at stall_ms end_at split delay_ms""".split())
FRAMES = set("""no_end no_end_stream twice_end unknown_event unknown_field keepalive_first keepalive_before_start huge
    compressed flags error end_error join garbage no_start after_end_stream""".split())
END_STREAM = 2


def frame(value, flags=0):
    payload = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return struct.pack(">BI", flags, len(payload)) + payload


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

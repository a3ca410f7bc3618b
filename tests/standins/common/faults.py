"""Faults that a script orders by the requests they meet, for stand-ins that answer by themselves.

A fault is an object with `on` ("METHOD PATH", where * stands for anything) and switches. Those known everywhere: `vm`
(this machine only), `times` (1; null for ever), `skip` (so many first), `wait_ms`, `status` with `json`, `text` and
`retry_after`, `after` (the status only when the request has been carried out), and those of send.py.
"""
import fnmatch

KNOWN = set("""on vm times skip wait_ms status json text retry_after after headers reset close close_before_reply
    stall_headers slow_headers drop_at stall_at stall_ms split delay_ms""".split())


class Faults:
    """A queue of faults; `more` are switches that this stand-in knows besides."""

    def __init__(self, more=()):
        self.waiting, self.known = [], KNOWN | set(more)

    def add(self, fault):
        unknown = set(fault) - self.known
        if unknown or "on" not in fault:
            raise ValueError(f"not switches of a fault: {sorted(unknown) or 'on is missing'}")
        self.waiting.append({"times": 1, "skip": 0, **fault})

    def take(self, method, path, vm=None):
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

"""Watchers of folders, by inotify: streams, and the polled ones that the synchronous Python client uses."""
import ctypes
import os
import queue
import secrets
import select
import struct
import threading

import filesystem
from connect import Failure

MODIFY, ATTRIB, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
IS_FOLDER, CLOSE_ON_EXEC = 0x40000000, 0o2000000
# In the order in which one event of the kernel becomes several of the protocol.
KINDS = ((CREATE | MOVED_TO, "CREATE"), (MOVED_FROM, "RENAME"), (ATTRIB, "CHMOD"), (MODIFY, "WRITE"),
         (DELETE, "REMOVE"))
ALL = MODIFY | ATTRIB | MOVED_FROM | MOVED_TO | CREATE | DELETE
CARRY_ENTRY = {"CREATE", "CHMOD", "WRITE"}
libc = ctypes.CDLL(None, use_errno=True)
watchers = {}


class Watcher:
    """Follows a folder; `put` gets each event."""

    def __init__(self, message, user, put):
        self.root = filesystem.resolve(user, message.get("path", ""))
        try:
            filesystem.folder(self.root)
        except Failure as why:
            if why.body["code"] == "not_found":
                why.body["message"] = f"path {self.root} not found: stat {self.root}: no such file or directory"
            if why.body["code"] == "invalid_argument":
                why.body["message"] = f"path {self.root} not a directory: %!w(<nil>)"  # the daemon's own slip
            raise
        self.deep, self.entries, self.put = message.get("recursive"), message.get("includeEntry"), put
        self.fd = libc.inotify_init1(CLOSE_ON_EXEC)
        self.stopping, self.stopper = os.pipe()
        self.folders = {}
        self.add("")
        threading.Thread(target=self.run, daemon=True).start()

    def add(self, below):
        """Watch a folder, given by its path below the root."""
        path = os.path.join(self.root, below)
        number = libc.inotify_add_watch(self.fd, os.fsencode(path), ALL)
        if number >= 0:
            self.folders[number] = below
        if self.deep and number >= 0:
            for entry in os.scandir(path):
                if entry.is_dir(follow_symlinks=False):
                    self.add(os.path.join(below, entry.name))

    def run(self):
        while self.stopping not in select.select([self.fd, self.stopping], [], [])[0]:
            data = os.read(self.fd, 65536)
            while data:
                number, mask, _, size = struct.unpack("iIII", data[:16])
                name, data = data[16:16 + size].rstrip(b"\0"), data[16 + size:]
                if number in self.folders and name:
                    self.tell(os.path.join(self.folders[number], os.fsdecode(name)), mask)
        for fd in (self.fd, self.stopping, self.stopper):
            os.close(fd)

    def tell(self, name, mask):
        for bits, kind in KINDS:
            if not mask & bits:
                continue
            event = {"name": name, "type": f"EVENT_TYPE_{kind}"}
            if self.entries and kind in CARRY_ENTRY:
                try:
                    event["entry"] = filesystem.entry(os.path.join(self.root, name))
                except Failure:  # gone meanwhile
                    pass
            self.put(event)
            if kind == "CREATE" and mask & IS_FOLDER and self.deep:
                self.add(name)

    def stop(self):
        os.write(self.stopper, b".")


def stream(message, user, interval):
    events = queue.Queue()
    watcher = Watcher(message, user, events.put)
    try:
        yield {"start": {}}
        while True:
            try:
                yield {"filesystem": events.get(timeout=interval)}
            except queue.Empty:
                yield {"keepalive": {}}
    finally:
        watcher.stop()


def create(message, user):
    events = []
    name = "w" + secrets.token_hex(10)
    watchers[name] = (Watcher(message, user, events.append), events)
    return {"watcherId": name}


def known(message):
    name = message.get("watcherId", "")
    if name not in watchers:
        raise Failure("not_found", f"watcher with id {name} not found")
    return name, *watchers[name]


def drain(message, _):
    _, _, events = known(message)
    count = len(events)
    found, events[:count] = events[:count], []
    return {"events": found} if found else {}


def remove(message, _):
    name, watcher, _ = known(message)
    del watchers[name]
    watcher.stop()
    return {}

"""Puts a response on the connection, whole or broken in the way the script asks for.

Switches of a reply: `newline`, `bom`, `split` (bytes a write), `delay_ms` (behind each), `drop_at`,
`stall_at` (for `stall_ms`, or until released), `close_before_reply`, `stall_headers`,
`slow_headers`, `length` (Content-Length instead of chunks), `lie` (a longer Content-Length), `reset`, `close`.
"""
import select
import socket
import struct
import time

REASONS = {200: "OK", 201: "Created", 204: "No Content", 206: "Partial Content", 304: "Not Modified",
           307: "Temporary Redirect", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
           405: "Method Not Allowed", 406: "Not Acceptable", 408: "Request Timeout", 409: "Conflict",
           413: "Payload Too Large", 415: "Unsupported Media Type", 416: "Range Not Satisfiable",
           422: "Unprocessable Entity", 429: "Too Many Requests", 500: "Internal Server Error",
           501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
           507: "Insufficient Storage"}


class Gone(Exception):
    """The connection ends here, by the peer or by script."""


def framed(text, reply):
    newline = reply.get("newline", "\n")
    if newline != "\n":
        text = text.replace("\n", newline)
    return (b"\xef\xbb\xbf" if reply.get("bom") else b"") + text.encode("utf-8")


def hold(connection, released):
    """Keep silent until the peer goes away or the script releases us."""
    while not released():
        readable, _, _ = select.select([connection], [], [], 0.02)
        if readable and not connection.recv(1, socket.MSG_PEEK):
            raise Gone


def until(released, milliseconds):
    """Released by the script, or by the clock."""
    end = float("inf") if milliseconds is None else time.monotonic() + milliseconds / 1000
    return lambda: released() or time.monotonic() >= end


def cut(connection, reply):
    if reply.get("reset"):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # at once: the server would first say goodbye with a FIN
    raise Gone


def head(status, headers):
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def send_head(connection, status, headers, reply, released):
    """What the script wants to happen before a response, and its head."""
    if reply.get("stall_headers"):
        hold(connection, released)
    if reply.get("close_before_reply"):
        cut(connection, reply)
    closing = {"Connection": "close"} if reply.get("close") else {}
    start = head(status, {**headers, **reply.get("headers", {}), **closing})
    if reply.get("slow_headers"):
        for i in range(len(start)):
            connection.sendall(start[i:i + 1])
            time.sleep(reply["slow_headers"] / 1000)
    else:
        connection.sendall(start)


def send(connection, status, headers, body, reply, released):
    """Send one response; returns whether the connection can serve another request."""
    chunked = not (reply.get("length") or "lie" in reply)
    headers = {**headers, **({"Transfer-Encoding": "chunked"} if chunked else
                             {"Content-Length": len(body) + reply.get("lie", 0)})}
    send_head(connection, status, headers, reply, released)
    writer = Body(connection, reply, released, chunked)
    writer.write(body)
    writer.end()
    if "lie" in reply:
        cut(connection, reply)
    if chunked:
        connection.sendall(b"0\r\n\r\n")
    return not reply.get("close")


class Body:
    """Writes a response's body, piece by piece, and breaks it where the script says."""

    def __init__(self, connection, reply, released, chunked):
        self.connection, self.reply, self.chunked = connection, reply, chunked
        self.done = 0
        self.marks = {}  # byte: what happens there
        if "stall_at" in reply:
            self.marks[reply["stall_at"]] = lambda: hold(connection, until(released, reply.get("stall_ms")))
        if "drop_at" in reply:
            self.marks[reply["drop_at"]] = lambda: cut(connection, reply)

    def write(self, data):
        at = 0
        while at < len(data):
            self.end()
            step = min([self.reply.get("split") or len(data), len(data) - at] +
                       [mark - self.done for mark in self.marks if mark > self.done])
            part = data[at:at + step]
            self.connection.sendall(b"%x\r\n%s\r\n" % (len(part), part) if self.chunked else part)
            if self.reply.get("delay_ms"):
                time.sleep(self.reply["delay_ms"] / 1000)
            at, self.done = at + step, self.done + step

    def end(self):
        """What the script wants to happen behind the last byte written."""
        self.marks.pop(self.done, int)()

"""Puts a response on the connection, whole or broken in the way the script asks for.

Switches of a reply: `newline`, `bom`, `split` (bytes a write), `drop_at`, `stall_at`, `no_headers`, `stall_headers`,
`slow_headers`, `length` (Content-Length instead of chunks), `lie` (a longer Content-Length), `reset`, `close`.
"""
import select
import socket
import struct
import time

REASONS = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden",
           404: "Not Found", 408: "Request Timeout", 409: "Conflict", 413: "Payload Too Large",
           422: "Unprocessable Entity", 429: "Too Many Requests", 500: "Internal Server Error", 502: "Bad Gateway",
           503: "Service Unavailable"}


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


def cut(connection, reply):
    if reply.get("reset"):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # at once: the server would first say goodbye with a FIN
    raise Gone


def head(status, headers):
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def send(connection, status, headers, body, reply, released):
    """Send one response; returns whether the connection can serve another request."""
    if reply.get("close_before_reply"):
        cut(connection, reply)
    if reply.get("stall_headers"):
        hold(connection, released)
    chunked = not (reply.get("length") or "lie" in reply)
    headers = {**headers, **({"Transfer-Encoding": "chunked"} if chunked else
                             {"Content-Length": len(body) + reply.get("lie", 0)})}
    headers.update(reply.get("headers", {}))
    if reply.get("close"):
        headers["Connection"] = "close"
    start = head(status, headers)
    if reply.get("slow_headers"):
        for i in range(len(start)):
            connection.sendall(start[i:i + 1])
            time.sleep(reply["slow_headers"] / 1000)
    else:
        connection.sendall(start)
    send_body(connection, body, reply, released, chunked)
    if "lie" in reply:
        cut(connection, reply)
    if chunked:
        connection.sendall(b"0\r\n\r\n")
    return not (reply.get("close") or reply.get("close_silently"))


def send_body(connection, body, reply, released, chunked):
    step = reply.get("split") or len(body) or 1
    marks = {key: reply[key] for key in ("drop_at", "stall_at") if key in reply}
    done = 0
    while True:
        if done == marks.get("drop_at"):
            cut(connection, reply)
        if done == marks.get("stall_at"):
            del marks["stall_at"]
            hold(connection, released)
        if done == len(body):
            return
        end = min([done + step, len(body)] + [mark for mark in marks.values() if mark > done])
        part = body[done:end]
        connection.sendall(b"%x\r\n%s\r\n" % (len(part), part) if chunked else part)
        if reply.get("delay_ms"):
            time.sleep(reply["delay_ms"] / 1000)
        done = end

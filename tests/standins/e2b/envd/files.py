"""envd's REST side: /files, /health, /metrics, /envs, /init, and who may use what."""
import base64
import errno
import hashlib
import hmac
import mimetypes
import os
import re
import shutil
import time
import zlib
from email.utils import formatdate, parsedate_to_datetime

import connect
import filesystem
import process
import users
from connect import Refused

VERSION = "0.6.13"
token = None
OPEN = {("GET", "/health"), ("GET", "/files"), ("POST", "/files"), ("POST", "/init")}
WHO = "unauthorized access, please provide a valid access token or method signing if supported"
PIECE = 1 << 18


def check_token(method, path, low):
    if token is not None and (method, path) not in OPEN and low.get("x-access-token") != token:
        raise Refused(401, WHO)


def signature(path, operation, user, expires=None):
    raw = ":".join([path, operation, user, token, *([str(expires)] if expires is not None else [])])
    return "v1_" + base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode().rstrip("=")


def check_signature(method, query, low):
    """What /files asks for instead of the token."""
    if token is None:
        return
    if "x-access-token" in low:
        if low["x-access-token"] != token:
            raise Refused(401, "access token present in header but does not match")
        return
    if "signature" not in query:
        raise Refused(401, "missing signature query parameter")
    expires = query.get("signature_expiration")
    right = signature(query.get("path", ""), "read" if method == "GET" else "write", query.get("username", ""), expires)
    if not hmac.compare_digest(query["signature"], right):
        raise Refused(401, "invalid signature")
    if expires is not None and int(expires) < time.time():
        raise Refused(401, "signature is already expired")


def target(query, path, front="error resolving path"):
    name = query.get("username", "")
    try:
        user = users.find(name)
    except KeyError as why:
        raise Refused(401, f"error looking up user '{name}': user: unknown user {name}") from why
    try:
        return user, users.join(user.pw_dir, path)
    except ValueError as why:
        raise Refused(400, f"{front}: {filesystem.expansion(user, why)}") from why


def read(peer, query, low):
    check_signature("GET", query, low)
    path = query.get("path", "")
    _, path = target(query, path, f"error expanding and resolving path '{path}'")
    if os.path.isdir(path):
        raise Refused(400, f"path '{path}' is a directory")
    if not os.path.exists(path):
        raise Refused(404, f"path '{path}' does not exist")
    if "identity;q=0" in low.get("accept-encoding", "").replace(" ", "") and not connect.accepts_gzip(low):
        raise Refused(406, "error parsing Accept-Encoding: no acceptable encoding found, supported: [gzip]")
    kind = mimetypes.guess_type(path)[0] or "text/plain"
    headers = {"Vary": "Accept-Encoding", "Content-Disposition": f"inline; filename={os.path.basename(path)}",
               "Content-Type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind}
    conditional = any(name in low for name in ("range", "if-modified-since", "if-range", "if-none-match"))
    with open(path, "rb") as file:
        if connect.accepts_gzip(low) and not conditional:
            return send_gzip(peer, file, headers)
        return send_identity(peer, file, headers, low)


def send_gzip(peer, file, headers):
    headers |= {"Content-Encoding": "gzip", "Content-Type": "application/octet-stream"}
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    if os.fstat(file.fileno()).st_size < connect.SMALL:
        return peer.answer(200, headers, packer.compress(file.read()) + packer.flush())
    peer.start_chunks(headers)
    while data := file.read(PIECE):
        if packed := packer.compress(data):
            peer.chunk(packed)
    peer.chunk(packer.flush())
    return peer.end_chunks()


def send_identity(peer, file, headers, low):
    about = os.fstat(file.fileno())
    headers |= {"Accept-Ranges": "bytes", "Last-Modified": formatdate(about.st_mtime, usegmt=True)}
    since = low.get("if-modified-since")
    if since and int(about.st_mtime) <= parsedate_to_datetime(since).timestamp():
        return peer.answer(304, headers, b"")
    status, first, size = 200, 0, about.st_size
    given = re.fullmatch(r"bytes=(\d*)-(\d*)", low.get("range", ""))
    if given and any(given.groups()):
        begin, end = given.groups()
        first = int(begin) if begin else max(size - int(end), 0)
        last = min(int(end), size - 1) if begin and end else size - 1
        if first > last:
            del headers["Accept-Ranges"]
            headers["Content-Range"] = f"bytes */{size}"
            return peer.answer(416, headers, b"invalid range: failed to overlap\n")
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        status, size = 206, last - first + 1
    peer.start_body(status, {**headers, "Content-Length": size})
    file.seek(first)
    while size > 0 and (data := file.read(min(PIECE, size))):
        peer.request.sendall(data)
        size -= len(data)
    return size == 0


def metadata(low):
    """The extended attributes that an upload gives its files."""
    found = {name.removeprefix("x-metadata-"): value for name, value in low.items() if name.startswith("x-metadata-")}
    if any(len(name) > 246 or not re.fullmatch(r"[ -~]*", name + value) for name, value in found.items()):
        raise Refused(400, "invalid metadata: keys and values are printable ASCII")
    if sum(len(name) + len(value) for name, value in found.items()) > 4096:
        raise Refused(400, "invalid metadata: more than 4096 bytes")
    return found


def inflated(parts):
    machine, begun = zlib.decompressobj(31), 0
    try:
        for part in parts:
            yield machine.decompress(part)
            begun += len(part)
    except zlib.error as why:
        says = "error writing file: gzip: invalid checksum" if begun else (
            "error decompressing request body: failed to create gzip reader: gzip: invalid header")
        raise Refused(500 if begun else 400, says) from why
    yield machine.flush()
    if begun < 10:  # shorter than gzip's header
        raise Refused(400, "error decompressing request body: failed to create gzip reader: unexpected EOF")
    if not machine.eof:
        raise Refused(500, "error writing file: unexpected EOF")


def write(peer, query, low):
    parts = peer.parts(low)
    try:
        check_signature("POST", query, low)
        notes = metadata(low)
        kind = low.get("content-type", "")
        packed = low.get("content-encoding", "identity")
        if packed not in ("identity", "gzip"):
            raise Refused(400, f"error decompressing request body: unsupported Content-Encoding: {packed}, "
                               "supported: [gzip]")
        body = inflated(parts) if packed == "gzip" else parts
        if kind.partition(";")[0].strip().lower() == "application/octet-stream":
            if not query.get("path"):
                raise Refused(400, "path query parameter is required for raw body upload")
            found = [store(query, query["path"], body, notes, low.get("content-length"))]
        elif kind.lower().startswith("multipart/"):
            found = several(query, kind, body, notes)
        else:
            raise Refused(400, f"unsupported content type: {kind}, expected multipart/form-data or "
                               "application/octet-stream")
    finally:
        for _ in parts:  # what is left of the body, so that the connection can go on
            pass
    # Go finds the type of what has none by its first bytes.
    return peer.answer(200, {"Content-Type": "text/plain; charset=utf-8"}, connect.dump(found))


def store(query, path, body, notes, length=None):
    user, path = target(query, path)
    if os.path.isdir(path):
        raise Refused(400, f"path is a directory: {path}")
    try:
        users.make_folders(os.path.dirname(path), user)
    except NotADirectoryError as why:
        raise Refused(500, f"error ensuring directories: {why}") from why
    try:
        with open(path, "wb") as file:
            users.own(path, user)
            for part in body:
                file.write(part)
        for name in os.listxattr(path):
            if name.startswith("user.e2b."):
                os.removexattr(path, name)
        for name, value in notes.items():
            os.setxattr(path, f"user.e2b.{name}", value.encode())
    except OSError as why:
        if why.errno in (errno.ENOSPC, errno.EDQUOT):
            front = f"attempted to write {length} bytes: " if length else ""
            raise Refused(507, f"{front}not enough disk space available") from why
        raise Refused(500, f"error writing file: {why}") from why
    found = {"metadata": notes} if notes else {}
    return {**found, "name": os.path.basename(path), "path": path, "type": "file"}


def several(query, kind, body, notes):
    """A multipart body: every part named `file` becomes a file."""
    boundary = re.search(r'boundary="?([^";]+)"?', kind)
    if not boundary:
        raise Refused(500, "error parsing multipart form: no multipart boundary param in Content-Type")
    pieces = (b"\r\n" + b"".join(body)).split(b"\r\n--" + boundary[1].encode())
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise Refused(500, "error reading form: multipart: NextPart: EOF")
    wanted = []
    for piece in pieces[1:-1]:
        head, _, data = piece.partition(b"\r\n\r\n")
        name, filename = (re.search(rb'[ ;]%s="([^"]*)"' % word, head) for word in (b"name", b"filename"))
        if name and name[1] == b"file":
            wanted.append((query.get("path") or (filename[1].decode() if filename else ""), data))
    if query.get("path") and len(wanted) > 1:
        raise Refused(400, "you cannot upload multiple files to the same path, only one file can be uploaded when "
                           "path is given")
    return [store(query, path, [data], notes) for path, data in wanted]


def metrics():
    memory = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            name, value = line.split(":")
            memory[name] = int(value.split()[0]) * 1024
    used, disk = memory["MemTotal"] - memory["MemAvailable"], shutil.disk_usage("/")
    return {"ts": int(time.time()), "cpu_count": os.cpu_count(), "cpu_used_pct": 1.5,
            "mem_total_mib": memory["MemTotal"] >> 20, "mem_used_mib": used >> 20, "mem_total": memory["MemTotal"],
            "mem_used": used, "mem_cache": memory["Cached"], "disk_used": disk.used, "disk_total": disk.total}


def init(message):
    """What the provider sets when the machine starts; the proxy keeps everybody else out."""
    global token
    token = message.get("accessToken")
    process.ENVIRONMENT.clear()
    process.ENVIRONMENT.update(message.get("envVars", {}))
    users.default = message.get("defaultUser", users.default)
    connect.spaces = message.get("spaces", False)

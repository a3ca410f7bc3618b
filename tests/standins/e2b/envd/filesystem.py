"""filesystem.Filesystem without its watchers."""
import contextlib
import datetime
import grp
import os
import pwd
import shutil
import stat

import users
from connect import Failure

TYPES = {stat.S_IFREG: "FILE_TYPE_FILE", stat.S_IFDIR: "FILE_TYPE_DIRECTORY"}
LETTERS = {stat.S_IFDIR: "d", stat.S_IFLNK: "L", stat.S_IFIFO: "p", stat.S_IFSOCK: "S", stat.S_IFBLK: "D",
           stat.S_IFCHR: "Dc"}
SPECIAL = ((stat.S_ISUID, "u"), (stat.S_ISGID, "g"), (stat.S_ISVTX, "t"))


def expansion(user, why):
    """That a path cannot be made absolute, in the daemon's words: it does not say which."""
    return f"failed to expand path '' for user '{user.pw_name}': {why}"


def resolve(user, path):
    try:
        return users.join(user.pw_dir, path)
    except ValueError as why:
        raise Failure("invalid_argument", expansion(user, why)) from why


def permissions(mode):
    """As Go prints a mode."""
    front = LETTERS.get(stat.S_IFMT(mode), "") + "".join(letter for bit, letter in SPECIAL if mode & bit)
    return (front or "-") + "".join(letter if mode >> 8 - at & 1 else "-" for at, letter in enumerate("rwxrwxrwx"))


def metadata_of(path):
    try:
        names = [name for name in os.listxattr(path) if name.startswith("user.e2b.")]
        return {name.removeprefix("user.e2b."): os.getxattr(path, name).decode() for name in names}
    except OSError:
        return {}


def entry(path):
    try:
        own = os.lstat(path)
    except FileNotFoundError as why:
        raise Failure("not_found", f"file not found: lstat {path}: no such file or directory") from why
    except NotADirectoryError as why:
        raise Failure("internal", f"error getting file info: lstat {path}: not a directory") from why
    target, there = own, True
    if stat.S_ISLNK(own.st_mode):
        try:
            target = os.stat(path)
        except OSError:
            there = False
    found = {"name": os.path.basename(path.rstrip("/")) or "/", "path": path,
             "mode": target.st_mode & 0o777 if there else 0,
             "permissions": permissions(own.st_mode), "owner": users.name_of(own.st_uid, pwd.getpwuid, "pw_name"),
             "group": users.name_of(own.st_gid, grp.getgrgid, "gr_name"), "size": str(own.st_size),
             "modifiedTime": moment(own.st_mtime_ns), "metadata": metadata_of(path) if there else {}}
    if there and stat.S_IFMT(target.st_mode) in TYPES:
        found["type"] = TYPES[stat.S_IFMT(target.st_mode)]
    if stat.S_ISLNK(own.st_mode):
        found["symlinkTarget"] = os.path.realpath(path) if there else path
    return {key: value for key, value in found.items() if value not in ("", 0, "0", {})}


def moment(nanoseconds):
    """RFC 3339 with 0, 3, 6 or 9 decimals, as protojson gives it."""
    seconds, rest = divmod(nanoseconds, 10**9)
    text = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    decimals = f"{rest:09d}" if rest else ""
    while decimals.endswith("000"):
        decimals = decimals[:-3]
    return text + ("." + decimals if decimals else "") + "Z"


def status(message, user):
    return {"entry": entry(resolve(user, message.get("path", "")))}


def make_folder(message, user):
    path = resolve(user, message.get("path", ""))
    if os.path.isdir(path):
        raise Failure("already_exists", f"directory already exists: {path}")
    if os.path.exists(path):
        raise Failure("invalid_argument", f"path already exists but it is not a directory: {path}")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.stat(path)
    except NotADirectoryError as why:
        raise Failure("internal", f"error getting file info: stat {path}: not a directory") from why
    try:
        users.make_folders(path, user)
    except OSError as why:
        raise Failure("internal", f"failed to create directory: {why}") from why
    return {"entry": entry(path)}


def move(message, user):
    source = resolve(user, message.get("source", ""))
    destination = resolve(user, message.get("destination", ""))
    try:
        users.make_folders(os.path.dirname(destination), user)
        os.rename(source, destination)
    except FileNotFoundError as why:
        raise Failure("not_found", f"source file not found: rename {source} {destination}: no such file or "
                                   "directory") from why
    except OSError as why:
        raise Failure("internal", f"error renaming: {why}") from why
    return {"entry": entry(destination)}


def remove(message, user):
    path = resolve(user, message.get("path", ""))
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass
    except NotADirectoryError as why:
        raise Failure("internal", f"error removing file or directory: unlinkat {path}: not a directory") from why
    except OSError as why:
        raise Failure("internal", f"error removing file or directory: {why}") from why
    return {}


def folder(path):
    """Where a folder really is."""
    try:
        found = os.path.realpath(path, strict=True)
    except FileNotFoundError as why:
        raise Failure("not_found", f"path not found: lstat {path}: no such file or directory") from why
    except OSError as why:
        raise Failure("failed_precondition", f'cyclic symlink or chain >255 links at "{path}"') from why
    if not os.path.isdir(found):
        raise Failure("invalid_argument", f"path is not a directory: {found}")
    return found


def walk(real, asked, depth):
    """Every entry below, lexically, depth first, under the name that was asked for."""
    waiting = [(name, 1) for name in sorted(os.listdir(real), reverse=True)]
    while waiting:
        name, level = waiting.pop()
        path = os.path.join(real, name)
        try:
            yield {**entry(path), "path": os.path.join(asked, name)}
            if level < depth and os.path.isdir(path) and not os.path.islink(path):
                inner = sorted(os.listdir(path), reverse=True)
                waiting += [(os.path.join(name, below), level + 1) for below in inner]
        except Failure:  # gone meanwhile
            pass


def list_folder(message, user):
    asked = resolve(user, message.get("path", ""))
    found = list(walk(folder(asked), asked, message.get("depth") or 1))
    return {"entries": found} if found else {}

"""Users of the machine, and paths as they mean them."""
import grp
import os
import pwd

default = "user"


def may_change():
    """Whether processes can get other users; an ordinary user's machine has one number only, for root and user."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return int(file.read().split()[2]) > 1


def find(name):
    """The entry of a user; KeyError when there is none."""
    return pwd.getpwnam(name or default)


def join(home, path):
    """An absolute path from what a request says."""
    if path.startswith("~"):
        if path[1:2] not in ("", "/"):
            raise ValueError("cannot expand user-specific home dir")
        path = home + path[1:]
    if path.startswith("/"):
        return path
    return os.path.normpath(os.path.join(home, path))


def own(path, user):
    if may_change():
        os.lchown(path, user.pw_uid, user.pw_gid)


def make_folders(path, user):
    """mkdir -p; new ones belong to the user."""
    built = "/"
    for name in path.split("/"):
        built = os.path.join(built, name)
        try:
            os.mkdir(built, 0o755)
            own(built, user)
        except FileExistsError:
            if not os.path.isdir(built):
                raise NotADirectoryError(f"path is a file: {built}") from None


def credentials(user):
    """How subprocess.Popen becomes that user."""
    if not may_change():
        return {}
    groups = [entry.gr_gid for entry in grp.getgrall() if user.pw_name in entry.gr_mem]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}


def name_of(number, table, field):
    """The name of a user or group number, else the number as text."""
    try:
        return getattr(table(number), field)
    except KeyError:
        return str(number)

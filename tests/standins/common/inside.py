"""The first program inside a machine: its network card, and what it finds there when it starts.

Its argument is the number of a listening Unix socket: the network card. A connection begins with a line `PORT n`; one n
is the daemon itself, every other one a TCP port of the machine, answered `open` or `closed` first. With a second
argument, the provider's own daemon, this program is the network card only.
"""
import os
import resource
import select
import socket
import subprocess
import sys

import http1
import send
import users


class Peer(http1.Peer):
    """A connection; a daemon gives `one_request`."""
    timeout = 86400

    def handle(self):
        try:
            port = int(self.line().removeprefix("PORT "))
            if port == self.server.daemon_port:
                self.one_request()
            else:
                splice(self.request, port)
        except (send.Gone, OSError):
            pass


def splice(near, port):
    """Pass bytes between a connection and a port of this machine."""
    try:
        far = socket.create_connection(("127.0.0.1", port), timeout=5)
    except OSError:
        near.sendall(b"closed\n")
        return
    near.sendall(b"open\n")
    with far:
        other = {near: far, far: near}
        while True:
            for ready in select.select([near, far], [], [])[0]:
                data = ready.recv(65536)
                if not data:
                    return
                other[ready].sendall(data)


class Server(http1.Server):
    address_family = socket.AF_UNIX

    def __init__(self, listener, peer, daemon_port):
        super().__init__(("127.0.0.1", 0), peer, bind_and_activate=False)
        self.daemon_port = daemon_port
        self.socket.close()
        self.socket = socket.socket(fileno=listener)


def furnish():
    """The files that a machine has when it starts."""
    uid = 1000 if users.may_change() else 0
    texts = {"passwd": f"user:x:{uid}:{uid}::/home/user:/bin/bash\nroot:x:0:0:root:/root:/bin/bash\n"
                       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
             "group": f"user:x:{uid}:\nroot:x:0:\nnogroup:x:65534:\n", "hosts": "127.0.0.1 localhost\n",
             "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n", "hostname": "e2b.local\n",
             "profile": "export PS1='$ '\n"}
    for name, text in texts.items():
        with open(f"/etc/{name}", "w", encoding="ascii") as file:
            file.write(text)
    for path, mode in (("/home/user", 0o755), ("/root", 0o700), ("/tmp", 0o1777), ("/var/tmp", 0o1777), *(
            (path, 0o755) for path in ("/etc", "/home", "/var", "/run"))):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
    for path, folders, _ in os.walk("/run/standins"):
        if os.access(path, os.W_OK):  # on the way to what is mounted
            os.chmod(path, 0o755)
    for path in ("/home/user", "/workspace"):
        if os.path.isdir(path):
            users.own(path, users.find("user"))


def serve(peer, daemon_port, *words):
    """`words` are those that the provider's own daemon wants behind its name."""
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    furnish()
    if len(sys.argv) > 2:
        daemon_port = None
        subprocess.Popen([sys.argv[2], *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    Server(int(sys.argv[1]), peer, daemon_port).serve_forever(poll_interval=60)

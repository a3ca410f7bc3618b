"""HTTP/1.1 as a server reads it, by hand, so that a stand-in can see and break every byte."""
import socket
import socketserver
import ssl
import sys
import threading
import time

import send

MAX_BODY = 256 << 20


class Reader:
    """What is read from `request`, a socket; `buffer` holds what came too early."""
    request, buffer = None, b""

    def more(self):
        data = self.request.recv(65536)
        if not data:
            raise send.Gone
        self.buffer += data

    def receive(self, size):
        while len(self.buffer) < size:
            self.more()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def line(self):
        while b"\n" not in self.buffer:
            self.more()
        return self.receive(self.buffer.index(b"\n") + 1).rstrip(b"\r\n").decode("latin-1")

    def head(self):
        """The three words of the first line, and the headers."""
        words = (self.line() + "  ").split(" ", 2)
        headers = []
        while line := self.line():
            name, _, value = line.partition(":")
            headers.append((name, value.strip()))
        return words, headers

    def parts(self, low):
        """The body in pieces, as they come."""
        if low.get("transfer-encoding", "").lower() == "chunked":
            while size := int(self.line().partition(";")[0], 16):
                yield from self.exactly(size)
                self.line()
            self.line()
        else:
            yield from self.exactly(int(low.get("content-length", 0)))

    def exactly(self, size):
        while size:
            if not self.buffer:
                self.more()
            data, self.buffer = self.buffer[:size], self.buffer[size:]
            size -= len(data)
            yield data

    def body(self, low):
        """All of it; longer ones are cut off."""
        data = bytearray()
        for part in self.parts(low):
            data += part[:MAX_BODY - len(data)]
        return bytes(data)


class Peer(Reader, socketserver.BaseRequestHandler):
    """One connection; `one_request` answers a request and says whether another may follow."""
    timeout = 120

    def setup(self):
        self.served = 0
        self.request.settimeout(self.timeout)
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        if self.request.family != socket.AF_UNIX:
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle(self):
        try:
            while self.one_request():
                self.served += 1
        except (send.Gone, OSError):
            pass

    def one_request(self):
        raise NotImplementedError

    def parts(self, low):
        if low.get("expect", "").lower() == "100-continue":
            self.request.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return super().parts(low)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024
    tls = None

    def get_request(self):
        connection, address = self.socket.accept()
        if self.tls:  # the handshake is made in the connection's own thread
            connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve(handler, args):
    """Listen on two ports, tell them, and stay until the end of stdin (--until-eof) or for ever."""
    service, side = Server(("127.0.0.1", 0), handler), Server(("127.0.0.1", 0), handler)
    if "--tls" in args:
        at = args.index("--tls")
        service.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        service.tls.load_cert_chain(args[at + 1], args[at + 2])
    for server in (service, side):
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 60}, daemon=True).start()
    print(f"PORT {service.server_address[1]}\nCONTROL {side.server_address[1]}", flush=True)
    if "--until-eof" in args:
        sys.stdin.buffer.read()
    else:
        while True:
            time.sleep(3600)

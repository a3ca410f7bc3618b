#!/usr/bin/env python3
"""A TLS server with a fresh self-signed certificate for localhost, in the folder given.

Prints its port; answers every request with "secure". Ends when its standard input does.
"""

import contextlib
import http.server
import os
import ssl
import subprocess
import sys
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '6')
        self.end_headers()
        self.wfile.write(b'secure')

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that refuses the certificate is what some tests are about."""


def main():
    key, certificate = (os.path.join(sys.argv[1], name) for name in ('key.pem', 'ca.pem'))
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                    'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=waldo-test',
                    '-addext', 'subjectAltName=DNS:localhost', '-keyout', key, '-out',
                    certificate], check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = Server(('127.0.0.1', 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True,
                                        do_handshake_on_connect=False)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with contextlib.suppress(OSError):
        sys.stdin.read()


if __name__ == '__main__':
    main()

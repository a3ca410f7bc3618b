"""A proxy between waldo and a real model server: passes everything on as it comes, keeps every exchange."""
import http.client
import http.server
import threading
import urllib.parse


class Recorder:
    """`url` stands for the base `target` (http://HOST:PORT/v1); `exchanges` holds (method, path, request, reply)."""

    def __init__(self, target):
        self.target = urllib.parse.urlsplit(target)
        self.exchanges = []
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self):
                recorder.pass_on(self)

            do_GET = do_POST = pass_on

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}{self.target.path}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def pass_on(self, handler):
        request = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        exchange = [handler.command, handler.path, request, b""]
        self.exchanges.append(exchange)
        there = http.client.HTTPConnection(self.target.netloc, timeout=600)
        try:
            headers = {name: handler.headers[name] for name in ("Content-Type", "Accept") if name in handler.headers}
            there.request(handler.command, handler.path, request, headers)
            response = there.getresponse()
            handler.send_response(response.status)
            handler.send_header("Content-Type", response.headers.get("Content-Type", "application/json"))
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            while part := response.read1(65536):
                exchange[3] += part
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            handler.wfile.write(b"0\r\n\r\n")
        finally:
            there.close()

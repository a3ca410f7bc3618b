"""The code interpreter behind port 49999: Python contexts, each a process that keeps its variables.

    /usr/bin/python3 interpreter.py            serves
    /usr/bin/python3 interpreter.py --kernel   is one context: JSON lines {code, env_vars} in, events out
"""
import ast
import contextlib
import datetime
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import traceback
import uuid

sys.path.append(str(pathlib.Path(__file__).parents[2] / "common"))
import http1  # noqa: E402
import send  # noqa: E402

PORT = 49999
PYTHON = {"python", "python3"}
FORMS = {"_repr_html_": "html", "_repr_markdown_": "markdown", "_repr_svg_": "svg", "_repr_png_": "png",
         "_repr_jpeg_": "jpeg", "_repr_latex_": "latex", "_repr_json_": "json", "_repr_javascript_": "javascript",
         "_repr_pdf_": "pdf"}


# --- a context -------------------------------------------------------------------------------------------

class Says(io.TextIOBase):
    """Standard output or error of the user's code."""

    def __init__(self, tell, kind):
        self.tell, self.kind = tell, kind

    def writable(self):
        return True

    def write(self, text):
        if text:
            moment = datetime.datetime.now(datetime.timezone.utc).isoformat()
            self.tell({"type": self.kind, "text": text, "timestamp": moment})
        return len(text)


def result(value, main):
    """What a value looks like, in every form it has."""
    text = repr(value)
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    found = {"type": "result", "text": text, "is_main_result": main, "extra": {}}
    for method, name in FORMS.items():
        if hasattr(type(value), method) and (shown := getattr(value, method)()) is not None:
            found[name] = shown
    if isinstance(value, (dict, list)):
        found["json"] = json.loads(json.dumps(value, default=repr))
    return found


def execute(code, space):
    """Run the statements; the value of the last one when it is an expression."""
    tree = ast.parse(code, "<cell>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), space)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), space) if last else None


def kernel():
    """Read cells from stdin for ever, tell their events on what stdout was."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(event):
        out.write(json.dumps(event) + "\n")
        out.flush()

    def display(*values):
        for value in values:
            tell(result(value, False))

    space = {"__name__": "__main__", "display": display}
    count = 0
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        cell = json.loads(line)
        count += 1
        tell({"type": "number_of_executions", "execution_count": count})
        before = dict(os.environ)
        os.environ.update(cell.get("env_vars") or {})
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with contextlib.redirect_stdout(Says(tell, "stdout")), contextlib.redirect_stderr(Says(tell, "stderr")):
                value = execute(cell["code"], space)
            if value is not None:
                tell(result(value, True))
        except BaseException as why:
            tell({"type": "error", "name": type(why).__name__, "value": str(why),
                  "traceback": traceback.format_exc()})
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.environ.clear()
            os.environ.update(before)
        tell({"type": "end_of_execution"})


# --- the service -----------------------------------------------------------------------------------------

class Context:
    process = None

    def __init__(self, language, cwd):
        self.language, self.cwd, self.lock = language, cwd, threading.Lock()
        self.id = str(uuid.uuid4())
        self.restart()

    def about(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    def restart(self):
        self.end()
        self.process = subprocess.Popen([sys.executable, "-B", __file__, "--kernel"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, cwd=self.cwd)

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def run(self, code, variables):
        """The events of one cell."""
        self.process.stdin.write(json.dumps({"code": code, "env_vars": variables}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            yield line
            if json.loads(line)["type"] == "end_of_execution":
                return
        yield json.dumps({"type": "error", "name": "UnexpectedEndOfExecution", "traceback": "",
                          "value": "Connection to the execution was closed before the execution was finished"}) + "\n"
        yield '{"type": "end_of_execution"}\n'


class Refused(Exception):
    def __init__(self, status, says):
        super().__init__(says)
        self.status, self.says = status, says


contexts, defaults, lock = {}, {}, threading.Lock()


def context_of(body):
    """The context that a cell is for; one for each language is there without being asked for."""
    name, language = body.get("context_id"), body.get("language")
    if name and language:
        raise Refused(400, "Only one of context_id or language can be provided")
    with lock:
        if name:
            return known(name)
        language = language or "python"
        if language not in PYTHON:
            raise Refused(500, f"no kernel for {language} in this stand-in")
        if "python" not in defaults:
            defaults["python"] = Context("python", "/home/user")
            contexts[defaults["python"].id] = defaults["python"]
        return defaults["python"]


def known(name):
    if name not in contexts:
        raise Refused(404, f"Context {name} not found")
    return contexts[name]


class Peer(http1.Peer):
    timeout = 86400

    def one_request(self):
        (method, target, _), headers = self.head()
        raw = self.body({name.lower(): value for name, value in headers})
        parts = target.partition("?")[0].strip("/").split("/")
        try:
            if (method, parts) == ("GET", ["health"]):
                return self.tell("OK")
            if (method, parts) == ("POST", ["execute"]):
                return self.execute(json.loads(raw))
            if parts[0] == "contexts":
                return self.contexts(method, parts, json.loads(raw or b"{}"))
            raise Refused(404, '{"detail":"Not Found"}')
        except Refused as why:
            return self.tell(None, why.status, why.says.encode(), "text/plain; charset=utf-8")

    def tell(self, value, status=200, body=None, kind="application/json"):
        body = json.dumps(value).encode() if body is None else body
        self.request.sendall(send.head(status, {"Content-Type": kind, "Content-Length": len(body)}) + body)
        return True

    def contexts(self, method, parts, body):
        if (method, len(parts)) == ("GET", 1):
            return self.tell([context.about() for context in list(contexts.values())])
        if (method, len(parts)) == ("POST", 1):
            language, cwd = body.get("language") or "python", body.get("cwd") or "/home/user"
            if language not in PYTHON:
                raise Refused(500, f"no kernel for {language} in this stand-in")
            if not os.path.isdir(cwd):
                raise Refused(500, "Failed to create context")
            made = Context("python", cwd)
            contexts[made.id] = made
            return self.tell(made.about())
        chosen = known(parts[1])
        if (method, len(parts)) == ("DELETE", 2):
            del contexts[chosen.id]
            if defaults.get("python") is chosen:
                del defaults["python"]
            chosen.end()
            return self.tell(None)
        if method == "POST" and parts[2:] == ["restart"]:
            chosen.restart()
            return self.tell(None)
        raise Refused(404, '{"detail":"Not Found"}')

    def execute(self, body):
        if not isinstance(body.get("code"), str):
            detail = [{"type": "missing", "loc": ["body", "code"], "msg": "Field required"}]
            return self.tell({"detail": detail}, 422)
        context = context_of(body)
        self.sending = threading.Lock()
        with context.lock:
            self.request.sendall(send.head(200, {"Transfer-Encoding": "chunked"}))
            watch = threading.Thread(target=self.interrupt_when_left, args=[context], daemon=True)
            self.running = True
            watch.start()
            events = context.run(body["code"], body.get("env_vars"))
            for line in events:
                if self.running:
                    self.pass_on(line)
            self.running = False
        self.request.sendall(b"0\r\n\r\n")
        return False

    def pass_on(self, line):
        try:
            with self.sending:
                self.request.sendall(b"%x\r\n%s\r\n" % (len(line), line.encode()))
        except OSError:  # the kernel still has to come to its end
            self.running = False

    def interrupt_when_left(self, context):
        """The client goes away in the middle of a cell: stop that."""
        silent = 0
        while self.running:
            try:
                send.hold(self.request, send.until(lambda: not self.running, 200))
                silent += 1
                if silent % 25 == 0:  # five seconds
                    self.pass_on('{"type": "keepalive"}\n')
            except (send.Gone, OSError):
                self.running = False
                context.process.send_signal(signal.SIGINT)


class Server(http1.Server):
    def __init__(self):
        super().__init__(("127.0.0.1", PORT), Peer)


if __name__ == "__main__":
    if "--kernel" in sys.argv:
        kernel()
    else:
        Server().serve_forever(poll_interval=60)

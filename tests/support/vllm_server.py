"""A stand-in for `vllm serve` that crashes, hangs or fails on request. It listens on a Unix socket.

    python vllm_server.py SOCKET [--sequences N] [--most N] [--memory M] [--free F] [--long] [--child FILE]
        [--starts FILE] [--taken N] [--deaf]

It prints the messages of vLLM 0.32.

- A file `broken.so` in vLLM's cache folder prevents the start.
- More `--sequences` than `--most` run out of memory; with `--most -1` that happens before the weights are loaded, and
  with `--long` because of the context.
- More `--memory` than is `--free` prevents the start.
- The first `--taken` of the counted starts find a port that another process has.
- `--deaf` never answers; `--child` starts a process that ignores SIGTERM, and writes its id; `--starts` counts starts.

Words in a request's text: `die` kills the server, `oom` runs out of memory first, `fail` is answered with 500, `unwell`
makes `/health` fail, `freeze` stops the process, `hang` is never answered, and `long` is answered after the counters
were read `LONG` times, which increase each time.
"""

import argparse
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

LONG = 20
NO_CACHE = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"
CONTEXT = (
    "ValueError: To serve at least one request with the model's max seq len (32768), (4.5 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (2.1 GiB). Based on the available memory, the estimated "
    "maximum model length is 15296. Try increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU "
    "backend) or decreasing `max_model_len` when initializing the engine."
)
NOT_FREE = (
    "ValueError: Free memory on device cuda:0 ({free}/1.0 GiB) on startup is less than desired GPU memory utilization "
    "({memory}, {memory} GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


class Handler(BaseHTTPRequestHandler):
    health = 200
    counted = 0
    counts = threading.Event()
    long_enough = threading.Event()

    def address_string(self) -> str:
        return "socket"

    def do_GET(self) -> None:
        if self.path != "/metrics":
            self._answer(Handler.health, {})
            return
        Handler.counted += Handler.counts.is_set()
        if Handler.counted == LONG:
            Handler.long_enough.set()
        # Python's own counters go on whatever the engine does.
        self._send(200, f"python_gc_objects_total {time.monotonic()}\nvllm:tokens_total {Handler.counted}\n".encode())

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = request["messages"][1]["content"][1]["text"]
        if "oom" in text:
            print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", flush=True)
        if "die" in text or "oom" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "freeze" in text:
            os.kill(os.getpid(), signal.SIGSTOP)  # this thread goes on until another one has taken the signal
        if "freeze" in text or "hang" in text:
            threading.Event().wait()
        if "long" in text:
            Handler.counts.set()
            Handler.long_enough.wait()
        if "unwell" in text:
            Handler.health = 503
        if "fail" in text:
            self._answer(500, {"error": {"message": "EngineCore encountered an issue."}})
            return
        if "refuse" in text:
            self._answer(400, {"error": {"message": text}})
            return
        choice = {"message": {"content": text}, "finish_reason": "stop"}
        self._answer(200, {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})

    def _answer(self, status: int, body: dict[str, object]) -> None:
        self._send(status, json.dumps(body).encode())

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("socket")
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--most", type=int, default=1000)
    parser.add_argument("--memory", type=float, default=0.0)
    parser.add_argument("--free", type=float, default=1.0)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--child", type=Path)
    parser.add_argument("--starts", type=Path)
    parser.add_argument("--taken", type=int, default=0)
    parser.add_argument("--deaf", action="store_true")
    arguments = parser.parse_args()
    print("serving", arguments.sequences, flush=True)
    if arguments.starts:
        arguments.starts.open("a").write("x")
    if arguments.child:
        arguments.child.write_text(str(subprocess.Popen([sys.executable, "-c", STUBBORN]).pid))
    if arguments.deaf:
        signal.pause()
    if (Path(os.environ.get("VLLM_CACHE_ROOT", "")) / "broken.so").exists():
        print("ImportError: broken.so: file too short", flush=True)
        sys.exit(1)
    if arguments.starts and len(arguments.starts.read_text()) <= arguments.taken:
        print("OSError: [Errno 98] Address already in use", flush=True)
        sys.exit(1)
    if arguments.memory > arguments.free:
        print(NOT_FREE.format(free=arguments.free, memory=arguments.memory), flush=True)
        sys.exit(1)
    if arguments.most >= 0:
        print("Loading weights took 0.01 seconds", flush=True)
    if arguments.sequences > arguments.most:
        print(CONTEXT if arguments.long else NO_CACHE, flush=True)
        sys.exit(1)
    socketserver.ThreadingUnixStreamServer(arguments.socket, Handler).serve_forever()


if __name__ == "__main__":
    main()

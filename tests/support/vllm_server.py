"""A stand-in for `vllm serve` where a test needs a server that dies: it answers on a socket what it is told.

    python served.py SOCKET [--sequences N] [--most N] [--memory M] [--free F] [--long] [--child FILE] [--starts FILE]
        [--deaf]

With a file `broken.so` in vLLM's cache it does not start. With more `--sequences` than `--most` it runs out of memory,
and with `--most -1` before it has loaded its weights; `--long` has it say that the context is what does not fit. With
more `--memory` than is `--free` it does not start either. Of memory it speaks in the words of vLLM 0.32.
A request whose text holds `die` kills it, `oom` lets it run out of memory first; `fail` is answered with 500, and
`unwell` ends its health. `freeze` stops its process; `hang` is never answered, and `long` when its counters were asked
for as often as `LONG`, which count something each time. `--child` starts a process that outlives a SIGTERM and writes
its id; `--starts` counts the starts.
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
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = asked["messages"][1]["content"][1]["text"]
        if "oom" in text:
            print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", flush=True)
        if "die" in text or "oom" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "freeze" in text:
            os.kill(os.getpid(), signal.SIGSTOP)
        if "hang" in text:
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
    parser.add_argument("--deaf", action="store_true")
    given = parser.parse_args()
    print("serving", given.sequences, flush=True)
    if given.starts:
        given.starts.open("a").write("x")
    if given.child:
        given.child.write_text(str(subprocess.Popen([sys.executable, "-c", STUBBORN]).pid))
    if given.deaf:
        signal.pause()
    if (Path(os.environ.get("VLLM_CACHE_ROOT", "")) / "broken.so").exists():
        print("ImportError: broken.so: file too short", flush=True)
        sys.exit(1)
    if given.memory > given.free:
        print(NOT_FREE.format(free=given.free, memory=given.memory), flush=True)
        sys.exit(1)
    if given.most >= 0:
        print("Loading weights took 0.10 seconds", flush=True)
    if given.sequences > given.most:
        print(CONTEXT if given.long else NO_CACHE, flush=True)
        sys.exit(1)
    socketserver.ThreadingUnixStreamServer(given.socket, Handler).serve_forever()


if __name__ == "__main__":
    main()

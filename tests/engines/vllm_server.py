"""`vllm serve` on the CPU as a child process, for tests of what the real server does."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

ROOT = Path(__file__).parents[2]
MODEL = "tiny"

needs_vllm = pytest.mark.skipif(
    find_spec("vllm") is None, reason="vLLM's CPU build is not installed: make .venv/vllm says why"
)

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",  # with more, times swing twenty-fold on two cores
    # Looking into an architecture takes a process of its own and half a minute; what it finds is kept here.
    "VLLM_CACHE_ROOT": str(ROOT / "build" / "vllm-cache"),
    "VLLM_NO_USAGE_STATS": "1",
}
ARGUMENTS = [
    f"--served-model-name={MODEL}",
    "--enforce-eager",
    "--max-model-len=2048",
    "--max-num-seqs=8",
    f"--kv-cache-memory-bytes={64 << 20}",  # the default is a share of the machine's memory
    "--generation-config=vllm",
    "--mm-encoder-tp-mode=data",
    "--trust-request-mm-kwargs",
    '--structured-outputs-config={"backend": "guidance", "disable_any_whitespace": true}',
]


class Server:
    """A server that is ready, and its group of processes."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, client: httpx.Client) -> None:
        self.process = process
        self.log = log
        self.client = client

    def ask(self, *content: dict[str, Any], **parameters: Any) -> httpx.Response:
        """One chat completion, greedy and of 8 tokens unless told otherwise."""
        message = {"role": "user", "content": list(content)}
        body = {"model": MODEL, "messages": [message], "temperature": 0, "max_tokens": 8, **parameters}
        return self.client.post("/v1/chat/completions", json=body)

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for what is left of the group."""
        self.process.terminate()
        self.process.wait(30)
        while left := members(self.process.pid):
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.05)


@contextmanager
def serving(checkpoint: Path, media: Path, folder: Path) -> Iterator[Server]:
    """A server of `checkpoint` that may read below `media`; `folder` takes its socket and its log."""
    socket, log = folder / "vllm.sock", folder / "vllm.log"
    command = [Path(sys.executable).with_name("vllm"), "serve", checkpoint, f"--uds={socket}", *ARGUMENTS]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, f"--allowed-local-media-path={media}"],
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    transport = httpx.HTTPTransport(uds=str(socket))
    with httpx.Client(transport=transport, base_url="http://vllm", timeout=120) as client:
        server = Server(process, log, client)
        try:
            _wait(server)
            yield server
        finally:
            server.stop()


def _wait(server: Server) -> None:
    """Wait until it answers. Until the model is loaded nobody listens on the socket."""
    while server.process.poll() is None:
        try:
            if server.client.get("/health").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    pytest.fail(f"vLLM ended with {server.process.returncode}:\n{server.log.read_text()[-5000:]}")


def members(group: int) -> list[int]:
    """The living processes of a group."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = status.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(status.parent.name))
    return found


def words(text: str) -> dict[str, Any]:
    """A part of a message that is text."""
    return {"type": "text", "text": text}


def image(path: Path) -> dict[str, Any]:
    """A part of a message that is an image on disk."""
    return {"type": "image_url", "image_url": {"url": path.as_uri()}}


def video(path: Path) -> dict[str, Any]:
    """A part of a message that is a video on disk."""
    return {"type": "video_url", "video_url": {"url": path.as_uri()}}


def json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The `response_format` that asks for an answer of a schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


def message(answer: httpx.Response) -> str:
    """The error of a refused request."""
    return str(json.loads(answer.content)["error"]["message"])

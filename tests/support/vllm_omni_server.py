"""A stand-in for `vllm-omni serve`, for tests of faults that the real server cannot be made to have.

    python vllm_omni_server.py SOCKET RECORD

It answers vLLM-Omni's API on a socket with noise of the requested size and length, and appends each request to the file
RECORD as a line of JSON. Words in a prompt change its behavior:

- `single`: one frame. `small`: another size. `mute`: no sound. `broken`: content that is no image or video.
- `fail`: the job fails with 500. `refuse`: with 400. `memory`: with an out-of-memory message.
- `gone`: the finished video is not found. `nonsense`: the response names no job.
- `die`: the server kills itself. `starve`: it prints an out-of-memory error first.
- `slow`: the job takes half a second. `stuck`: it never completes. `lingers`: its steps are done, but it completes only
  when another job has been sent.
- `block`: a guardrail refuses the prompt. `unjudged`: a guardrail cannot judge it. `unheard`: no verdict is reported.
  Otherwise verdicts are reported as our plugin reports those of the real server.
"""

import base64
import io
import json
import os
import re
import signal
import socketserver
import sys
import tempfile
import time
from fractions import Fraction
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from cosmos_batch.engines.generator.vllm_omni.plugin import LOADED_MARKER, REQUEST_NAME, VERDICTS_FOLDER
from cosmos_batch.engines.strict_guardrails import UNJUDGED
from cosmos_batch.media import Sound, write_video

PLUGINLESS = "OMNI_STANDIN_PLUGINLESS"  # environment variable: start as a server without our plugin

BLOCKED = "Input was blocked by Cosmos3 guardrails."
FAILURES = {
    "fail": (500, "Cosmos3 video tensor must have shape [1, 3, T, H, W]."),
    "refuse": (400, "This diffusion model does not do it."),
    "block": (400, BLOCKED),
    "unjudged": (500, f"Request failed: {UNJUDGED} the prompt: MemoryError in generate (utils.py, line 7)."),
    "memory": (500, "CUDA out of memory. Tried to allocate 20.00 GiB."),
}


class Handler(BaseHTTPRequestHandler):
    jobs: ClassVar[dict[str, dict[str, Any]]] = {}
    record: Path
    key: str | None = None  # API key that requests must have
    model = "nvidia/Cosmos3-Nano"

    def address_string(self) -> str:
        return "socket"

    def log_message(self, *_: Any) -> None:
        """Log nothing, like the real server without its access log."""

    def do_GET(self) -> None:
        if not self._is_let_in():
            return
        if self.path == "/health":
            self._answer(200, {"status": "healthy"})
        elif self.path == "/v1/models":
            self._answer(200, {"data": [{"id": self.model}]})
        elif self.path.endswith("/content"):
            job = self.jobs[self.path.split("/")[-2]]
            if "gone" in job["prompt"]:
                self._answer(422, {"error": {"message": "Video generation failed. Check job status."}})
            else:
                self._send(200, job["content"], "video/mp4")
        else:
            self._poll(self.jobs[self.path.rsplit("/", 1)[1]])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self._is_let_in():
            return
        form = json.loads(body) if self.path == "/v1/images/generations" else self._form(body)
        self._note({"path": self.path, **form})
        prompt = form["prompt"]
        self._report(prompt, form["extra_params"])
        if "starve" in prompt:
            print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.", flush=True)
        if "die" in prompt or "starve" in prompt:
            os.kill(os.getpid(), signal.SIGKILL)
        if "nonsense" in prompt:
            self._answer(200, [])
        elif self.path == "/v1/images/generations":
            self._image(prompt, form["size"])
        else:
            name = f"video_gen_{len(self.jobs)}"
            print("  0%|          | 0/2 [00:00<?, ?it/s]", flush=True)
            self.jobs[name] = {"id": name, "prompt": prompt, "began": time.monotonic(), **_made(form)}
            self._answer(200, {"id": name, "status": "queued"})

    def do_DELETE(self) -> None:
        self._note({"path": self.path, "deleted": True})
        self._answer(200, {"deleted": True})

    def _report(self, prompt: str, extra: str | dict[str, Any]) -> None:
        parameters = json.loads(extra) if isinstance(extra, str) else extra
        if VERDICTS_FOLDER in os.environ and parameters["guardrails"] and "unheard" not in prompt:
            for what, verdict in (("prompt", "passed"), ("output", "facesBlurred")):
                Path(os.environ[VERDICTS_FOLDER], f"{parameters[REQUEST_NAME]}.{what}").write_text(verdict)

    def _is_let_in(self) -> bool:
        if self.key is None or self.headers["Authorization"] == f"Bearer {self.key}":
            return True
        self._answer(401, {"error": {"message": "Unauthorized"}})
        return False

    def _poll(self, job: dict[str, Any]) -> None:
        prompt = job["prompt"]
        failure = next((message for word, message in FAILURES.items() if word in prompt), None)
        if failure is not None:
            status, message = failure
            self._answer(status, {"status": "failed", "prompt": prompt, "error": {"code": status, "message": message}})
        elif "lingers" in prompt and len(self.jobs) == 1:
            print("100%|##########| 2/2 [00:00<00:00, 9.00it/s]", flush=True)
            self._answer(200, {"status": "in_progress", "progress": 0})
        elif "stuck" in prompt or ("slow" in prompt and time.monotonic() < job["began"] + 0.5):
            if "slow" in prompt:  # one that is stuck is silent
                print(" 50%|#####     | 1/2 [00:00<00:00, 9.00it/s]", flush=True)
            self._answer(200, {"status": "in_progress", "progress": 0})
        else:
            message = {"stage_durations": {"stage_0_gen_ms": 500.0}, "peak_memory_mb": 2.0, "action": job["action"]}
            self._answer(200, {"status": "completed", "progress": 100, **message})

    def _image(self, prompt: str, size: str) -> None:
        for word in ("block", "unjudged"):
            if word in prompt:
                status, message = FAILURES[word]
                self._answer(status, {"error": {"message": message}})
                return
        file = io.BytesIO()
        Image.fromarray(_noise(1, size)[0]).save(file, "PNG")
        content = b"no image" if "broken" in prompt else file.getvalue()
        self._answer(200, {"data": [{"b64_json": base64.b64encode(content).decode()}], "size": size})

    def _form(self, body: bytes) -> dict[str, Any]:
        fields: dict[str, Any] = {"files": {}}
        for part in body.split(b"--" + self.headers["Content-Type"].partition("boundary=")[2].encode())[1:-1]:
            head, _, content = part.partition(b"\r\n\r\n")
            names = dict(re.findall(r'(\w+)="([^"]*)"', head.decode()))
            if "filename" in names:
                fields["files"][names["name"]] = [names["filename"], len(content) - 2]
            else:
                fields[names["name"]] = content[:-2].decode()
        return fields

    def _note(self, message: dict[str, Any]) -> None:
        with self.record.open("a", encoding="utf-8") as file:
            print(json.dumps(message), file=file)

    def _answer(self, status: int, body: Any) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _made(form: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a video, and actions if the request has an action mode."""
    prompt, extra = form["prompt"], json.loads(form["extra_params"])
    frames = 1 if "single" in prompt else int(form["num_frames"])
    pixels = _noise(frames, "48x64" if "small" in prompt else form["size"])
    wants_sound = form["generate_sound"] == "true" and "mute" not in prompt
    sound = Sound(np.random.default_rng(0).uniform(-1, 1, (2, 48_000 * 2)).astype(np.float32)) if wants_sound else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.mp4"
        write_video(path, pixels, Fraction(25), sound)
        content = b"no video" if "broken" in prompt else path.read_bytes()
    action = None
    if extra.get("action_mode"):
        rows = np.ones((extra["action_chunk_size"], extra["raw_action_dim"])) / 4
        action = {"data": rows.tolist(), "shape": list(rows.shape)}
    return {"content": content, "action": action}


def _noise(frames: int, size: str) -> np.ndarray:
    width, height = map(int, size.split("x"))
    return np.random.default_rng(0).integers(0, 255, (frames, height, width, 3), np.uint8)


def main() -> None:
    socket, record = sys.argv[1:]
    Handler.record = Path(record)
    if VERDICTS_FOLDER in os.environ and PLUGINLESS not in os.environ:
        Path(os.environ[VERDICTS_FOLDER], LOADED_MARKER).touch()
    socketserver.ThreadingUnixStreamServer(socket, Handler).serve_forever()


if __name__ == "__main__":
    main()

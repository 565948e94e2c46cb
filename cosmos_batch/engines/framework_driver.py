"""Runs in Cosmos Framework's own environment, in every process of one torchrun group: a reasoner that stays resident.

The framework's own command loads a model for one list of samples and ends. This loads it once. The first process
listens on a Unix socket, checks what comes, and tells the others, for all of them must enter each generation.

GET /health is answered as soon as the model is loaded. POST /sample takes `{"sample": ..., "folder": ...}`: a sample as
the framework reads it from a file, and where its files go; the answer is `{"text": ...}`, or `{"error": {"message"}}`.
Every other fault ends the group: whoever started it starts it again.
"""

import argparse
import json
import queue
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

# The group waits between two samples, for as long as a worker lives.
_LONGEST_WAIT = timedelta(days=30)


@dataclass
class Asked:
    """One request: a sample, and its text as soon as there is one."""

    sample: dict[str, Any]
    folder: str
    text: "Future[str]" = field(default_factory=Future)


def main() -> None:
    """Load, then serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--scratch", required=True)
    given = parser.parse_args()

    from cosmos_framework.inference.common.init import init_script, is_rank0

    init_script()  # before anything else of the framework is imported; it joins the group
    pipe, samples = _load(given.checkpoint, Path(given.scratch))
    group = _group()
    if is_rank0():
        arrived: queue.Queue[Asked] = queue.Queue()
        threading.Thread(target=_listen, args=(given.socket, arrived), daemon=True).start()
        for asked in _valid(arrived, pipe, samples):
            _tell(group, (asked.sample, asked.folder))
            _answer(asked, _generate(pipe, samples, asked.sample, asked.folder))
    else:
        while True:
            sample, folder = _tell(group, None)
            _generate(pipe, samples, sample, folder)


def _load(checkpoint: str, scratch: Path) -> tuple[Any, Any]:
    """The pipeline, and the class of its samples. As the framework's command does it for reasoners alone."""
    from cosmos_framework.inference.args import OmniSetupOverrides

    setup = OmniSetupOverrides(
        checkpoint_path=checkpoint,
        output_dir=scratch,
        keep_going=True,  # a sample that fails is told; it ends nothing
        guardrails=False,
        parallelism_preset="throughput",
    ).build_setup()
    setup.experiment_overrides.append("model.config.load_vision_tokenizer=false")
    return setup.get_inference_cls().create(setup), setup.get_sample_overrides_cls()


def _group() -> Any:
    """A group without a GPU's clock: NCCL ends a process that waits for ten minutes. None where there is one alone."""
    import torch

    if not torch.distributed.is_initialized():
        return None
    return torch.distributed.new_group(backend="gloo", timeout=_LONGEST_WAIT)


def _tell(group: Any, message: tuple[dict[str, Any], str] | None) -> Any:
    """What the first process says, in each of them."""
    if group is None:
        return message
    import torch

    told = [message]
    torch.distributed.broadcast_object_list(told, src=0, group=group)
    return told[0]


def _valid(arrived: "queue.Queue[Asked]", pipe: Any, samples: Any) -> Iterator[Asked]:
    """Those that the framework accepts; the others are answered."""
    while True:
        asked = arrived.get()
        try:
            _arguments(pipe, samples, asked.sample, asked.folder)
        except ValueError as error:  # pydantic's too
            asked.text.set_exception(error)
        else:
            yield asked


def _arguments(pipe: Any, samples: Any, sample: dict[str, Any], folder: str) -> Any:
    overrides = samples.model_validate(sample)
    overrides.output_dir = Path(folder)
    return overrides.build_sample(model_config=pipe.model_config)


def _generate(pipe: Any, samples: Any, sample: dict[str, Any], folder: str) -> Any:
    """The framework's outputs of one sample, of which the first process has the text."""
    return pipe.generate([_arguments(pipe, samples, sample, folder)])


def _answer(asked: Asked, outputs: Any) -> None:
    [output] = outputs
    if output.status == "success":
        asked.text.set_result(output.outputs[0].content["reasoner_text"])
    else:
        asked.text.set_exception(RuntimeError(output.message))


def _listen(socket: str, arrived: "queue.Queue[Asked]") -> None:
    class Handler(BaseHTTPRequestHandler):
        """One connection of the worker's."""

        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return "socket"

        def log_message(self, *_: Any) -> None:
            """Nothing: a worker keeps its own log."""

        def do_GET(self) -> None:
            self._send(200, {})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = Asked(body["sample"], body["folder"])
            arrived.put(asked)
            try:
                self._send(200, {"text": asked.text.result()})
            except ValueError as error:
                self._send(400, {"error": {"message": str(error)}})
            except RuntimeError as error:
                self._send(500, {"error": {"message": str(error)}})

        def _send(self, status: int, said: dict[str, Any]) -> None:
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with socketserver.ThreadingUnixStreamServer(socket, Handler) as server:
        server.daemon_threads = True
        server.serve_forever()


if __name__ == "__main__":
    main()

"""Runs in an engine's own environment, in every process of one torchrun group: a model that stays resident.

Engines' own commands load a model for one list of jobs and end. The first process listens on a Unix socket, checks what
comes, and tells the others, for all of them must enter each piece of work.

GET /health is answered as soon as the model is loaded: how many `steps` were made since, and how many are `done` of the
work in `folder`, the last one. POST /work takes a JSON object and answers with what the first process has of it, or
with `{"error": {"message"}}`: 400 for what the model refuses, 403 for what a guardrail does (`{"error":
{"blocked"}}`), 500 for work that failed. Every other fault ends the group: whoever started it starts it again.
"""

import json
import queue
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

# The group waits between two jobs, for as long as a worker lives.
_LONGEST_WAIT = timedelta(days=30)

Body = dict[str, Any]


class Resident(Protocol):
    """A loaded model."""

    steps: int
    """How many it made; whoever watches the group sees by it that it goes on."""

    def check(self, body: Body) -> None:
        """In the first process alone, before any other hears of it. Raises ValueError, Blocked, or WorkFailed."""

    def work(self, body: Body) -> Body | None:
        """In every process; what is answered counts in the first. Raises WorkFailed, in all of them or in none."""


class Blocked(Exception):  # noqa: N818 - it says what happened
    """A guardrail refused the `prompt`, or the `output`."""


class WorkFailed(Exception):  # noqa: N818 - it says what happened
    """One job failed, and the group goes on."""


@dataclass
class LastWork:
    """What the group began last: whoever asked may have gone meanwhile, and the next waits for it."""

    folder: str | None = None
    steps_before: int = 0


@dataclass
class Asked:
    """One request, and its answer as soon as there is one."""

    body: Body
    answer: "Future[Body]" = field(default_factory=Future)


def serve(resident: Resident, socket: str, is_first: bool) -> None:
    """Work until killed."""
    group = _group()
    if is_first:
        arrived: queue.Queue[Asked] = queue.Queue()
        last = LastWork()
        threading.Thread(target=_listen, args=(socket, resident, arrived, last), daemon=True).start()
        for asked in _valid(arrived, resident):
            _tell(group, asked.body)
            last.folder, last.steps_before = asked.body["folder"], resident.steps
            try:
                asked.answer.set_result(resident.work(asked.body) or {})
            except (Blocked, WorkFailed) as error:
                asked.answer.set_exception(error)
    while True:
        try:
            resident.work(_tell(group, None))
        except (Blocked, WorkFailed):
            continue  # the first process answers


def _group() -> Any:
    """A group without a GPU's clock: NCCL ends a process that waits for ten minutes. None where there is one alone."""
    import torch

    if not torch.distributed.is_initialized():
        return None
    return torch.distributed.new_group(backend="gloo", timeout=_LONGEST_WAIT)


def _tell(group: Any, body: Body | None) -> Any:
    """What the first process says, in each of them."""
    if group is None:
        return body
    import torch

    told = [body]
    torch.distributed.broadcast_object_list(told, src=0, group=group)
    return told[0]


def _valid(arrived: "queue.Queue[Asked]", resident: Resident) -> Iterator[Asked]:
    """Those that the model accepts; the others are answered."""
    while True:
        asked = arrived.get()
        try:
            resident.check(asked.body)
        except (ValueError, Blocked, WorkFailed) as error:  # pydantic's are ValueErrors
            asked.answer.set_exception(error)
        else:
            yield asked


def _listen(socket: str, resident: Resident, arrived: "queue.Queue[Asked]", last: LastWork) -> None:
    class Handler(BaseHTTPRequestHandler):
        """One connection of the worker's."""

        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return "socket"

        def log_message(self, *_: Any) -> None:
            """Nothing: a worker keeps its own log."""

        def do_GET(self) -> None:
            done = resident.steps - last.steps_before
            self._send(200, {"steps": resident.steps, "folder": last.folder, "done": done})

        def do_POST(self) -> None:
            asked = Asked(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            arrived.put(asked)
            try:
                self._send(200, asked.answer.result())
            except Blocked as error:
                self._send(403, {"error": {"message": "A guardrail refused it.", "blocked": str(error)}})
            except ValueError as error:
                self._send(400, {"error": {"message": str(error)}})
            except WorkFailed as error:
                self._send(500, {"error": {"message": str(error)}})

        def _send(self, status: int, said: Body) -> None:
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with socketserver.ThreadingUnixStreamServer(socket, Handler) as server:
        server.daemon_threads = True
        server.serve_forever()

"""Serves a model from one torchrun group: runs in an engine's own environment, in every process of the group.

The engines' own commands load a model for one list of jobs and then end. Here the model stays resident. The first
process listens on a Unix socket, checks each request and broadcasts it, because every process must enter each piece of
work.

`GET /health` answers as soon as the model is loaded: `steps` is how many steps were made since then, `folder` names the
work that was started last, and `done` is how many steps were made for it. `POST /work` takes a JSON object and answers
with the result of the first process, or with `{"error": {"message"}}`: status 400 if the model refuses the request, 403
if a guardrail does (`{"error": {"blocked"}}`), 500 if the work failed. The work of a cancelled job goes on while the
worker removes the job's folder; if it fails then, the group serves the next job. Any other exception ends the group,
and the worker that started it starts it again.

Each process reads the job's files before the work begins, and the work begins only if all of them could: a process that
left it would leave the others waiting for it.
"""

import ctypes
import json
import queue
import signal
import socketserver
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Protocol

_ABANDONED = "The folder of the job is gone, as after a job that was cancelled."
_PR_SET_PDEATHSIG = 1  # of prctl(2)
_LONGEST_WAIT = timedelta(days=30)  # no worker lives so long, so that no wait between two jobs ends by it

Body = dict[str, Any]


class GroupModel(Protocol):
    """A model that a torchrun group has loaded: what `serve` calls in each process of the group."""

    steps: int
    """How many steps it made. The worker's watchdog sees by it that the group makes progress."""

    def check(self, body: Body) -> None:
        """Check a request, in the first process and before the others hear of it.

        Raises ValueError, Blocked, or WorkFailed.
        """

    def read(self, body: Body) -> Any:
        """Return what the work needs of the job's files, in every process and without waiting for another."""

    def work(self, body: Body, inputs: Any) -> Body | None:
        """Do the work with what `read` returned, in every process; the first one's result is the answer.

        Raises Blocked or WorkFailed, either in all processes or in none.
        """


class Blocked(Exception):  # noqa: N818 - it says what happened
    """A guardrail refused a job; the message is `prompt` or `output`."""


class WorkFailed(Exception):  # noqa: N818 - it says what happened
    """A job failed, and the group can do the next one."""


@dataclass
class LastWork:
    """The work that the group started last. It goes on if its client disconnects, and the next job waits for it."""

    folder: str | None = None
    steps_before: int = 0


@dataclass
class PendingWork:
    """A request that waits for the group, and its answer as soon as there is one."""

    body: Body
    answer: "Future[Body]" = field(default_factory=Future)


def end_with_torchrun() -> None:
    """Have the kernel kill this process as soon as torchrun's own process ends.

    torchrun starts each process in a session of its own (`SubprocessHandler` of torch.distributed.elastic). So if
    torchrun is killed, nothing else ends them, and they keep the GPUs' memory from the next group.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def serve(model: GroupModel, socket: str, is_first: bool) -> None:
    """Serve the group's model at a Unix socket until the process is killed."""
    group = _cpu_group()
    if is_first:
        arrived: queue.Queue[PendingWork] = queue.Queue()
        last = LastWork()
        threading.Thread(target=_listen, args=(socket, model, arrived, last), daemon=True).start()
        for pending in _accepted(arrived, model):
            _broadcast(group, pending.body)
            last.folder, last.steps_before = pending.body["folder"], model.steps
            try:
                pending.answer.set_result(_work(group, model, pending.body) or {})
            except (Blocked, WorkFailed) as error:
                pending.answer.set_exception(error)
    while True:
        with suppress(Blocked, WorkFailed):  # the first process answers
            _work(group, model, _broadcast(group, None))


def _work(group: Any, model: GroupModel, body: Body) -> Body | None:
    """Do the work in this process, if every process of the group could read the job's files.

    Raises Blocked, or WorkFailed, also for an abandoned job whose files are gone.
    """
    inputs, could_read = None, False
    with suppress(WorkFailed), _forgiving_abandoned(body):
        inputs, could_read = model.read(body), True
    if not _in_all(group, could_read):
        raise WorkFailed(_ABANDONED)
    with _forgiving_abandoned(body):
        return model.work(body, inputs)


@contextmanager
def _forgiving_abandoned(body: Body) -> Iterator[None]:
    """Raise WorkFailed if the block fails because the job's folder was removed.

    A library that checks a path itself raises a ValueError, as pydantic does.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        if not _is_abandoned(body):
            raise
        raise WorkFailed(_ABANDONED) from error


def _is_abandoned(body: Body) -> bool:
    """Return whether the job's folder, which contains the work's folder, was removed, as after a cancelled job."""
    return not Path(body["folder"]).parent.is_dir()


def _cpu_group() -> Any:
    """Return a process group without NCCL, which ends a process that waits for ten minutes; None for one process."""
    import torch

    if not torch.distributed.is_initialized():
        return None
    return torch.distributed.new_group(backend="gloo", timeout=_LONGEST_WAIT)


def _broadcast(group: Any, body: Body | None) -> Any:
    """Return the first process's request in each process; the others wait for it."""
    if group is None:
        return body
    import torch

    objects = [body]
    torch.distributed.broadcast_object_list(objects, src=0, group=group)
    return objects[0]


def _in_all(group: Any, condition: bool) -> bool:
    """Return whether a condition is true in all processes; each waits for the others."""
    if group is None:
        return condition
    import torch

    everywhere = torch.tensor(int(condition))
    torch.distributed.all_reduce(everywhere, torch.distributed.ReduceOp.MIN, group=group)
    return bool(everywhere)


def _accepted(arrived: "queue.Queue[PendingWork]", model: GroupModel) -> Iterator[PendingWork]:
    """Yield the requests that the model accepts, and answer the others with the error."""
    while True:
        pending = arrived.get()
        if _is_abandoned(pending.body):
            pending.answer.set_exception(WorkFailed(_ABANDONED))
            continue
        try:
            with _forgiving_abandoned(pending.body):
                model.check(pending.body)
        except (ValueError, Blocked, WorkFailed) as error:  # pydantic's errors are ValueErrors
            pending.answer.set_exception(error)
        else:
            yield pending


def _listen(socket: str, model: GroupModel, arrived: "queue.Queue[PendingWork]", last: LastWork) -> None:
    class Handler(BaseHTTPRequestHandler):
        """Handles one connection of the worker."""

        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return "socket"

        def log_message(self, *_: Any) -> None:
            """Log nothing: the worker has its own log."""

        def do_GET(self) -> None:
            done = model.steps - last.steps_before
            self._send(200, {"steps": model.steps, "folder": last.folder, "done": done})

        def do_POST(self) -> None:
            pending = PendingWork(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            arrived.put(pending)
            try:
                self._send(200, pending.answer.result())
            except Blocked as error:
                self._send(403, {"error": {"message": "A guardrail refused it.", "blocked": str(error)}})
            except ValueError as error:
                self._send(400, {"error": {"message": str(error)}})
            except WorkFailed as error:
                self._send(500, {"error": {"message": str(error)}})

        def _send(self, status: int, body: Body) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with socketserver.ThreadingUnixStreamServer(socket, Handler) as server:
        server.daemon_threads = True
        server.serve_forever()

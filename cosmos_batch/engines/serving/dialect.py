"""Interpret what a server program prints and answers, so that nothing else in `serving` depends on the program."""

import contextlib
import errno
import os
import time
from collections.abc import Iterable
from importlib import import_module

import httpx2

from cosmos_batch.catalogue.engines import ENGINES
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.metrics import ENGINE_START_PHASES
from cosmos_batch.engines.serving.server import Server
from cosmos_batch.engines.torch_errors import mentions_out_of_memory

_ADDRESS_IN_USE = os.strerror(errno.EADDRINUSE).lower()  # libuv, which torch uses, has it in lower case

Phases = dict[str, float]
"""Seconds of each phase of a start, by the names in `ENGINE_START_PHASES`."""


class ServerDialect:
    """The base class of dialects, which interpret how one server program reports memory, progress and refusals.

    This base class knows torch's wording and nothing else, which is enough to start a server and to replace one that
    ends. A program's own dialect is a subclass in that program's folder, named in the registry of engines
    (`cosmos_batch/catalogue/engines.py`). Whatever it recognizes beside that makes errors more helpful and retries
    possible.
    """

    gives_up_with: str | None = None
    """Part of the line that the program prints when it cannot start, if its process may keep running after it."""

    def ran_out_of_memory(self, line: str) -> bool:
        """Return whether a printed line says that a GPU's memory did not suffice."""
        return mentions_out_of_memory(line)

    def found_address_in_use(self, line: str) -> bool:
        """Return whether a printed line says that another process has the port or socket that a process was to open.

        Programs look for a free port first and open it later; another process of the host can be quicker.
        """
        return _ADDRESS_IN_USE in line.lower()

    def found_memory_in_use(self, line: str) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether a printed line says that other processes hold the GPU memory that the server was to take."""
        return False

    def loaded_weights(self, line: str) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether a printed line says that the weights are loaded, so that a smaller plan may fit
        beside them.
        """
        return False

    def reports_phase(self, line: str) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether `start_phases` reads this line, so that it is kept however many others are printed."""
        return False

    def start_phases(self, lines: Iterable[str], total: float) -> Phases:  # noqa: ARG002 - for subclasses
        """Return the seconds of each phase of a start that took `total` seconds; together they are all of it.

        `lines` are those of a `Journal` that began with the start.
        """
        return {**dict.fromkeys(ENGINE_START_PHASES, 0.0), "rest": round(total, 2)}

    def progress(self, server: Server, client: httpx2.Client) -> str | None:  # noqa: ARG002 - for subclasses
        """Return a text that changes as long as the server works on requests, or None if the server does not answer.

        The watchdog stops a server whose text stays the same. For a program that reports no progress the text always
        changes, so only a server that does not answer at all counts as hung.
        """
        with contextlib.suppress(httpx2.TransportError):
            client.get("/health")
            return str(time.monotonic())
        return None

    def refusal(self, message: str) -> Failure | None:  # noqa: ARG002 - for subclasses
        """Return the Failure for a request that the server refused with this message, with what the caller can change.

        None if the message is not known.
        """
        return None

    def contradicts_itself(self, message: str) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether a refusal says that no answer can fit the request's JSON Schema."""
        return False


def dialect_of(engine: str) -> ServerDialect:
    """Return the dialect that the registry names for an engine."""
    module, _, name = ENGINES[engine].dialect.partition(":")
    dialect: ServerDialect = getattr(import_module(module), name)()
    return dialect

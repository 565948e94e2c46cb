"""The plan by which a program is started as a server: command line, environment, address, and use of memory."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from cosmos_batch.engines.serving.server import Address, unix_address


class ServerPlan(ABC):
    """A plan of how a program is started as a server and how much memory it may use. Its `str` describes it in logs."""

    program: str
    """The program's name in messages."""

    less_memory: str
    """The remedy in an error about GPU memory."""

    @abstractmethod
    def command(self, checkpoint: Path, folder: Path) -> list[str]:
        """Return the argument list for a checkpoint. `folder` is the server's own, for its socket and scratch files."""

    @abstractmethod
    def environment(self, caches: Path | None, folder: Path) -> dict[str, str]:
        """Return environment variables beside our own. `caches` is the folder for compiled code."""

    def address(self, folder: Path) -> Address:
        """Return where the server listens: on a Unix socket in its own folder, unless a subclass says otherwise."""
        return unix_address(folder)

    def smaller(self) -> Self | None:
        """Return a plan whose requests take much less memory; None if there is none, such as with one job at a time."""
        return None

    def fitted_to_free_memory(self) -> Self:
        """Return this plan for the GPU memory that is free now, if the program reserves a share when it starts."""
        return self

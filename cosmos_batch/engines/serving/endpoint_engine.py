"""Connect to and disconnect from a user's own server, for the engines whose model runs there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.job_threads import JobCancellation, MediaThreads
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.serving.dialect import ServerDialect
from cosmos_batch.engines.serving.remote_server import RemoteServer


class EndpointEngineBase:
    """Base class of engines that ask a user's server.

    Parameters
    ----------
    kind
        First word of the engine's name, before the server's address.
    output
        What a job produces, such as an answer, for error messages.
    endpoint
        The server's address and settings.
    api_key
        Returns the API key, or None if the server needs none.
    dialect
        How the server's program words its refusals.
    probed_path
        What is asked, below the base URL, to find out whether the server can serve.
    """

    def __init__(
        self,
        kind: str,
        output: str,
        endpoint: Endpoint,
        api_key: Callable[[], str | None],
        dialect: ServerDialect,
        probed_path: str = "models",
    ) -> None:
        self.name = f"{kind} {endpoint.url}"
        self.concurrency = endpoint.requests_at_once
        self.startup_logs: list[str] = []
        self._endpoint = endpoint
        self._api_key = api_key
        self._dialect = dialect
        self._probed_path = probed_path
        self._cancellation = JobCancellation(output)
        self._server: RemoteServer | None = None
        self._model = ""

    @property
    def remote_model(self) -> str:
        """Return the model's name on the server; empty before `load`."""
        return self._model

    def load(self, model_dir: Path, context: int | None = None) -> None:  # noqa: ARG002 - nothing is loaded here
        """Choose the server's model; blocks, also while the server starts. Nothing is read from the folder.

        Raises Failure: ModelUnavailable if the server has no such model, or refuses the key; EngineFailed if it cannot
        be reached.
        """
        journal = Journal()
        self.startup_logs = journal.lines
        self._connect()
        journal.note(f"{self._endpoint.url} serves {self._model}")

    async def is_available(self) -> bool:
        """Return whether the server can be reached and does not say that it cannot serve now."""
        return await self._connected().is_available()

    def close(self) -> None:
        """Stop running jobs and close the connections; `load` may be called again."""
        if self._server is not None:
            self._cancellation.cancel_all()
            self._media_threads.close()
            self._server.close()
            self._server = None

    def _connect(self) -> dict[str, Any]:
        """Choose one of the server's models, and return all of them by name; blocks. Raises Failure."""
        server = RemoteServer(self._endpoint, self._api_key, self._dialect, self._probed_path)
        models = self._models_of(server)
        self._model = server.choose(list(models))
        self._media_threads = MediaThreads()
        self._server = server
        return models

    def _models_of(self, server: RemoteServer) -> dict[str, Any]:
        """Return the server's models by name; blocks. Raises Failure. A server with another interface has its own."""
        return server.models()

    def _connected(self) -> RemoteServer:
        if self._server is None:
            raise Failure("Internal", "The engine was asked before it knew its server.", "Load a model first.")
        return self._server

"""What engines have in common whose model is resident on somebody else's server."""

from collections.abc import Callable
from typing import Any

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.job_threads import JobCancellation, MediaThreads
from cosmos_batch.engines.serving.dialect import ServerDialect
from cosmos_batch.engines.serving.remote_server import RemoteServer


class EndpointEngineBase:
    """It makes one `thing` for each job. `api_key` gives the key, or None."""

    def __init__(
        self, kind: str, thing: str, endpoint: Endpoint, api_key: Callable[[], str | None], dialect: ServerDialect
    ) -> None:
        self.name = f"{kind} {endpoint.url}"
        self.concurrency = endpoint.concurrency
        self.startup_logs: list[str] = []
        self._endpoint = endpoint
        self._api_key = api_key
        self._dialect = dialect
        self._cancellation = JobCancellation(thing)
        self._server: RemoteServer | None = None
        self._model = ""

    @property
    def remote_model(self) -> str:
        """As the server calls the model that is asked of it; empty before `load`."""
        return self._model

    async def is_available(self) -> bool:
        """Whether the server answers when it is asked for its models."""
        return await self._connected().is_available()

    def close(self) -> None:
        """Let go of the server; `load` may be called again."""
        if self._server is not None:
            self._cancellation.cancel_all()
            self._preparing.close()
            self._server.close()
            self._server = None

    def _connect(self) -> dict[str, Any]:
        """Choose one of the server's models, and return them all; blocks. Raises Failure."""
        server = RemoteServer(self._endpoint, self._api_key, self._dialect)
        models = server.models()
        self._model = server.choose(list(models))
        self._preparing = MediaThreads()
        self._server = server
        return models

    def _connected(self) -> RemoteServer:
        if self._server is None:
            raise Failure("Internal", "The engine was asked before it knew its server.", "Load a model first.")
        return self._server

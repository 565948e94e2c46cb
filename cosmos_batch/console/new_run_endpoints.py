"""The answers to requests about a new run: the form, dropped files, the plan with its price, and the start."""

from urllib.parse import unquote

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cosmos_batch.console.console import Console
from cosmos_batch.console.new_run_records import NewRun
from cosmos_batch.console.responses import json_response, read_body
from cosmos_batch.console.run_backend import RunBackend
from cosmos_batch.console.run_records import NoContent


class NewRunEndpoints:
    """Answers the requests for planning and starting a run. Methods without `async` run in threads."""

    def __init__(self, console: Console, backend: RunBackend) -> None:
        self._console = console
        self._backend = backend

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        return [
            Route("/api/new", self.form),
            Route("/api/prefix", self.prefix),
            Route("/api/dropped", self.drop, methods=["POST"]),
            Route("/api/plans", self.plan, methods=["POST"]),
            Route("/api/plans/{plan}/start", self.start, methods=["POST"]),
        ]

    def form(self, _: Request) -> Response:
        return json_response(self._backend.form())

    def prefix(self, request: Request) -> Response:
        return json_response(self._backend.prefix(request.query_params.get("uri", "")))

    async def drop(self, request: Request) -> Response:
        """Take a file, whose name comes with the URL and whose content is the body."""
        values = request.query_params
        dropped = await self._console.dropped.add(
            values.get("folder"), unquote(values.get("name", "")), request.stream()
        )
        return json_response(dropped)

    async def plan(self, request: Request) -> Response:
        new_run = await read_body(request, NewRun)
        kept = self._console.dropped
        folder = None if new_run.dropped is None else kept.folder(new_run.dropped)
        files = {name: kept.folder(dropped) for name, dropped in new_run.parameter_files.items()}
        return json_response(await to_thread.run_sync(self._backend.plan, new_run, folder, files))

    async def start(self, request: Request) -> Response:
        await read_body(request, NoContent)
        return json_response(await to_thread.run_sync(self._backend.start, request.path_params["plan"]))

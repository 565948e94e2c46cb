"""The answers to requests about runs: the list, one of them, and what a person does with it."""

from typing import Literal

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cosmos_batch.console.console import Console
from cosmos_batch.console.records import ChosenDocuments
from cosmos_batch.console.responses import json_response, read_body
from cosmos_batch.console.run_backend import RunBackend
from cosmos_batch.console.run_records import ComparedEnd, LogLines, NoContent, ResumeRequest, RetryRequest, RetrySize

_RUNS = 50


class RunEndpoints:
    """Answers the requests about runs. Methods without `async` run in threads."""

    def __init__(self, console: Console, backend: RunBackend) -> None:
        self._console = console
        self._backend = backend

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        run_path = "/api/runs/{run}"
        return [
            Route("/api/runs", self.runs),
            Route(run_path, self.overview),
            Route(f"{run_path}/compared/{{other}}", self.compare),
            Route(f"{run_path}/items/{{item:int}}/log", self.log),
            Route(f"{run_path}/cancel", self.cancel, methods=["POST"]),
            Route(f"{run_path}/resume", self.resume, methods=["POST"]),
            Route(f"{run_path}/retry", self.retry, methods=["POST"]),
            Route(f"{run_path}/retry-size", self.retry_size, methods=["POST"]),
        ]

    def runs(self, request: Request) -> Response:
        limit = request.query_params.get("limit", str(_RUNS))
        if not limit.isdecimal() or not 0 < int(limit) <= 10_000:
            raise HTTPException(400, "limit is a number of runs")
        return json_response(self._backend.runs(int(limit)))

    def overview(self, request: Request) -> Response:
        return json_response(self._backend.overview(request.path_params["run"]))

    def compare(self, request: Request) -> Response:
        by: Literal["id", "input"] = "input" if request.query_params.get("by") == "input" else "id"
        first, second = request.path_params["run"], request.path_params["other"]
        compared = self._backend.compare(first, second, by)
        firsts = self._with_rows(first, [pair.first for pair in compared.pairs])
        seconds = self._with_rows(second, [pair.second for pair in compared.pairs])
        pairs = [
            pair.model_copy(update={"first": one, "second": other})
            for pair, one, other in zip(compared.pairs, firsts, seconds, strict=True)
        ]
        return json_response(compared.model_copy(update={"pairs": pairs}))

    def log(self, request: Request) -> Response:
        """Return what a worker has logged about an item of a run."""
        run = request.path_params["run"]
        view = self._console.view(run)
        document = view.details.document(request.path_params["item"]) if view else None
        if document is None:
            raise HTTPException(404, "There is no such item, or not any more.")
        return json_response(LogLines(lines=self._backend.log(run, document.job_id)))

    async def cancel(self, request: Request) -> Response:
        await read_body(request, NoContent)
        await to_thread.run_sync(self._backend.cancel, request.path_params["run"])
        return Response(status_code=204)

    async def resume(self, request: Request) -> Response:
        body = await read_body(request, ResumeRequest)
        await to_thread.run_sync(self._backend.resume, request.path_params["run"], body.max_dollars)
        return Response(status_code=204)

    async def retry(self, request: Request) -> Response:
        body = await read_body(request, RetryRequest)
        return await to_thread.run_sync(self._retry, request.path_params["run"], body)

    async def retry_size(self, request: Request) -> Response:
        """Return how many of the chosen items a retry asks again, which a person is told before it starts."""
        body = await read_body(request, ChosenDocuments)
        failed = await to_thread.run_sync(self._failed, request.path_params["run"], body)
        return json_response(RetrySize(items=len(failed)))

    def _with_rows(self, run: str, ends: list[ComparedEnd | None]) -> list[ComparedEnd | None]:
        """Return the ends of a run's items with the rows of these, which are known when all of the run was read."""
        view = self._console.view(run)
        if view is None:
            return ends
        view.scan.wait()
        numbers = view.index.numbers(end.item for end in ends if end)
        rows = {item: view.index.row(number) for item, number in numbers.items()}
        return [end and end.model_copy(update={"row": rows.get(end.item)}) for end in ends]

    def _retry(self, run: str, body: RetryRequest) -> Response:
        items = [] if body.selection is None else self._failed(run, body.selection)
        return json_response(self._backend.retry(run, items, body.max_dollars))

    def _failed(self, run: str, selection: ChosenDocuments) -> list[str]:
        """Return the ids of the chosen items that have failed. Raises HTTPException where none has."""
        view = self._console.view(run)
        if view is None:
            raise HTTPException(404, "There is no such run, or not any more.")
        failed = [row.item for row in view.selected(selection) if row.kind == "error"]
        if not failed:
            raise HTTPException(409, "None of the selected items has failed.")
        return failed

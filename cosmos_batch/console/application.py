"""Puts the answers to the page's requests together into one application."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from cosmos_batch.console.built_page import PAGE, STATIC
from cosmos_batch.console.console import Console
from cosmos_batch.console.guard import HEADERS, SESSION_PATH, Guard, Session
from cosmos_batch.console.new_run_endpoints import NewRunEndpoints
from cosmos_batch.console.records import Home
from cosmos_batch.console.responses import json_response
from cosmos_batch.console.run_backend import RefusalError, RunBackend
from cosmos_batch.console.run_endpoints import RunEndpoints
from cosmos_batch.console.view_endpoints import ViewEndpoints
from cosmos_batch.contract.error import Failure


def make_application(console: Console, session: Session) -> Starlette:
    """Return the ASGI application that serves the page and its data."""
    backend = console.backend
    is_local = backend is not None and backend.is_local
    home = json_response(Home(view=console.home, has_runs=backend is not None, is_local=is_local))
    routes = [
        *(Route(path, _page) for path in PAGE),
        Route(SESSION_PATH, session.begin, methods=["POST"]),
        Route("/api/home", lambda _: home),
        *ViewEndpoints(console).routes(),
        *(_routes_of_runs(console, backend) if backend else []),
    ]
    handlers = {
        HTTPException: _explain_status,
        Failure: _explain_failure,
        RefusalError: _explain_refusal,
        Exception: _explain_defect,
    }
    return Starlette(routes=routes, middleware=[Middleware(Guard, session=session)], exception_handlers=handlers)


def _routes_of_runs(console: Console, backend: RunBackend) -> list[Route]:
    return [*RunEndpoints(console, backend).routes(), *NewRunEndpoints(console, backend).routes()]


def _page(request: Request) -> Response:
    name, content_type = PAGE[request.url.path]
    return FileResponse(STATIC / name, headers={"content-type": content_type})


def _explain_status(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"message": error.detail}, error.status_code)


def _explain_failure(_: Request, error: Exception) -> Response:
    assert isinstance(error, Failure)
    return JSONResponse({"message": error.error.message}, 422)


def _explain_refusal(_: Request, error: Exception) -> Response:
    return JSONResponse({"message": str(error)}, 409)


def _explain_defect(_: Request, error: Exception) -> Response:
    """Answer a request that raised any other exception.

    The exception itself goes on to the server, which prints it in the console's terminal.
    """
    message = (
        f"The console has failed at this: {type(error).__name__}: {error}\n"
        "Try again. If it fails again, report what it has printed in the terminal in which it runs."
    )
    return JSONResponse({"message": message}, 500, HEADERS)  # it does not come through the guard, which adds these

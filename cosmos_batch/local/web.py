"""The server's HTTP side: moto's application, and the local cloud's own pages beside it under ``/local-cloud/``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.wrappers import Request, Response

from . import backends, custom_resources, identity, runtime
from .containers import IMAGES, Image

PREFIX = "/local-cloud/"


class Handler(MotoRequestHandler):
    """Serves one connection."""

    # Headers and body are two writes. With Nagle's algorithm the second would wait 40 ms for the first's receipt.
    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"

    def log_request(self, *_: Any) -> None:
        """Say nothing: a line for each request costs more than some requests."""


class Application:
    """The WSGI application of a local cloud."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one request."""
        if not environ["PATH_INFO"].startswith(PREFIX):
            return self._moto(environ, start_response)
        request = Request(environ)
        page = environ["PATH_INFO"].removeprefix(PREFIX)
        return _own_page(request, page)(environ, start_response)


def _own_page(request: Request, page: str) -> Response:
    if page == "status":
        return _json(status())
    if page == "calls":
        return _json(identity.recorded())
    if page == "images" and request.method == "PUT":
        for uri, image in request.get_json(force=True).items():
            IMAGES.register(uri, Image(**image))
        return _json({})
    if page.startswith("custom-resources/") and request.method == "PUT":
        # The SDK's helpers put JSON with an empty content type.
        custom_resources.receive(page.split("/")[1], json.loads(request.get_data()))
        return _json({})
    return Response(f"no page {request.method} {page}\n", 404)


def _json(content: Any) -> Response:
    return Response(json.dumps(content), mimetype="application/json")


def status() -> dict[str, Any]:
    """Return what the cloud holds at the moment: counts and names for a person and for tests."""
    jobs = [job for job in list(backends.batch()._jobs.values()) if not job.job_stopped]
    executions = [
        execution.status for machine in backends.state_machines().state_machines for execution in machine.executions
    ]
    queues = backends.queues().queues.values()
    return {
        "cloudId": runtime.current().cloud_id,
        "home": str(runtime.current().home),
        "endpoint": runtime.current().endpoint,
        "functions": sorted(function.function_name for function in backends.functions().list_functions()),
        "images": IMAGES.uris(),
        "jobs": [{"jobId": job.job_id, "jobName": job.job_name, "status": job.status} for job in jobs],
        "executions": {status: executions.count(status) for status in sorted(set(executions))},
        "messages": {queue.name: len(queue._messages) for queue in queues if queue._messages},
    }

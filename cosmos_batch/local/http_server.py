"""The HTTP side of the server: moto's application, and the local cloud's own pages under ``/local-cloud/``."""

from __future__ import annotations

import base64
import io
import json
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.wrappers import Request, Response

from cosmos_batch.local import backends, recorded_calls, runtime
from cosmos_batch.local.cloudformation import custom_resources
from cosmos_batch.local.containers.images import IMAGES, Image

PREFIX = "/local-cloud/"
_PUBLIC_TOKEN = "SpencerFrontendService.GetAuthorizationToken"  # noqa: S105 -- the name of an operation
_LOG = logging.getLogger(__name__)


class RequestHandler(MotoRequestHandler):
    """Serves the requests of one connection and keeps it open; Werkzeug's handler closes it after each request."""

    disable_nagle_algorithm = True
    protocol_version = "HTTP/1.1"

    def run_wsgi(self) -> None:
        """Serve one request."""
        environ = self.make_environ()
        # The whole body is read, also where the application ignores it: the next request begins behind it.
        body = environ["wsgi.input"].read(*([] if self._chunked() else [int(environ.get("CONTENT_LENGTH") or 0)]))
        environ.update({"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))})
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        status, headers, content = self._run_application(environ)
        bodiless = self.command == "HEAD" or status[:3] in ("204", "304")
        if "content-length" not in {name.lower() for name, _ in headers} and not bodiless:
            headers.append(("Content-Length", str(len(content))))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        self.wfile.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + (b"" if bodiless else content))

    def _run_application(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        started: list[Any] = []
        try:
            parts = self.server.app(environ, lambda status, headers, *_: started.extend((status, list(headers))))
            content = b"".join(parts)
            if hasattr(parts, "close"):
                parts.close()
            return started[0], started[1], content
        except Exception as error:
            _LOG.exception("%s %s failed", self.command, self.path)
            answer = {"__type": "InternalFailure", "message": f"{type(error).__name__}: {error}"}
            return "500 Internal Server Error", [], json.dumps(answer).encode()

    def _chunked(self) -> bool:
        return self.headers.get("Transfer-Encoding", "").lower().strip() == "chunked"


class Application:
    """The WSGI application of a local cloud."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one request."""
        if environ.get("HTTP_X_AMZ_TARGET") == _PUBLIC_TOKEN:
            return _public_registry_token(environ)(environ, start_response)
        if not environ["PATH_INFO"].startswith(PREFIX):
            return self._moto(environ, start_response)
        request = Request(environ)
        page = environ["PATH_INFO"].removeprefix(PREFIX)
        return _own_page(request, page)(environ, start_response)


def _own_page(request: Request, page: str) -> Response:
    if page == "status":
        return _json(status())
    if page == "calls":
        return _json(recorded_calls.recorded())
    if page == "images" and request.method == "GET":
        return _json({uri: vars(IMAGES.pull(uri)) for uri in IMAGES.uris()})
    if page == "images" and request.method == "PUT":
        for uri, image in request.get_json(force=True).items():
            IMAGES.register(uri, Image(**image))
        return _json({})
    if page.startswith("custom-resources/") and request.method == "PUT":
        # AWS's cfnresponse puts JSON with an empty content type.
        custom_resources.receive(page.split("/")[1], json.loads(request.get_data()))
        return _json({})
    return Response(f"no page {request.method} {page}\n", 404)


def _public_registry_token(environ: dict[str, Any]) -> Response:
    """Answer GetAuthorizationToken of ECR Public, a service that moto lacks."""
    access_key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
    role = recorded_calls.role_of(access_key)
    if role:
        recorded_calls.record(recorded_calls.RecordedCall(role, "ecr-public", "GetAuthorizationToken", ""))
    token = base64.b64encode(b"AWS:public").decode()
    return _json({"authorizationData": {"authorizationToken": token, "expiresAt": time.time() + 12 * 3600}})


def _json(content: Any) -> Response:
    return Response(json.dumps(content), mimetype="application/json")


def status() -> dict[str, Any]:
    """Return names and counts of the functions, images, jobs, executions and messages of the cloud."""
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

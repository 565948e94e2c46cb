"""A fake of an EC2 instance's metadata service, with the entries that a worker reads."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MetadataService(ThreadingHTTPServer):
    """A fake of IMDSv2: a PUT returns a token, with which a GET reads the Spot notice, if any, or the instance type."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.notice = False
        self.instance_type = "g6e.12xlarge"

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables with which a process asks this service."""
        url = f"http://127.0.0.1:{self.server_port}/"
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": url, "AWS_EC2_METADATA_DISABLED": "false"}


class _Answers(BaseHTTPRequestHandler):
    server: MetadataService

    def do_PUT(self) -> None:
        self._say(200 if self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else 400, b"a-token")

    def do_GET(self) -> None:
        known = self.headers["X-aws-ec2-metadata-token"] == "a-token"
        entries = {"instance-type": self.server.instance_type}
        if self.server.notice:
            entries["spot/instance-action"] = '{"action": "terminate"}'
        entry = entries.get(self.path.removeprefix("/latest/meta-data/"))
        self._say(401 if not known else 404 if entry is None else 200, (entry or "").encode())

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def metadata_service() -> Iterator[MetadataService]:
    """Provide a service that runs."""
    with MetadataService() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()

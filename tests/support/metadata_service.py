"""The metadata service of an EC2 instance, as far as a worker asks it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MetadataService(ThreadingHTTPServer):
    """IMDSv2: a token for a PUT, then the notice, if there is one, and the instance's type."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.notice = False
        self.instance_type = "g6e.12xlarge"

    @property
    def variables(self) -> dict[str, str]:
        """What makes a process ask this one."""
        url = f"http://127.0.0.1:{self.server_port}/"
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": url, "AWS_EC2_METADATA_DISABLED": "false"}


class _Answers(BaseHTTPRequestHandler):
    server: MetadataService

    def do_PUT(self) -> None:
        self._say(200 if self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else 400, b"a-token")

    def do_GET(self) -> None:
        known = self.headers["X-aws-ec2-metadata-token"] == "a-token"
        said = {"instance-type": self.server.instance_type}
        if self.server.notice:
            said["spot/instance-action"] = '{"action": "terminate"}'
        found = said.get(self.path.removeprefix("/latest/meta-data/"))
        self._say(401 if not known else 404 if found is None else 200, (found or "").encode())

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def metadata_service() -> Iterator[MetadataService]:
    """One that runs."""
    with MetadataService() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()

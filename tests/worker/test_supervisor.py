"""The outer process of a worker records in the worker's row why the inner process ended."""

import os
import signal
import subprocess
import sys

from moto.server import ThreadedMotoServer

from tests.support.metadata_service import metadata_service
from tests.worker.conftest import WorkerFixture


def test_a_spot_notice_before_the_worker_handles_signals_is_no_failed_start(bench: WorkerFixture) -> None:
    """The notice is there when the worker starts. SIGTERM ends its inner process while that still imports modules."""
    bench.workers.submitted("worker-1", "definition:1")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        with metadata_service() as metadata:
            metadata.notice = True
            variables = {**bench.environment("worker-1").variables(), **metadata.variables}
            ended = subprocess.run(
                [sys.executable, "-m", "cosmos_batch.worker"],
                env={**os.environ, **variables, "AWS_ENDPOINT_URL": f"http://{host}:{port}"},
                timeout=120,
                check=False,
            )
    finally:
        server.stop()
    assert ended.returncode == 128 + signal.SIGTERM
    row = bench.workers.get("worker-1")
    assert row is not None
    assert (row.state, row.error, row.cause) == ("ENDED", None, None)

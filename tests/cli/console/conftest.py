"""The console of the deployment of the tests, with a run that is half done and a client of its page."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from starlette.testclient import TestClient

from cosmos_batch.cli.console.run_console import console_of_runs
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.stopped_clouds.lookup import RunDeployments
from cosmos_batch.console.application import make_application
from cosmos_batch.console.console import Console
from cosmos_batch.console.guard import Session
from tests.cli.commands.runs.conftest import half as half
from tests.console.conftest import PORT, URL
from tests.support.browser import read_view

OpenRun = Callable[[str], TestClient]


@pytest.fixture
def open_run(deployment: Deployment) -> Iterator[OpenRun]:
    """Provide a function that opens a run, or all runs, and returns a client that has exchanged its token."""
    with ExitStack() as stack:

        def opened(run: str) -> TestClient:
            console = stack.enter_context(console_of_runs(RunDeployments(deployment), run))
            if run:
                read_view(console, run)
            return stack.enter_context(client_of(console))

        yield opened


@contextmanager
def client_of(console: Console) -> Iterator[TestClient]:
    """Serve a console in the process of the test to a client that has exchanged its token."""
    session = Session(PORT)
    with TestClient(make_application(console, session), base_url=URL, headers={"origin": URL}) as client:
        assert client.post("/api/session", json={"token": session.token}).status_code == 204
        yield client

"""The console of the deployment of the tests, with a run that is half done and a client of its page."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from cosmos_batch.cli.console.run_console import console_of_runs
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.console.application import make_application
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
            console = stack.enter_context(console_of_runs(deployment, run))
            if run:
                read_view(console, run)
            session = Session(PORT)
            headers = {"origin": URL}
            client = TestClient(make_application(console, session), base_url=URL, headers=headers)
            stack.enter_context(client)
            assert client.post("/api/session", json={"token": session.token}).status_code == 204
            return client

        yield opened

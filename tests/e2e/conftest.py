"""One cloud for the module that asks for it: deployments that are disturbed by faults are not shared."""

from collections.abc import Iterator

import pytest

from tests.support.deployed_app import App, configuration, running_app


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The app with the scripted engine in both pipelines, and quick clocks."""
    folder = tmp_path_factory.mktemp("app")
    with running_app(folder, configuration(folder)) as running:
        yield running

"""Fixtures: one cloud for each module, because deployments that faults disturb are not shared."""

from collections.abc import Iterator

import pytest

from tests.support.deployed_app import App, configuration, running_app


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Provide the app with the scripted engine in both pipelines, and short timeouts."""
    folder = tmp_path_factory.mktemp("app")
    with running_app(folder, configuration(folder)) as running:
        yield running

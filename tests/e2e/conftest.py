"""Fixtures: one cloud for each module, because deployments that faults disturb are not shared."""

from collections.abc import Iterator

import pytest

from tests.support.deployed_app import App, configuration, running_app


@pytest.fixture(scope="module")
def use_code_build() -> bool:
    """Return whether the app's images are built in CodeBuild; a module that tests the builds overrides this."""
    return False


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, use_code_build: bool) -> Iterator[App]:
    """Provide the app with the scripted engine in both pipelines, and short timeouts."""
    folder = tmp_path_factory.mktemp("app")
    with running_app(folder, configuration(folder, use_code_build=use_code_build)) as running:
        yield running

"""One cloud for the module that asks for it: deployments that are disturbed by faults are not shared."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.demo.media import sample_clip, sample_image
from tests.e2e.harness import App, configuration, running_app


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The app with the scripted engine in both pipelines, and quick clocks."""
    folder = tmp_path_factory.mktemp("app")
    with running_app(folder, configuration(folder)) as running:
        yield running


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_clip(tmp_path_factory.mktemp("media") / "clip.mp4")


@pytest.fixture(scope="session")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_image(tmp_path_factory.mktemp("media") / "picture.png")

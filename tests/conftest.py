"""Fixtures and settings of all tests."""

import gc
import os
import signal
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples every time, and no time asserted: a busy machine is no defect.
settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")

# Tests run side by side, each on models of a few numbers: more threads would wait for each other, and busily.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell's background jobs ignore Ctrl-C, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every session of boto3 would read its services' models anew, which takes longer than most of what is tested with them.
if find_spec("botocore"):  # vLLM-Omni's environment has none
    import botocore.loaders
    import botocore.session

    botocore.session.create_loader = cache(botocore.loaders.create_loader)

# The modules and tests of the whole suite stay in memory. To traverse them for garbage again and again took a third of
# the CPU time of the collection, and of the tests that run in this process.
gc.set_threshold(50_000)


def pytest_collection_finish() -> None:
    """Exclude what exists before the first test from garbage collection."""
    gc.freeze()


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from cosmos_batch.demo.media import sample_clip

    return sample_clip(tmp_path_factory.mktemp("media") / "clip.mp4")


@pytest.fixture(scope="session")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from cosmos_batch.demo.media import sample_image

    return sample_image(tmp_path_factory.mktemp("media") / "picture.png")

"""One local cloud for all tests of this folder, and the stacks and inboxes of a test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cosmos_batch.local.cloud import LocalCloud
from tests.local.support import CODE_BUCKET, Inbox, Stack


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud.start(tmp_path_factory.mktemp("home"), parent_pid=os.getpid(), stop_grace=1.0) as running:
        running.client("s3").create_bucket(Bucket=CODE_BUCKET)
        yield running


@pytest.fixture
def stack(cloud: LocalCloud) -> Stack:
    return Stack(cloud)


@pytest.fixture(scope="module")
def module_stack(cloud: LocalCloud) -> Stack:
    return Stack(cloud)


@pytest.fixture
def inbox(cloud: LocalCloud) -> Inbox:
    return Inbox(cloud)

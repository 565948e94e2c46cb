"""A plan, and the writing of its run, take the same memory for any number of inputs."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.run_plan import plan_run
from tests.cli.runs.conftest import ask


class ManyObjects:
    """A fake of S3 with any number of objects, none of which can be read."""

    def __init__(self, count: int) -> None:
        self._count = count

    def get_paginator(self, _: str) -> "ManyObjects":
        return self

    def paginate(self, **_: object) -> Iterator[dict[str, Any]]:
        for start in range(0, self._count, 1000):
            numbers = range(start, min(start + 1000, self._count))
            yield {"Contents": [{"Key": f"clips/{number:07}.mp4", "Size": 7, "ETag": '"e"'} for number in numbers]}

    def put_object(self, **_: object) -> None:
        """Forget what is written."""

    def get_object(self, **_: object) -> dict[str, Any]:
        raise OSError("there is nothing")


def peak(deployment: Deployment, count: int) -> int:
    s3 = ManyObjects(count)
    many = replace(deployment, clients=lambda name: s3 if name == "s3" else deployment.clients(name))
    asked = ask(many, "s3://assets/clips/")
    tracemalloc.start()
    try:
        planned = plan_run(many, asked)
        assert planned.estimate.files == count
        planned.write()
        planned.close()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_inputs(deployment: Deployment) -> None:
    peak(deployment, 1)  # what is imported at the first call is not counted
    assert peak(deployment, 4000) < peak(deployment, 1000) + 300_000, "bytes"

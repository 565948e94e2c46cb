"""A plan, and the writing of its run, take the same memory for any number of inputs."""

import tracemalloc
from dataclasses import replace

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.run_plan import plan_run
from tests.cli.runs.conftest import ask
from tests.support.many_objects import ManyObjects


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

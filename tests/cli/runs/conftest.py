"""Buckets with files, and runs that are asked for as a person types them."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cosmos_batch.cli.commands.runs.plan import command
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.run_plan import PlannedRun, plan_run
from cosmos_batch.cli.runs.run_request import RunSpec, read_run_spec
from cosmos_batch.contract.runs import RunItem
from tests.support.runs import read_items

Plan = Callable[[str], PlannedRun]


@pytest.fixture
def put(deployment: Deployment) -> Callable[..., None]:
    """Provide a function that uploads small objects of these keys."""

    def put(*keys: str, body: bytes = b"content") -> None:
        for key in keys:
            deployment.clients("s3").put_object(Bucket="assets", Key=key, Body=body)

    return put


def ask(deployment: Deployment, *arguments: str, origin: str | None = None) -> RunSpec:
    """Return what a command line asks for. `origin` names the inputs for people, if not by their sources."""
    options: dict[str, Any] = command.make_context("plan", list(arguments)).params
    options.pop("as_json")
    return read_run_spec(deployment, options.pop("sources"), options, origin)


@pytest.fixture
def plan(deployment: Deployment) -> Callable[..., PlannedRun]:
    """Provide a function that plans the run of a command line."""
    return lambda *arguments: plan_run(deployment, ask(deployment, *arguments))


@pytest.fixture
def items(deployment: Deployment, plan: Callable[..., PlannedRun]) -> Callable[..., Sequence[RunItem]]:
    """Provide a function that plans and writes the run of a command line, and returns the items that were written."""

    def items(*arguments: str) -> list[RunItem]:
        planned = plan(*arguments)
        planned.write()
        return read_items(deployment.clients("s3"), "state", planned.request.id)

    return items

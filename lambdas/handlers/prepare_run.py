"""`prepare_run`: make an execution of the state machine ready to feed a run.

The input is `{"run": {"id": "..."}}` for a run whose objects the command line has written, or `{"run": {"prefix":
"s3://..."}}` from a person, for which this function lists the files and writes the objects itself.
"""

from functools import cache
from typing import Any

from cosmos_batch.contract.environment import PrepareRunEnvironment
from lambdas.clients import throttling_named
from lambdas.deployed_pipelines import read_pipelines
from lambdas.runs.prepare import prepare_run


@cache
def environment() -> PrepareRunEnvironment:
    """Return the function's environment variables."""
    return PrepareRunEnvironment.read()


@throttling_named()
def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Handle `{"request": <input of the execution>, "execution": {"id", "name", "startTime"}}`."""
    pipelines = {one.queue.id: one for one in read_pipelines(environment().pipeline_parameters)}
    return prepare_run(event, environment(), pipelines)

"""`plan`: turn the request of an execution into a job, or refuse it.

The state machine may call it twice for one execution, and it answers the same: its clock is the execution's start, and
what it writes is written under the job's id.

A refusal is raised as `Failure`, whose text is the Error as JSON; the state machine does not try that again, and passes
it to `report`. For any other exception, which may be a passing fault, the function is called again: a few times, or,
where a service throttles its calls (`Throttled`), until the job's deadline.
"""

from functools import cache
from typing import Any

from cosmos_batch.contract.environment import DeployedQueue, PlanEnvironment
from lambdas.clients import throttling_named
from lambdas.deployed_pipelines import read_pipelines
from lambdas.planning.plan import plan_execution


@cache
def environment() -> PlanEnvironment:
    """Return the function's environment variables."""
    return PlanEnvironment.read()


@cache
def enabled_queues() -> dict[str, DeployedQueue]:
    """Return the queues of all enabled pipelines by the pipeline's id, smallest model first."""
    return {pipeline.queue.id: pipeline.queue for pipeline in read_pipelines(environment().pipeline_parameters)}


@throttling_named()
def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Handle `{"request": <input of the execution>, "execution": {"id", "name", "startTime"}, "schemaVersion": 4}`."""
    return plan_execution(event, environment(), enabled_queues)

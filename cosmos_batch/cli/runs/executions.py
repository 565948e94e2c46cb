"""Start the executions that feed runs, and stop runs."""

import json
import time
import uuid
from typing import Any

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError, WrongCall
from cosmos_batch.cli.job_snapshot import read_execution
from cosmos_batch.cli.local_cloud import where_executions_are
from cosmos_batch.cli.runs.run_snapshot import RunSnapshot, read_run_snapshot
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Error
from cosmos_batch.state import RunRow

BEGIN_SECONDS = 60.0  # a new execution has noted within this time that it feeds the run
_POLL_SECONDS = 0.5


def check_is_new(deployment: Deployment, run: str) -> None:
    """Raise WrongCall where a run of this name was begun before; its objects must not be written again."""
    if deployment.runs.get(run) or read_execution(deployment, deployment.execution_arn(run)):
        raise WrongCall(
            f"There is a run {run} already.",
            f"Choose another --name: what was answered costs nothing again. cosmos-batch runs show {run} shows it.",
        )


def begin_run(deployment: Deployment, run: str) -> None:
    """Start the execution of a run whose objects are written. It is named after the run, so that there is one."""
    _start(deployment, run, {"id": run})


def resume_run(deployment: Deployment, run: str, max_dollars: float | None) -> RunSnapshot:
    """Start another execution of a run that has ended early, and return its state once that execution feeds it.

    Raises WrongCall where there is nothing to resume.
    """
    state = read_run_snapshot(deployment, run)
    _check_can_go_on(deployment, state)
    name = run if state.row is None else _another_name(run)
    _start(deployment, name, {"id": run} | ({"maxDollars": max_dollars} if max_dollars is not None else {}))
    arn, deadline = deployment.execution_arn(name), time.monotonic() + BEGIN_SECONDS
    while state.row is None or state.row.execution_arn != arn:
        if time.monotonic() > deadline:
            raise CliError(
                f"The execution {name} has not begun to feed {run} yet.",
                f"cosmos-batch runs show {run} tells when it has; or look at it {where_executions_are()}.",
            )
        time.sleep(_POLL_SECONDS)
        state = read_run_snapshot(deployment, run)
    return state


def cancel_run(deployment: Deployment, run: str, error: Error) -> RunRow:
    """Cancel a run and stop the execution that feeds it, unless the run has ended. Returns the row as it is then.

    The execution of a held run may be over. Then another one finishes the run: it sums it up and tells its caller.
    """
    row = deployment.runs.cancel(run, error.message)
    if row.state != "CANCELLED" or row.ended_at is not None or row.execution_arn is None:
        return row
    execution = read_execution(deployment, row.execution_arn)
    if execution is None or execution.over:
        _start(deployment, _another_name(run), {"id": run, "finishCancelled": True})
    else:
        deployment.clients("stepfunctions").stop_execution(
            executionArn=row.execution_arn, error=error.code, cause=error.cause()
        )
    return row


def _check_can_go_on(deployment: Deployment, state: RunSnapshot) -> None:
    """Raise WrongCall where a run goes on, is being stopped, or has nothing left to do."""
    run, row = state.run, state.row
    arn = row.execution_arn if row and row.execution_arn else deployment.execution_arn(run)
    execution = read_execution(deployment, arn)
    if execution is not None and not execution.over:
        if row is not None and row.state == "HELD":
            items = counted(state.counts.in_flight, "item")
            raise WrongCall(
                f"{run} is HELD, ending: {items} in flight.",
                f"Resume it when they have ended: cosmos-batch runs watch {run}",
            )
        raise WrongCall(f"{run} goes on already.", f"cosmos-batch runs watch {run}")
    if state.name == "CANCELLED, ending":
        raise WrongCall(
            f"{run} is CANCELLED, ending: what it left in flight is being dropped.",
            f"Resume it when it has ended: cosmos-batch runs watch {run}. If it does not end: cosmos-batch runs cancel "
            f"{run}",
        )
    if row is not None and row.state == "SUCCEEDED":
        raise WrongCall(
            f"Every item of {run} has ended.", f"cosmos-batch runs retry {run} --failed asks again what failed."
        )


def _another_name(run: str) -> str:
    """Return a new name for a further execution of a run."""
    return f"{run}-{uuid.uuid4().hex[:8]}"


def _start(deployment: Deployment, name: str, request: dict[str, Any]) -> None:
    run = request["id"]
    stepfunctions = deployment.clients("stepfunctions")
    try:
        stepfunctions.start_execution(
            stateMachineArn=deployment.state_machine_arn, name=name, input=json.dumps({"run": request})
        )
    except stepfunctions.exceptions.ExecutionAlreadyExists as error:
        raise WrongCall(f"There is a run {run} already.", f"cosmos-batch runs show {run}") from error

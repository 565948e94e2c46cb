"""`vams`: a workflow of VAMS asks for a file, or several, and waits with a task token.

VAMS's body names no pipeline: each pipeline has a function of its own. What can be said with the token is said with
it, for the workflow reads nothing else; only a body without a token is refused in the answer. A call that repeats
another one, with a token of its own, joins its run (decision 033).
"""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.result import Result
from cosmos_batch.contract.s3 import execution_name
from cosmos_batch.contract.vams import MARGIN_SECONDS
from cosmos_batch.state import Group, Groups
from lambdas.clients import state_table
from lambdas.log import log, log_fault
from lambdas.step_functions import start
from lambdas.task_tokens import fail
from lambdas.vams.answers import answer, end_in_group
from lambdas.vams.body import TASK_TOKEN, read_body, read_run, read_token
from lambdas.vams.orchestration_bus import register
from lambdas.vams.requests import Asked, Run
from lambdas.vams_client import vams_client


@cache
def environment() -> VamsEnvironment:
    """The function's environment variables."""
    return VamsEnvironment.read()


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """`{"body": {...}}`, the body an object or JSON text."""
    try:
        body = read_body(event)
        token = read_token(body)
    except Failure as failure:
        log("refused", code=failure.error.code)
        return {"statusCode": 400, "body": failure.error.model_dump_json()}
    run_id = run_of(body)
    take(run_id, token, body)
    return {"statusCode": 200, "body": json.dumps({"jobId": run_id})}


def run_of(body: dict[str, Any]) -> str:
    """The id of the run that a body asks for, whichever token it brings.

    VAMS invokes the function again where the run has failed or the call itself has, each time with another token. All
    else in the body is the same, and differs from that of any other run: it says where the execution's results go.
    """
    asked = json.dumps({name: value for name, value in body.items() if name != TASK_TOKEN}, sort_keys=True)
    return execution_name(environment().pipeline, hashlib.sha256(asked.encode()).hexdigest())


def take(run_id: str, token: str, body: dict[str, Any]) -> None:
    """Start or join the run, or answer the token with what stands in its way."""
    try:
        deadline = datetime.now(UTC) + timedelta(seconds=environment().task_timeout_seconds - MARGIN_SECONDS)
        pipeline = pipeline_named(environment().pipeline)
        assert pipeline is not None, "infra deploys the pipelines of the catalogue"
        run = read_run(body, pipeline, deadline)
        register(join_run(run_id, token, run), run.event_prefix, environment())
    except Failure as failure:
        log("refused", jobId=run_id, code=failure.error.code)
        refuse(run_id, token, failure.error)
    except Exception as error:
        log_fault("not started", error, jobId=run_id)
        refuse(run_id, token, _could_not_start(error))


def join_run(run_id: str, token: str, run: Run) -> list[str]:
    """Let the token wait for the run, and start what of it neither runs nor has ended; returns the jobs.

    A run that has ended is answered at once, as it was before; but files whose failure may pass are tried again.
    """
    groups = Groups(state_table(environment().state_table))
    group = groups.wait(run_id, token, len(run.asked), run.files)
    if group.has_answered(token):
        return []
    while group.may_pass:
        group = groups.reopen(group, token)
    if group.answered_at is not None:
        answer(group, [token], group.output, environment().callback_role_arn)
        return []
    return start_jobs(group, run.asked, groups)


def start_jobs(group: Group, asked: list[Asked], groups: Groups) -> list[str]:
    """An execution for each file without an end, unless it has one already; returns their names.

    What cannot be started counts as ended: the others go on, and VAMS hears of it at the end.
    """
    jobs = []
    for number, one in enumerate(asked):
        attempts = [job_id(group, number, attempt) for attempt in range(group.attempt + 1)]
        if not group.ended.isdisjoint(attempts):
            continue
        job = attempts[-1]
        groups.join(job, group, one.name)
        try:
            begin(job, one)
            jobs.append(job)
        except Exception as error:
            log_fault("not started", error, jobId=job)
            result = Result(job_id=job, error=_could_not_start(error))
            end_in_group(result, state_table(environment().state_table), environment().callback_role_arn)
    return jobs


def job_id(group: Group, number: int, attempt: int) -> str:
    """The job for a file of a run, in one of the run's attempts. The first job of a single file has the run's id."""
    parts = [str(number)] if group.jobs > 1 else []
    parts += [f"attempt {attempt}"] if attempt else []
    return execution_name(environment().pipeline, group.id, *parts) if parts else group.id


def begin(job_id: str, asked: Asked) -> None:
    """Start the execution for one file."""
    start(environment().state_machine_arn, job_id, asked.request, environment().state_bucket)
    log("started", jobId=job_id)


def refuse(run_id: str, token: str, error: Error) -> None:
    """Answer the token."""
    states = vams_client("stepfunctions", environment().callback_role_arn)
    fail(run_id, token, error, states)


def _could_not_start(error: Exception) -> Error:
    return Error(
        code="Internal",
        message=f"The run could not be started ({type(error).__name__}).",
        remedy="Run it again in a few minutes; if that fails too, see the function's log.",
        retryable=True,
    )

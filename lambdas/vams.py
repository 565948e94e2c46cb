"""`vams`: a workflow of VAMS asks for a file, or several, and waits with a task token.

VAMS's body names no pipeline: each pipeline has a function of its own. What can be said with the token is said with
it, for the workflow reads nothing else; only a body without a token is refused in the answer.
"""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cosmos_batch.contract.catalogue import pipeline_named
from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.s3 import execution_name
from cosmos_batch.contract.vams import MARGIN_SECONDS
from cosmos_batch.state import Callbacks, Groups
from lambdas.clients import state_table
from lambdas.intake import start
from lambdas.log import log, log_fault
from lambdas.orchestration import register
from lambdas.tokens import fail
from lambdas.vams_account import vams_client
from lambdas.vams_body import read_body, read_run, read_token
from lambdas.vams_group import end_in_group
from lambdas.vams_request import Asked


@cache
def environment() -> VamsEnvironment:
    """Of this function."""
    return VamsEnvironment.read()


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """`{"body": {...}}`, the body an object or JSON text."""
    try:
        body = read_body(event)
        token = read_token(body)
    except Failure as failure:
        log("refused", code=failure.error.code)
        return {"statusCode": 400, "body": failure.error.model_dump_json()}
    # One token is one request, however often VAMS repeats it.
    run_id = execution_name(environment().pipeline, hashlib.sha256(token.encode()).hexdigest())
    take(run_id, token, body)
    return {"statusCode": 200, "body": json.dumps({"jobId": run_id})}


def take(run_id: str, token: str, body: dict[str, Any]) -> None:
    """Start the run, or answer the token with what stands in its way."""
    try:
        deadline = datetime.now(UTC) + timedelta(seconds=environment().task_timeout_seconds - MARGIN_SECONDS)
        pipeline = pipeline_named(environment().pipeline)
        assert pipeline is not None, "infra deploys the pipelines of the catalogue"
        run = read_run(body, pipeline, deadline)
        jobs = start_one(run_id, token, run.asked[0]) if len(run.asked) == 1 else start_each(run_id, token, run.asked)
        register(jobs, run.event_prefix, environment())
    except Failure as failure:
        log("refused", jobId=run_id, code=failure.error.code)
        refuse(run_id, token, failure.error)
    except Exception as error:
        log_fault("not started", error, jobId=run_id)
        refuse(run_id, token, _could_not_start(error))


def start_one(job_id: str, token: str, asked: Asked) -> list[str]:
    """One file: its job is the run, and its end answers the token."""
    Callbacks(state_table(environment().state_table)).keep(job_id, token)
    begin(job_id, asked)
    return [job_id]


def start_each(run_id: str, token: str, asked: list[Asked]) -> list[str]:
    """Several files: an execution for each, and the last one's end answers the token.

    What cannot be started counts as ended: the others go on, and VAMS hears of it at the end.
    """
    table, role = state_table(environment().state_table), environment().callback_role_arn
    groups = Groups(table)
    groups.open(run_id, token, len(asked))
    jobs = []
    for number, one in enumerate(asked):
        job_id = execution_name(environment().pipeline, run_id, str(number))
        groups.join(job_id, run_id, one.name)
        try:
            begin(job_id, one)
            jobs.append(job_id)
        except Exception as error:
            log_fault("not started", error, jobId=job_id)
            end_in_group(job_id, _could_not_start(error), table, role)
    return jobs


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

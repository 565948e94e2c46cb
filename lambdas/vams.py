"""`vams`: a workflow of VAMS asks for one file, and waits with a task token.

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
from cosmos_batch.state import Callbacks
from lambdas.clients import state_table
from lambdas.intake import start
from lambdas.log import log, log_fault
from lambdas.tokens import VAMS_CAUSE_LIMIT, fail
from lambdas.vams_body import read_body, read_request, read_token

# Ours end before VAMS's own clock does, so that it hears why.
MARGIN = timedelta(minutes=15)


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
    job_id = execution_name(environment().pipeline, hashlib.sha256(token.encode()).hexdigest())
    take(job_id, token, body)
    return {"statusCode": 200, "body": json.dumps({"jobId": job_id})}


def take(job_id: str, token: str, body: dict[str, Any]) -> None:
    """Start the run, or answer the token with what stands in its way."""
    try:
        deadline = datetime.now(UTC) + timedelta(seconds=environment().task_timeout_seconds) - MARGIN
        pipeline = pipeline_named(environment().pipeline)
        assert pipeline is not None, "infra deploys the pipelines of the catalogue"
        request = read_request(body, pipeline, deadline)
        Callbacks(state_table(environment().state_table)).keep(job_id, token)
        start(environment().state_machine_arn, job_id, request, environment().state_bucket)
        log("started", jobId=job_id)
    except Failure as failure:
        log("refused", jobId=job_id, code=failure.error.code)
        fail(job_id, token, failure.error, VAMS_CAUSE_LIMIT)
    except Exception as error:
        log_fault("not started", error, jobId=job_id)
        fail(job_id, token, _could_not_start(error), VAMS_CAUSE_LIMIT)


def _could_not_start(error: Exception) -> Error:
    return Error(
        code="Internal",
        message=f"The run could not be started ({type(error).__name__}).",
        remedy="Run it again in a few minutes; if that fails too, see the function's log.",
        retryable=True,
    )

"""`vams`: start what a workflow of VAMS asks for, which waits with a task token.

VAMS's body names no pipeline, so each pipeline has a function of its own. A workflow does not read this function's
answer: it is told of every refusal by its token. Only a body without a token is refused in the answer.
"""

import json
from functools import cache
from typing import Any

from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.contract.error import Failure
from lambdas.log import log
from lambdas.vams.body import read_body, read_token
from lambdas.vams.start_jobs import RunStarter


@cache
def environment() -> VamsEnvironment:
    """Return the function's environment variables."""
    return VamsEnvironment.read()


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Handle `{"body": {...}}`, in which the body is an object or JSON text."""
    try:
        body = read_body(event)
        token = read_token(body)
    except Failure as failure:
        log("refused", code=failure.error.code)
        return {"statusCode": 400, "body": failure.error.model_dump_json()}
    run_id = RunStarter(environment()).start(body, token)
    return {"statusCode": 200, "body": json.dumps({"jobId": run_id})}

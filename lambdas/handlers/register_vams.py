"""`register_vams`: a custom resource whose creation registers a pipeline with VAMS, and whose deletion takes it back.

VAMS's import function is made to stand behind CDK's provider framework, which is Node.js, and answers CloudFormation
itself in no version that can be relied on: 2.5 does, 2.6 does not. So it is called here as that framework calls it, and
CloudFormation is answered here.
"""

import json
from functools import cache
from typing import Any

from lambdas.cloudformation import answer, to_answer
from lambdas.log import log, log_fault

WAIT_SECONDS = 14 * 60  # the import calls four functions of VAMS in turn; ours is given 15 minutes
REASON_LIMIT = 1000  # characters; CloudFormation takes an answer of 4 KB
NO_RESPONSE_URL = "..."  # what CDK's framework puts there: the answer is its own

LEFTOVERS = (
    "Delete in VAMS what the warnings name, other workflows that use the pipeline first. "
    "As long as it stands, VAMS refuses to register a pipeline of this id again."
)


class Refused(Exception):  # noqa: N818 - VAMS's answer, no fault of ours
    """The import function said no."""


@cache
def client() -> Any:
    """Lambda's client. A call that takes long is no call that failed: it is not made again."""
    import boto3
    from botocore.config import Config

    return boto3.client("lambda", config=Config(read_timeout=WAIT_SECONDS, retries={"total_max_attempts": 1}))


def handler(event: dict[str, Any], _context: object) -> None:
    """A request of CloudFormation. `Import` in its properties is what VAMS's import function takes as its own."""
    properties = event["ResourceProperties"]
    function, pipeline = properties["ImportFunction"], properties["Pipeline"]
    # With another import function it is another resource: CloudFormation then has the old one deleted at the old VAMS.
    request = to_answer(event, f"{function}/{pipeline}")
    operation = event["RequestType"]
    failure = None
    try:
        response = ask(function, to_import(event, request["PhysicalResourceId"]))
        log("VAMS answered", request=operation, pipeline=pipeline)
        if warnings := warnings_in(response):
            log("VAMS warns", level="WARNING", pipeline=pipeline, warnings=warnings, remedy=LEFTOVERS)
    except Exception as error:
        log_fault("VAMS refused", error, request=operation, pipeline=pipeline, reason=str(error))
        failure = f"VAMS's import function {function} did not register {pipeline}: {error}"[:REASON_LIMIT]
    # As in VAMS itself, nothing of VAMS stands in the way of a deletion, its own absence included.
    answer(request, None if event["RequestType"] == "Delete" else failure)


def to_import(event: dict[str, Any], physical_id: str) -> dict[str, Any]:
    """The request as the import function knows it."""
    same_resource = event.get("PhysicalResourceId") == physical_id
    passed: dict[str, Any] = {
        "RequestType": event["RequestType"] if same_resource else "Create",
        "ResponseURL": NO_RESPONSE_URL,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "ResourceType": event["ResourceType"],
        "ResourceProperties": event["ResourceProperties"]["Import"],
    }
    if passed["RequestType"] != "Create":
        passed["PhysicalResourceId"] = physical_id
    if passed["RequestType"] == "Update":
        passed["OldResourceProperties"] = event["OldResourceProperties"]["Import"]
    return passed


def ask(function: str, request: dict[str, Any]) -> Any:
    """Call the import function and return its answer, which is JSON or text. Raises Refused."""
    response = client().invoke(FunctionName=function, Payload=json.dumps(request).encode())
    answer = _parsed(response["Payload"].read().decode(errors="replace"))
    if refusal := refusal_in(answer, failed="FunctionError" in response):
        raise Refused(refusal)
    return answer


def refusal_in(answer: Any, failed: bool) -> str | None:
    """Why VAMS refused, or None: 2.6 raises, 2.5 returns a status and says why in its body."""
    if not isinstance(answer, dict):
        return str(answer) if failed else None
    if failed:
        return str(answer.get("errorMessage", answer))
    status = answer.get("statusCode", 200)
    return f"HTTP {status}: {answer.get('body')}" if isinstance(status, int) and status >= 400 else None


def warnings_in(answer: Any) -> str | None:
    """What VAMS could not do in a request that it reports as done.

    A deletion never fails in VAMS: 2.5 lists what it could not delete as `warnings` in its body, 2.6 joins it to one
    text in `Data`.
    """
    if not isinstance(answer, dict):
        return None
    body = answer.get("Data") or _parsed(str(answer.get("body", "")))
    warnings = body.get("warnings") if isinstance(body, dict) else None
    return "; ".join(map(str, warnings)) if isinstance(warnings, list) else warnings


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

"""Register pipelines with VAMS for CloudFormation, by invoking the import function that VAMS deploys.

That function is written to be called by CDK's provider framework, a Lambda function in Node.js. Whether it answers
CloudFormation itself depends on its version: VAMS 2.5 does, 2.6 does not. So it is invoked here as the framework would
invoke it, and CloudFormation is answered here.
"""

import json
from functools import cache
from typing import Any

from lambdas.cloudformation import answer_cloudformation, request_to_answer
from lambdas.log import log, log_fault

WAIT_SECONDS = 14 * 60  # the import calls four functions of VAMS in turn; our own function's timeout is 15 minutes
NO_RESPONSE_URL = "..."  # CDK's framework puts this into its calls: it answers CloudFormation itself

LEFTOVERS = (
    "Delete in VAMS what the warnings name, other workflows that use the pipeline first. "
    "As long as it stands, VAMS refuses to register a pipeline of this id again."
)


class ImportRefused(Exception):  # noqa: N818 - VAMS's answer, no fault of ours
    """VAMS's import function refused a request."""


@cache
def client() -> Any:
    """Return a client of Lambda that waits for a slow call and never repeats one: the import may still be running."""
    import boto3
    from botocore.config import Config

    return boto3.client("lambda", config=Config(read_timeout=WAIT_SECONDS, retries={"total_max_attempts": 1}))


def change_registration(event: dict[str, Any]) -> None:
    """Create, change or delete a registration. `Import` in the request's properties is for the import function."""
    properties = event["ResourceProperties"]
    function, pipeline = properties["ImportFunction"], properties["Pipeline"]
    # Another import function is another resource: CloudFormation then deletes the old one, with the old function.
    request = request_to_answer(event, f"{function}/{pipeline}")
    operation = event["RequestType"]
    failure = None
    try:
        response = invoke_import(function, import_request(event, request["PhysicalResourceId"]))
        log("VAMS answered", request=operation, pipeline=pipeline)
        if warnings := warnings_in(response):
            log("VAMS warns", level="WARNING", pipeline=pipeline, warnings=warnings, remedy=LEFTOVERS)
    except Exception as error:
        log_fault("VAMS refused", error, request=operation, pipeline=pipeline, reason=str(error))
        failure = f"VAMS's import function {function} did not register {pipeline}: {error}"
    # A deletion always succeeds, even if VAMS does not exist any more; VAMS's own deletions never fail either.
    answer_cloudformation(request, None if event["RequestType"] == "Delete" else failure)


def import_request(event: dict[str, Any], physical_id: str) -> dict[str, Any]:
    """Return CloudFormation's request in the form in which CDK's provider framework would pass it on."""
    same_resource = event.get("PhysicalResourceId") == physical_id
    request: dict[str, Any] = {
        "RequestType": event["RequestType"] if same_resource else "Create",
        "ResponseURL": NO_RESPONSE_URL,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "ResourceType": event["ResourceType"],
        "ResourceProperties": event["ResourceProperties"]["Import"],
    }
    if request["RequestType"] != "Create":
        request["PhysicalResourceId"] = physical_id
    if request["RequestType"] == "Update":
        request["OldResourceProperties"] = event["OldResourceProperties"]["Import"]
    return request


def invoke_import(function: str, request: dict[str, Any]) -> Any:
    """Invoke the import function and return its answer, parsed from JSON or as text. Raises ImportRefused."""
    response = client().invoke(FunctionName=function, Payload=json.dumps(request).encode())
    answer = _parse(response["Payload"].read().decode(errors="replace"))
    if refusal := refusal_in(answer, failed="FunctionError" in response):
        raise ImportRefused(refusal)
    return answer


def refusal_in(answer: Any, failed: bool) -> str | None:
    """Return why VAMS refused; None if it did not. VAMS 2.6 raises; 2.5 returns a status and has the reason in `body`.

    `failed` says whether the function raised.
    """
    if not isinstance(answer, dict):
        return str(answer) if failed else None
    if failed:
        return str(answer.get("errorMessage", answer))
    status = answer.get("statusCode", 200)
    return f"HTTP {status}: {answer.get('body')}" if isinstance(status, int) and status >= 400 else None


def warnings_in(answer: Any) -> str | None:
    """Return what VAMS could not do in a request that it reports as done.

    A deletion never fails in VAMS. What it could not delete is a list `warnings` in the body of 2.5, and one text in
    `Data` of 2.6.
    """
    if not isinstance(answer, dict):
        return None
    body = answer.get("Data") or _parse(str(answer.get("body", "")))
    warnings = body.get("warnings") if isinstance(body, dict) else None
    return "; ".join(map(str, warnings)) if isinstance(warnings, list) else warnings


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

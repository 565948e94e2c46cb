"""Build an image for CloudFormation, which fails with the build's own reason if the build fails.

CloudFormation waits until its request is answered by a PUT to the request's ResponseURL. The request starts the build
and is stored in an environment variable of the build; the event of the build's end brings it back, and it is answered.
So nothing polls.
"""

import json
from functools import cache
from typing import Any

from lambdas.cloudformation import answer_cloudformation, request_to_answer
from lambdas.log import log, log_fault

# The build's environment variable that holds what the answer to CloudFormation needs.
REQUEST = "CLOUDFORMATION_REQUEST"
LOG_LINES = 50  # the last lines of a log that are read, among them CodeBuild's own
QUOTED_LINES = 5  # the last lines of the build's commands that are quoted


@cache
def client(service: str) -> Any:
    """Return the boto3 client of a service. `lambdas.clients` is not in this function's zip."""
    import boto3

    return boto3.client(service)


def build_if_missing(event: dict[str, Any]) -> None:
    """Start the build for a request of CloudFormation, or answer the request at once if nothing has to be built."""
    properties = event["ResourceProperties"]
    # Another tag is another resource: CloudFormation then deletes the one before, which leaves its image alone.
    request = request_to_answer(event, f"{properties['Repository']}:{properties['Tag']}")
    if event["RequestType"] == "Delete":
        answer(request)
        return
    failure = None
    try:
        if not image_exists(properties["Repository"], properties["Tag"]):
            start_build(properties["Project"], request)
            return
        log("image is there", image=request["PhysicalResourceId"])
    except Exception as error:
        failure = f"The build of {request['PhysicalResourceId']} could not be started: {error}"
    answer(request, failure)  # if this raises, Lambda calls the handler again


def image_exists(repository: str, tag: str) -> bool:
    """Return whether the repository has an image with this tag."""
    ecr = client("ecr")
    try:
        ecr.describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])
    except ecr.exceptions.ImageNotFoundException:
        return False
    return True


def start_build(project: str, request: dict[str, str]) -> None:
    """Start the build; the token makes CodeBuild start only one for a request that CloudFormation repeats."""
    build = client("codebuild").start_build(
        projectName=project,
        environmentVariablesOverride=[{"name": REQUEST, "value": json.dumps(request), "type": "PLAINTEXT"}],
        idempotencyToken=request["RequestId"],
    )["build"]
    log("build started", build=build["id"], image=request["PhysicalResourceId"])


def answer_for_build(build_id: str) -> None:
    """Tell CloudFormation how a build ended. A build that a person started carries no request, and is ignored."""
    build = client("codebuild").batch_get_builds(ids=[build_id])["builds"][0]
    variables = {variable["name"]: variable["value"] for variable in build["environment"]["environmentVariables"]}
    if REQUEST not in variables:
        return
    log("build ended", build=build_id, status=build["buildStatus"])
    failure = None if build["buildStatus"] == "SUCCEEDED" else failure_of(build)
    answer(json.loads(variables[REQUEST]), failure)


def failure_of(build: dict[str, Any]) -> str:
    """Return why a build failed: the phase, CodeBuild's message, the last lines of its log, and a link to the log."""
    failed = [phase for phase in build.get("phases", []) if phase.get("phaseStatus") not in (None, "SUCCEEDED")]
    messages = " ".join(context.get("message", "") for phase in failed[:1] for context in phase.get("contexts", []))
    where = f" in {failed[0]['phaseType']}" if failed else ""
    link = build.get("logs", {}).get("deepLink", "the build's page in the CodeBuild console")
    text = f"Build {build['id']} ended as {build['buildStatus']}{where}: {messages or 'no reason given'}"
    lines = last_lines(build.get("logs", {}))
    quoted = f" It said last: {lines}" if lines else ""
    return f"{text}{quoted} Its log: {link}"


def last_lines(logs: dict[str, Any]) -> str:
    """Return the last output of the build's commands.

    It is empty if the log cannot be read: that must not keep CloudFormation waiting for its answer.
    """
    if "streamName" not in logs:
        return ""
    try:
        events = client("logs").get_log_events(
            logGroupName=logs["groupName"], logStreamName=logs["streamName"], limit=LOG_LINES
        )["events"]
    except Exception as error:
        log_fault("the build's log cannot be read", error)
        return ""
    lines = [event["message"].strip() for event in events if not event["message"].startswith("[Container]")]
    return " | ".join(filter(None, lines[-QUOTED_LINES:]))


def answer(request: dict[str, str], failure: str | None = None) -> None:
    """Answer CloudFormation, and log a failure."""
    if failure is not None:
        log("image failed", image=request["PhysicalResourceId"], reason=failure)
    answer_cloudformation(request, failure)

"""`image_build`: CloudFormation waits until CodeBuild has built an image, and fails with the build's own reason.

A custom resource is answered by a PUT to its ResponseURL, whenever that comes: the request starts the build and carries
the URL into it, and the event of the build's end brings it back here. Nobody polls.

It has a zip of its own, without the layer, so that an edit of another function does not touch the images' stack.
"""

import json
from functools import cache
from typing import Any

from lambdas import cloudformation
from lambdas.log import log, log_fault

# Of the build: what CloudFormation must be answered with.
REQUEST = "CLOUDFORMATION_REQUEST"
REASON_LIMIT = 1000  # characters; CloudFormation takes an answer of 4 KB
TAIL = 50  # lines of a log, of which CodeBuild's own are left out
QUOTED = 5


@cache
def client(service: str) -> Any:
    """The boto3 client of a service."""
    import boto3

    return boto3.client(service)


def handler(event: dict[str, Any], _context: object) -> None:
    """A request of CloudFormation, or the event of a build's end."""
    if "RequestType" in event:
        take(event)
    else:
        finish(event["detail"]["build-id"].rpartition("/")[2])  # an ARN, and BatchGetBuilds takes ids


def take(event: dict[str, Any]) -> None:
    """Answer at once where there is nothing to build, else start the build."""
    properties = event["ResourceProperties"]
    # Another tag is another resource: CloudFormation then deletes the one before, which leaves its image alone.
    request = cloudformation.to_answer(event, f"{properties['Repository']}:{properties['Tag']}")
    if event["RequestType"] == "Delete":
        answer(request)
        return
    failure = None
    try:
        if not is_there(properties["Repository"], properties["Tag"]):
            start(properties["Project"], request)
            return
        log("image is there", image=request["PhysicalResourceId"])
    except Exception as error:
        failure = f"The build of {request['PhysicalResourceId']} could not be started: {error}"
    answer(request, failure)  # where the answer itself fails, Lambda tries the whole again


def is_there(repository: str, tag: str) -> bool:
    """Whether the image was built before."""
    ecr = client("ecr")
    try:
        ecr.describe_images(repositoryName=repository, imageIds=[{"imageTag": tag}])
    except ecr.exceptions.ImageNotFoundException:
        return False
    return True


def start(project: str, request: dict[str, str]) -> None:
    """Start the build; a request that CloudFormation repeats starts no other."""
    build = client("codebuild").start_build(
        projectName=project,
        environmentVariablesOverride=[{"name": REQUEST, "value": json.dumps(request), "type": "PLAINTEXT"}],
        idempotencyToken=request["RequestId"],
    )["build"]
    log("build started", build=build["id"], image=request["PhysicalResourceId"])


def finish(build_id: str) -> None:
    """Tell CloudFormation how a build ended. One that a person started has nobody who waits."""
    build = client("codebuild").batch_get_builds(ids=[build_id])["builds"][0]
    variables = {one["name"]: one["value"] for one in build["environment"]["environmentVariables"]}
    if REQUEST not in variables:
        return
    log("build ended", build=build_id, status=build["buildStatus"])
    answer(json.loads(variables[REQUEST]), None if build["buildStatus"] == "SUCCEEDED" else reason(build))


def reason(build: dict[str, Any]) -> str:
    """Why a build failed: the phase, what CodeBuild says of it, how its log ends, and where that is."""
    failed = [phase for phase in build.get("phases", []) if phase.get("phaseStatus") not in (None, "SUCCEEDED")]
    said = " ".join(context.get("message", "") for phase in failed[:1] for context in phase.get("contexts", []))
    where = f" in {failed[0]['phaseType']}" if failed else ""
    place = build.get("logs", {}).get("deepLink", "the build's page in the CodeBuild console")
    text = f"Build {build['id']} ended as {build['buildStatus']}{where}: {said or 'no reason given'}"
    ending = last_lines(build.get("logs", {}))
    quoted = f" It said last: {ending[-REASON_LIMIT:]}" if ending else ""
    return f"{text[:REASON_LIMIT]}{quoted} Its log: {place}"


def last_lines(logs: dict[str, Any]) -> str:
    """What the build's commands said last; nothing where that cannot be read, for CloudFormation must be answered."""
    if "streamName" not in logs:
        return ""
    try:
        events = client("logs").get_log_events(
            logGroupName=logs["groupName"], logStreamName=logs["streamName"], limit=TAIL
        )["events"]
    except Exception as error:
        log_fault("the build's log cannot be read", error)
        return ""
    lines = [event["message"].strip() for event in events if not event["message"].startswith("[Container]")]
    return " | ".join(filter(None, lines[-QUOTED:]))


def answer(request: dict[str, str], failure: str | None = None) -> None:
    """Tell CloudFormation."""
    if failure is not None:
        log("image failed", image=request["PhysicalResourceId"], reason=failure)
    cloudformation.answer(request, failure)

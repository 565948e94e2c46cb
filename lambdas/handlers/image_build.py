"""`image_build`: the custom resource that lets CloudFormation wait until CodeBuild has built a worker's image.

It has a zip of its own, without the layer, so that an edit of another function does not change the images' stack.
"""

from typing import Any

from lambdas.builds.images import answer_for_build, build_if_missing


def handler(event: dict[str, Any], _context: object) -> None:
    """Handle a request of CloudFormation, or EventBridge's event that a build has ended."""
    if "RequestType" in event:
        build_if_missing(event)
    else:
        answer_for_build(event["detail"]["build-id"].rpartition("/")[2])  # an ARN, and BatchGetBuilds takes ids

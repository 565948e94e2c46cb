"""Answers to CloudFormation, which waits for a custom resource until something is put to its ResponseURL."""

import json
import urllib.request
from typing import Any

# Of the request: what CloudFormation must be answered with.
SAME = ("StackId", "RequestId", "LogicalResourceId", "PhysicalResourceId", "ResponseURL")


def to_answer(event: dict[str, Any], physical_id: str) -> dict[str, str]:
    """What an answer needs of a request. A deletion is about the id that the resource has."""
    request = {name: event[name] for name in SAME if name in event}
    if event["RequestType"] != "Delete":
        request["PhysicalResourceId"] = physical_id
    return request


def answer(request: dict[str, str], failure: str | None = None) -> None:
    """Tell CloudFormation that all is well, or what is not."""
    body = {name: value for name, value in request.items() if name != "ResponseURL"}
    body |= {"Status": "FAILED", "Reason": failure} if failure is not None else {"Status": "SUCCESS"}
    # The URL is signed for no content type.
    put = urllib.request.Request(  # noqa: S310 - CloudFormation's own
        request["ResponseURL"], json.dumps(body).encode(), {"Content-Type": ""}, method="PUT"
    )
    urllib.request.urlopen(put, timeout=30).close()  # noqa: S310

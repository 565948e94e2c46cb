"""Answer CloudFormation, which waits for a custom resource until a JSON object is put to the request's ResponseURL."""

import json
import urllib.request
from typing import Any

# The fields of a request that its answer repeats, and the URL of the answer.
REPEATED = ("StackId", "RequestId", "LogicalResourceId", "PhysicalResourceId", "ResponseURL")


def request_to_answer(event: dict[str, Any], physical_id: str) -> dict[str, str]:
    """Return the fields of a request that its answer must repeat, with the id of the resource.

    That is `physical_id`, or at a deletion the id that the resource has already.
    """
    request = {name: event[name] for name in REPEATED if name in event}
    if event["RequestType"] != "Delete":
        request["PhysicalResourceId"] = physical_id
    return request


def answer_cloudformation(request: dict[str, str], failure: str | None = None) -> None:
    """Tell CloudFormation that a request succeeded, or why it failed."""
    body = {name: value for name, value in request.items() if name != "ResponseURL"}
    body |= {"Status": "FAILED", "Reason": failure} if failure is not None else {"Status": "SUCCESS"}
    # CloudFormation signs the URL without a content type, so the PUT must have an empty one.
    put = urllib.request.Request(  # noqa: S310 - the URL is CloudFormation's
        request["ResponseURL"], json.dumps(body).encode(), {"Content-Type": ""}, method="PUT"
    )
    urllib.request.urlopen(put, timeout=30).close()  # noqa: S310

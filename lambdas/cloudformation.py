"""Answer CloudFormation, which waits for a custom resource until a JSON object is put to the request's ResponseURL."""

import json
import urllib.request
from bisect import bisect_right
from typing import Any

# The fields of a request that its answer repeats, and the URL of the answer.
REPEATED = ("StackId", "RequestId", "LogicalResourceId", "PhysicalResourceId", "ResponseURL")
ANSWER_LIMIT = 4096  # bytes of the JSON object
LEFT_OUT = " [...] "


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
    # CloudFormation signs the URL without a content type, so the PUT must have an empty one.
    put = urllib.request.Request(  # noqa: S310 - the URL is CloudFormation's
        request["ResponseURL"], _answer(request, failure), {"Content-Type": ""}, method="PUT"
    )
    urllib.request.urlopen(put, timeout=30).close()  # noqa: S310


def _answer(request: dict[str, str], failure: str | None) -> bytes:
    """Return the answer to a request. A long reason loses its middle, because CloudFormation refuses a long answer."""
    answer = {name: value for name, value in request.items() if name != "ResponseURL"}
    if failure is None:
        return _encoded({**answer, "Status": "SUCCESS"})
    answer["Status"] = "FAILED"
    whole = _encoded({**answer, "Reason": failure})
    if len(whole) <= ANSWER_LIMIT:
        return whole

    def shortened(kept: int) -> bytes:
        """Return the answer with so many characters of the beginning of the reason, and as many of its end."""
        reason = f"{failure[:kept]}{LEFT_OUT}{failure[len(failure) - kept :]}"
        return _encoded({**answer, "Reason": reason})

    fitting = bisect_right(range(len(failure) // 2), ANSWER_LIMIT, key=lambda kept: len(shortened(kept)))
    return shortened(fitting - 1)


def _encoded(answer: dict[str, str]) -> bytes:
    """Return an answer as JSON in UTF-8. Escaped as ASCII, a character would take six bytes or twelve."""
    return json.dumps(answer, ensure_ascii=False).encode(errors="replace")

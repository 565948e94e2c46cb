"""Answers of AWS that a test gives in place of a service, by the event `before-send` of a boto3 client."""

from collections.abc import Iterator

from botocore.awsrequest import AWSResponse


class _Body:
    """The body of an answer, as botocore reads it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self._content


def aws_answer(status: int, body: bytes) -> AWSResponse:
    """Return an answer with this status and body."""
    return AWSResponse("https://aws", status, {}, _Body(body))

"""`upload`: start what a new file in an asset bucket asks for.

Events of S3 come from EventBridge through SQS, at least once and in any order. A run is started only once because of
its execution's name, which is derived from the pipeline and the exact version of the file: the same event received
twice, or the events of a file and of its sidecar, lead to one execution.
"""

from functools import cache
from typing import Any

from cosmos_batch.contract.environment import UploadEnvironment
from lambdas.intake.uploads import handle_upload
from lambdas.sqs_records import each_record


@cache
def environment() -> UploadEnvironment:
    """Return the function's environment variables."""
    return UploadEnvironment.read()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Handle a batch of SQS records, each of which holds EventBridge's event of one object."""
    return each_record(event, lambda record: handle_upload(record, environment()), context)

"""Check whether this person may list, read and write where files and runs lie."""

from collections.abc import Iterator

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.doctor.findings import Finding, Verdict
from cosmos_batch.cli.runs.local_inputs import may_write
from cosmos_batch.contract.s3 import S3Location

CHECK = "bucket"


def check_bucket(deployment: Deployment, root: str, folder: str, needs_writing: bool) -> Iterator[Finding]:
    """Yield whether a root (`bucket` or `bucket/prefix/`) may be listed, and a folder below it written to.

    Nothing is left there. Without `needs_writing`, a root that may only be read is no more than a warning.
    """
    from botocore.exceptions import ClientError

    bucket, _, prefix = root.partition("/")
    place, name, s3 = S3Location(bucket, prefix), f"{CHECK} {root}", deployment.clients("s3")
    try:
        s3.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        message = (
            f"{place.uri} does not exist." if code == "NoSuchBucket" else f"You may not list {place.uri} ({code})."
        )
        remedy = "Deploy again, or ask for s3:ListBucket and s3:GetObject there."
        yield Finding(check=name, verdict=Verdict.PROBLEM, message=message, remedy=remedy)
        return
    written = S3Location(bucket, f"{prefix}{folder}")
    if may_write(s3, written):
        yield Finding(check=name, verdict=Verdict.OK, message="You may list it and write to it.")
        return
    yield Finding(
        check=name,
        verdict=Verdict.PROBLEM if needs_writing else Verdict.WARNING,
        message=f"You may not write to {written.uri}.",
        remedy="Ask for s3:PutObject there" + ("." if needs_writing else "; or name files that are in S3 already."),
    )

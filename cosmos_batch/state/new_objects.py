"""Write objects of the state bucket that only the first of several writers may write."""

from typing import Any

CONFLICTS = 10  # answers of 409 in a row, each to a write that began while another one was under way


def write_once(s3: Any, bucket: str, key: str, content: bytes) -> bytes:
    """Write an object where there is none. Returns what is there then: `content`, or what an earlier writer wrote.

    S3 compares and writes in one step (`If-None-Match: *`), so all writers return the same. It answers 409 to a write
    that meets another one, which is then to be repeated (Amazon S3 user guide, "Conditional writes").
    """
    for _ in range(CONFLICTS):
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=content, IfNoneMatch="*")
            return content
        except s3.exceptions.ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "PreconditionFailed":
                earlier: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
                return earlier
            if code != "ConditionalRequestConflict":
                raise
            conflict = error
    raise RuntimeError(f"s3://{bucket}/{key} could not be written: other writes met it {CONFLICTS} times") from conflict

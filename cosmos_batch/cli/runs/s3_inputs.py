"""List inputs that lie in S3: all objects below a prefix, and objects that are named one by one."""

from collections.abc import Iterable, Iterator
from typing import Any

from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs.inputs import InputCounts, ListedInput
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.cli.runs.progress_counter import ProgressCounter
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.contract.s3 import S3Location, parse_uri
from cosmos_batch.planning.input_files import refuse_size
from cosmos_batch.planning.runs.line_problems import FieldProblem
from cosmos_batch.planning.runs.selection import Selection

HEADS_AT_ONCE = 32
# More named objects than this are not looked at one by one: at a thousand a second they would take too long. Those
# that are gone fail alone, as items of the run.
HEADS_LIMIT = 20_000


def listed(s3: Any, prefix: S3Location) -> Iterator[dict[str, Any]]:
    """Yield what S3 lists below a prefix, page after page. Raises CliError where it may not be listed."""
    from botocore.exceptions import ClientError

    try:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=prefix.bucket, Prefix=prefix.key):
            yield from page.get("Contents", [])
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in ("NoSuchBucket", "404"):
            raise CliError(f"There is no bucket {prefix.bucket}.", "Check the name, account and region.") from error
        if code in ("AccessDenied", "403"):
            raise CliError(
                f"You may not list {prefix.uri}.", f"Ask for the right to s3:ListBucket on {prefix.bucket}."
            ) from error
        raise


def below_prefix(
    s3: Any, prefix: S3Location, selection: Selection, input_counts: InputCounts, home: str
) -> Iterator[ListedInput]:
    """Yield the objects below a prefix that a run takes, with progress.

    An item's id is its key, or its URI where it lies in another bucket than `home`.
    """
    folder = prefix.key[: prefix.key.rfind("/") + 1]
    with ProgressCounter(f"objects listed below {prefix.uri}") as counting:
        for content in listed(s3, prefix):
            counting.add()
            key, size = content["Key"], content["Size"]
            why = selection.why_not(key.removeprefix(folder), size)
            uri = S3Location(prefix.bucket, key).uri
            if why is not None:
                input_counts.leave_out(why, uri)
                continue
            item = RunItem(id=key if prefix.bucket == home else uri, input=uri, etag=content["ETag"], size=size)
            yield ListedInput(item, uri, 0)


class NamedObjects:
    """Looks at objects that were named and not listed: whether they exist, their ETags and sizes."""

    def __init__(self, s3: Any, input_counts: InputCounts, copies: str) -> None:
        """`copies` is the prefix of objects that are put there when the run starts, which are not looked at."""
        self._s3 = s3
        self._copies = copies
        self._input_counts = input_counts
        self._looked = 0
        self.unchecked = 0

    def checked(self, inputs: Iterable[ListedInput]) -> Iterator[ListedInput]:
        """Yield the inputs whose objects can be read, with what S3 knows of them; report the others."""
        for listed, problem in in_parallel(self._look, self._counted(inputs), HEADS_AT_ONCE):
            if problem is None:
                yield listed
            else:
                self._input_counts.refuse(problem.at(listed.source, listed.line))

    def _counted(self, inputs: Iterable[ListedInput]) -> Iterator[tuple[ListedInput, bool]]:
        """Yield each input, and whether its object is looked at."""
        for listed in inputs:
            item = listed.item
            is_named = item.input is not None and item.etag is None and not item.input.startswith(self._copies)
            looks = is_named and self._looked < HEADS_LIMIT
            self._looked += looks
            self.unchecked += is_named and not looks
            yield listed, looks

    def _look(self, counted: tuple[ListedInput, bool]) -> tuple[ListedInput, FieldProblem | None]:
        from botocore.exceptions import ClientError

        listed, looks = counted
        item = listed.item
        if not looks or item.input is None:
            return listed, None
        bucket, key = parse_uri(item.input)
        version = {} if item.version_id is None else {"VersionId": item.version_id}
        try:
            head = self._s3.head_object(Bucket=bucket, Key=key, **version)
        except ClientError as error:
            return listed, _why_not_readable(listed, error)
        try:
            refuse_size(item.input, head["ContentLength"])
        except Failure as failure:
            return listed, FieldProblem.of("input", failure)
        known = item.model_copy(update={"etag": head["ETag"], "size": head["ContentLength"]})
        return listed._replace(item=known), None


def _why_not_readable(listed: ListedInput, error: Any) -> FieldProblem:
    """Return why an object cannot be read. Where a person may not list the bucket, S3 answers 403 for a missing one."""
    uri = listed.item.input
    code = error.response["Error"]["Code"]
    if code in ("404", "NoSuchKey", "NoSuchVersion", "NoSuchBucket"):
        remedy = f"Check the name, %, + and spaces included{'; or remove the line' if listed.line else ''}."
        return FieldProblem("input", f"{uri} does not exist.", remedy)
    if code in ("403", "AccessDenied"):
        return FieldProblem(
            "input", f"{uri} may not be read, or does not exist.", "Ask for s3:GetObject and s3:ListBucket."
        )
    raise error

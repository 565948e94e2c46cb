"""List inputs that lie in S3: all objects below a prefix, and objects that are named one by one."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs.inputs import InputCounts, ListedInput
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.cli.runs.progress_counter import ProgressCounter
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.contract.s3 import S3Location, parse_uri
from cosmos_batch.planning.input_files import locate, missing_file, refuse_size, refuse_total_size
from cosmos_batch.planning.runs.line_problems import FieldProblem
from cosmos_batch.planning.runs.other_files import other_files
from cosmos_batch.planning.runs.selection import Selection

HEADS_AT_ONCE = 32
# More named objects than this are not looked at one by one: at a thousand a second they would take too long. Those
# that are gone fail alone, as items of the run.
HEADS_LIMIT = 20_000


def listed(s3: Any, prefix: S3Location) -> Iterator[dict[str, Any]]:
    """Yield what S3 lists below a prefix, page after page. Raises CliError where it may not be listed."""
    with _explained(prefix):
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=prefix.bucket, Prefix=prefix.key):
            yield from page.get("Contents", [])


def first_page(s3: Any, folder: S3Location) -> dict[str, Any]:
    """Return S3's first page of a prefix that ends in a slash: the objects and the prefixes that lie in it directly.

    Raises CliError where it may not be listed.
    """
    with _explained(folder):
        page: dict[str, Any] = s3.list_objects_v2(Bucket=folder.bucket, Prefix=folder.key, Delimiter="/")
        return page


@contextmanager
def _explained(prefix: S3Location) -> Iterator[None]:
    """Raise CliError where a prefix may not be listed."""
    from botocore.exceptions import ClientError

    try:
        yield
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


class _NamedObject(NamedTuple):
    """An object that a field of an item names, in the latest version if none is named."""

    field: str
    uri: str
    version: str | None = None


class NamedObjects:
    """Looks at objects that were named and not listed: whether they exist, their ETags and sizes."""

    def __init__(self, s3: Any, input_counts: InputCounts, copies: str, shared: Collection[str]) -> None:
        """Look at what items name, but for what starts with `copies` and for the `shared` names.

        `copies` is the prefix of objects that are put there when the run starts. The `shared` files are those of every
        item, which were looked at once.
        """
        self._s3 = s3
        self._copies = copies
        self._shared = shared
        self._input_counts = input_counts
        self._looked = 0
        self.unchecked = 0

    def checked(self, inputs: Iterable[ListedInput]) -> Iterator[ListedInput]:
        """Yield the inputs whose objects can be read, with what S3 knows of them; report the others."""
        for listed, problems in in_parallel(self._look, self._with_objects(inputs), HEADS_AT_ONCE):
            for problem in problems:
                self._input_counts.refuse(problem.at(listed.source, listed.line))
            if not problems:
                yield listed

    def _with_objects(self, inputs: Iterable[ListedInput]) -> Iterator[tuple[ListedInput, list[_NamedObject]]]:
        """Yield each input with the objects to look at: with none where very many were looked at before."""
        for listed in inputs:
            objects = list(self._objects(listed.item))
            if self._looked >= HEADS_LIMIT:
                self.unchecked += bool(objects)
                objects = []
            self._looked += len(objects)
            yield listed, objects

    def _objects(self, item: RunItem) -> Iterator[_NamedObject]:
        """Yield the objects that an item names: its input, if it was not listed, and its other files."""
        first = None
        if item.input is not None:
            first = parse_uri(item.input)
            if item.etag is None and not item.input.startswith(self._copies):
                yield _NamedObject("input", item.input, item.version_id)
        for field, name, _ in other_files(item.parameters, item.generation):
            if name not in self._shared and not name.startswith(self._copies):
                yield _NamedObject(field, locate(field, name, first).uri)

    def _look(self, task: tuple[ListedInput, list[_NamedObject]]) -> tuple[ListedInput, list[FieldProblem]]:
        listed, objects = task
        sizes: list[int] = []
        etags: dict[str, str] = {}
        problems: list[FieldProblem] = []
        for named in objects:
            try:
                head = self._head(named)
            except Failure as failure:
                problems.append(FieldProblem.of(named.field, failure))
                continue
            sizes.append(head["ContentLength"])
            etags[named.uri] = head["ETag"]
            if named.field == "input":
                known = listed.item.model_copy(update={"etag": head["ETag"], "size": head["ContentLength"]})
                listed = listed._replace(item=known)
        try:
            refuse_total_size(sizes)
        except Failure as failure:
            problems.append(FieldProblem.of("moreInputs", failure))
        if not problems:
            listed = listed._replace(item=_with_more_etags(listed.item, etags))
        return listed, problems

    def _head(self, named: _NamedObject) -> dict[str, Any]:
        """Return the answer of HeadObject for an object. Raises Failure if it cannot be read, is empty or too large."""
        from botocore.exceptions import ClientError

        bucket, key = parse_uri(named.uri)
        version = {} if named.version is None else {"VersionId": named.version}
        try:
            head: dict[str, Any] = self._s3.head_object(Bucket=bucket, Key=key, **version)
        except ClientError as error:
            raise _not_readable(named.uri, error) from error
        refuse_size(named.uri, head["ContentLength"])
        return head


def _with_more_etags(item: RunItem, etags: Mapping[str, str]) -> RunItem:
    """Return an item with the ETags of the files that are seen together with its first, from those by URI."""
    names = (item.parameters.more_inputs or []) if item.parameters is not None else []
    if item.input is None or not names:
        return item
    first = parse_uri(item.input)
    more = [etags.get(locate("moreInputs", name, first).uri) for name in names]
    return item.model_copy(update={"more_etags": more}) if any(more) else item


def _not_readable(uri: str, error: Any) -> Exception:
    """Return why an object cannot be read. Where a person may not list the bucket, S3 answers 403 for a missing one."""
    code = error.response["Error"]["Code"]
    if code in ("404", "NoSuchKey", "NoSuchVersion", "NoSuchBucket"):
        return missing_file(uri)
    if code in ("403", "AccessDenied"):
        return Failure(
            "InvalidInput", f"{uri} may not be read, or does not exist.", "Ask for s3:GetObject and s3:ListBucket."
        )
    raise error

"""List files of this machine as inputs of a run, and upload them in parallel to their places in S3.

A folder of this machine has one place in S3, so that the same run started again finds its files there. A file is
uploaded where S3 has none of its size, or an older one: the rule of `aws s3 sync`, with the time of the last change of
the file or of its name. S3 tells the time in whole seconds, and by its own clock. So each object notes when its file
was changed, and one that seems a little older than its file is asked for that. A file whose digest is known has a place
of its own, by its content and name: wherever it lies on this machine, it is uploaded once, and an earlier answer about
it is found again.
"""

import hashlib
import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.input_checks import has_control_character
from cosmos_batch.cli.runs.disk_buffers import LinesOnDisk, sorted_lines
from cosmos_batch.cli.runs.inputs import InputCounts, ListedInput
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.cli.runs.progress_counter import ProgressCounter
from cosmos_batch.cli.runs.s3_inputs import listed
from cosmos_batch.cli.uploads import CLOSED, SUBMITTED
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.contract.s3 import UPLOAD_FOLDER, S3Location
from cosmos_batch.planning.runs.selection import Selection

UNREADABLE, NOT_UTF8 = "files that cannot be read", "files whose names are not UTF-8"
UNREADABLE_FOLDER = "folders that cannot be read"
CONTROL_CHARACTER = "files whose names or folders have a line break or another control character"

# The key of an object's metadata that has the time of the last change of the file that it was uploaded from.
CHANGED = "cosmos-batch-changed"
# S3's clock is taken to be behind this machine's by at most this much: a file that seems newer by more has changed.
_CLOCK_DIFFERENCE = timedelta(minutes=10)


class LocalFile(NamedTuple):
    """A file of this machine. `name` is its path below the folder that is uploaded, as S3 will have it."""

    path: Path
    name: str
    size: int
    changed: datetime


def walk(folder: Path, input_counts: InputCounts, above: str = "") -> Iterator[LocalFile]:
    """Yield the files below a folder in the order in which S3 lists their names. Links to folders are not followed.

    Folders and files that this person may not read are counted. A folder of any number of files takes constant memory.
    """
    for line in sorted_lines(_entries(folder, input_counts)):
        name = os.fsdecode(bytes.fromhex(line.decode()))
        path = folder / name
        if name.endswith("/"):
            yield from walk(path, input_counts, f"{above}{name}")
        elif _is_file(path):
            yield from _readable(path, above + name, input_counts)


def _is_file(path: Path) -> bool:
    """Return whether a path is that of a file, or of something that this person may not look at."""
    try:
        return path.is_file()
    except PermissionError:
        return True


def _entries(folder: Path, input_counts: InputCounts) -> Iterator[bytes]:
    """Yield the names in a folder, those of folders with a slash, as lines of hexadecimal digits in the same order."""
    try:
        scan = os.scandir(folder)
    except PermissionError:
        input_counts.leave_out(UNREADABLE_FOLDER, os.fsencode(folder).decode(errors="replace"))
        return
    with scan:
        for entry in scan:
            name = f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
            yield os.fsencode(name).hex().encode() + b"\n"


def _readable(path: Path, name: str, input_counts: InputCounts) -> Iterator[LocalFile]:
    try:
        name.encode()
    except UnicodeEncodeError:
        input_counts.leave_out(NOT_UTF8, ascii(name))
        return
    if has_control_character(name):
        input_counts.leave_out(CONTROL_CHARACTER, ascii(name))
        return
    if not os.access(path, os.R_OK):
        input_counts.leave_out(UNREADABLE, str(path))
        return
    stat = path.stat()
    yield LocalFile(path, name, stat.st_size, _changed(stat))


def _changed(stat: os.stat_result) -> datetime:
    """Return when a file or its name was changed last."""
    return datetime.fromtimestamp(max(stat.st_mtime, stat.st_ctime), UTC)


def taken_files(folder: Path, selection: Selection, input_counts: InputCounts) -> Iterator[LocalFile]:
    """Yield the files below a folder that a run takes, in the order of S3, and count the others."""
    for file in walk(folder, input_counts):
        why = selection.why_not(file.name, file.size)
        if why is None:
            yield file
        else:
            input_counts.leave_out(why, str(file.path))


def _s3_order(named: tuple[str, Path]) -> bytes:
    return os.fsencode(named[0])


class LocalUploads:
    """Gives files of this machine their places in S3, and uploads those that are not there yet."""

    def __init__(self, s3: Any, roots: Sequence[str], digests: Mapping[Path, str] | None = None) -> None:
        """`digests` are the SHA-256 digests of files that are placed by their contents; they do not change."""
        self._s3 = s3
        self._roots = roots
        self._digests = digests or {}
        self._missing = LinesOnDisk()
        self._folders: dict[str, Path] = {}  # folders of this machine, by their places' URIs
        self.bytes = 0
        self._given_up = threading.Event()
        self._upload_root: str | None = None  # the first root that this person may write to, once it was looked for

    def __len__(self) -> int:
        """Return how many files are to be uploaded."""
        return len(self._missing)

    def folder(self, folder: Path, selection: Selection, input_counts: InputCounts) -> Iterator[ListedInput]:
        """Yield the files of a folder that a run takes, as they will be in S3."""
        yield from self._listed(folder, taken_files(folder, selection, input_counts))

    def files(self, paths: Sequence[Path], input_counts: InputCounts) -> Iterator[ListedInput]:
        """Yield files that were named one by one, as they will be in S3, below the folder that all of them share."""
        folder = Path(os.path.commonpath([path.absolute().parent for path in paths]))
        named = sorted({os.path.relpath(path.absolute(), folder): path for path in paths}.items(), key=_s3_order)
        files = (file for name, path in named for file in _readable(path, name, input_counts))
        yield from self._listed(folder, files)

    @property
    def root(self) -> str | None:
        """Return the URI of the only folder that was placed, or None if there are several or none."""
        return next(iter(self._folders)) if len(self._folders) == 1 else None

    def local_path(self, uri: str) -> Path | None:
        """Return the file of this machine that will lie at a URI, or None if none will."""
        folder = next((place for place in self._folders if uri.startswith(place)), None)
        return None if folder is None else self._folders[folder] / uri.removeprefix(folder)

    def upload(self) -> None:
        """Upload the files that are missing, with progress. Raises CliError where one was changed or is gone."""
        with ProgressCounter("files uploaded", len(self)) as counting:
            for _ in in_parallel(self._upload, map(json.loads, self._missing), give_up=self._given_up.set):
                counting.add()

    def close(self) -> None:
        """Delete the temporary files with the list of uploads."""
        self._missing.close()

    def _listed(self, folder: Path, files: Iterator[LocalFile]) -> Iterator[ListedInput]:
        """Yield each file as an input, and note those that S3 does not have yet. They are in the order of S3."""
        if self._digests:
            yield from self._listed_by_content(folder, files)
            return
        origin = f"{socket.gethostname()}:{folder.resolve()}"
        place = self._place(hashlib.sha256(os.fsencode(origin)).hexdigest())
        self._folders[place.uri] = folder
        listing = _Listing(self._s3, place)
        for file in files:
            yield self._input(file, place, listing.find(file))

    def _listed_by_content(self, folder: Path, files: Iterator[LocalFile]) -> Iterator[ListedInput]:
        """Yield each file as an input at the place of its content, and note those that S3 does not have yet."""
        for file in files:
            place = self._place(self._digests[file.path])
            self._folders[place.uri] = folder
            contents = listed(self._s3, S3Location(place.bucket, place.key + file.name))
            stored = next((one for one in contents if one["Key"] == place.key + file.name), None)
            is_whole = stored is not None and stored["Size"] == file.size
            yield self._input(file, place, str(stored["ETag"]) if stored is not None and is_whole else None)

    def _input(self, file: LocalFile, place: S3Location, etag: str | None) -> ListedInput:
        """Return a file below a place as an input. Without an ETag, S3 does not have it, and it will be uploaded."""
        location = S3Location(place.bucket, place.key + file.name)
        if etag is None:
            task = [str(file.path), *location, file.size, file.changed.isoformat()]
            self._missing.add(json.dumps(task).encode() + b"\n")
            self.bytes += file.size
        return ListedInput(RunItem(id=file.name, input=location.uri, etag=etag, size=file.size), str(file.path), 0)

    def _place(self, digest: str) -> S3Location:
        """Return the place of a digest below the first root that this person may write to. Raises CliError."""
        for root in self._roots if self._upload_root is None else [self._upload_root]:
            bucket, _, prefix = root.partition("/")
            place = S3Location(bucket, f"{prefix}{UPLOAD_FOLDER}/{digest[:16]}/")
            if self._upload_root is not None or may_write(self._s3, place):
                self._upload_root = root
                return place
        raise CliError(
            f"You may not upload to {' or '.join(self._roots)}.",
            "Ask for the right to s3:PutObject there; or name files that lie in one of them already, as s3://...",
        )

    def _upload(self, task: list[Any]) -> None:
        name, bucket, key, size, changed = task
        try:
            stat = Path(name).stat()
            if (stat.st_size, _changed(stat).isoformat()) != (size, changed):
                raise CliError(f"{name} was changed after the plan was made.", "Plan and start again.")
            metadata = {**SUBMITTED["Metadata"], CHANGED: changed}
            self._s3.upload_file(name, bucket, key, ExtraArgs={"Metadata": metadata}, Callback=self._go_on)
        except FileNotFoundError as error:
            raise CliError(f"{name} is gone since the plan was made.", "Plan and start again.") from error

    def _go_on(self, _: int) -> None:
        """Raise CliError where the uploads were given up. boto3 calls this for each piece of a file that it sends."""
        if self._given_up.is_set():
            raise CliError("The upload was given up.", "Start again: what is uploaded is not uploaded twice.")


def may_write(s3: Any, place: S3Location) -> bool:
    """Return whether this person may write below a root: begin a multipart upload there, and abort it."""
    from botocore.exceptions import ClientError

    target = {"Bucket": place.bucket, "Key": f"{place.key}.permission-check"}
    try:
        upload = s3.create_multipart_upload(**target)
        s3.abort_multipart_upload(**target, UploadId=upload["UploadId"])
    except ClientError as error:
        if error.response["Error"]["Code"] in CLOSED:
            return False
        raise
    return True


class _Listing:
    """The objects of a folder in S3, read along with the files of this machine, which have the same order."""

    def __init__(self, s3: Any, place: S3Location) -> None:
        self._s3 = s3
        self._place = place
        self._contents = listed(s3, place)
        self._next = next(self._contents, None)

    def find(self, file: LocalFile) -> str | None:
        """Return the ETag of the file's object if that is the same file; None if it has to be uploaded."""
        name = file.name.encode()
        while self._next is not None and self._name(self._next) < name:
            self._next = next(self._contents, None)
        if self._next is None or self._name(self._next) != name or self._next["Size"] != file.size:
            return None
        seems_older_by = file.changed - self._next["LastModified"]
        is_same = seems_older_by <= timedelta(0) or (seems_older_by <= _CLOCK_DIFFERENCE and self._is_noted(file))
        return str(self._next["ETag"]) if is_same else None

    def _is_noted(self, file: LocalFile) -> bool:
        """Return whether the object notes that it was uploaded from this state of the file; False if it is refused."""
        from botocore.exceptions import ClientError

        try:
            answer = self._s3.head_object(Bucket=self._place.bucket, Key=self._place.key + file.name)
        except ClientError as error:
            if error.response["Error"]["Code"] in CLOSED:
                return False
            raise
        return bool(answer["Metadata"].get(CHANGED) == file.changed.isoformat())

    def _name(self, content: dict[str, Any]) -> bytes:
        return str(content["Key"]).removeprefix(self._place.key).encode()

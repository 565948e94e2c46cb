"""Check a whole request with the code of the planning Lambda, before it costs anything."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cosmos_batch.catalogue.formats import EXTENSIONS, medium_of
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.input_checks import File, checked_file, checked_folder, checked_path, checked_source_uri
from cosmos_batch.cli.messages import warn
from cosmos_batch.cli.reasoner_request import ReasonerRequest
from cosmos_batch.cli.runs.inputs import InputCounts
from cosmos_batch.cli.runs.local_inputs import taken_files
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.planning.input_files import missing_file, refuse_name, refuse_size, refuse_total_size
from cosmos_batch.planning.questions import (
    Question,
    refuse_cut_of_image,
    refuse_question,
    refuse_unseen_files,
    settle_question,
)
from cosmos_batch.planning.runs.selection import Selection

Checked = TypeVar("Checked")


class Problems:
    """Collects the problems of all files of one command, so that one error names them all."""

    def __init__(self) -> None:
        self._remedies: dict[str, str] = {}  # the remedy of each message

    def check(self, name: object, check: Callable[[], Checked]) -> Checked | None:
        """Return what `check` returns; None if it raises WrongCall or Failure about the file of this name."""
        try:
            return check()
        except WrongCall as error:
            self._remedies[error.message] = error.remedy
        except Failure as error:
            text = error.error.message
            self._remedies[text if str(name) in text else f"{name}: {text}"] = error.error.remedy
        return None

    def raise_all(self, hint: str | None = None) -> None:
        """Raise WrongCall with all problems and the remedy of each, then `hint`; nothing happens without a problem."""
        if self._remedies:
            remedies = [*dict.fromkeys(self._remedies.values()), *([hint] if hint else [])]
            raise WrongCall("\n".join(self._remedies), "\n".join(remedies))

    def report(self, valid: int, skip_invalid: bool) -> None:
        """Report the problems, and forget them: as warnings if the invalid files may be skipped and `valid` is not 0.

        Otherwise raises WrongCall with them. `valid` is the number of files without a problem.
        """
        if not (skip_invalid and valid):
            self.raise_all("--skip-invalid goes on with the others." if valid else None)
        for message in self._remedies:
            warn(f"skipped: {message}")
        self._remedies.clear()


def checked_request(names: Iterable[str], request: ReasonerRequest, problems: Problems) -> list[File]:
    """Return the files that the request fits, as far as their names and this machine tell.

    Raises Failure where the question fits no file, whatever its kind.
    """
    refuse_question(request.parameters, request.prompt, request.system_prompt)

    def check(name: str) -> File:
        file = checked_source_uri(name) if name.startswith("s3://") else checked_path(name)
        _check_question(name, request)
        return file

    return _valid(names, check, problems)


def check_folders(names: Sequence[str], request: ReasonerRequest, problems: Problems, skip_invalid: bool) -> None:
    """Collect the problems of the files that a run will take from those of its inputs that are folders of this machine.

    Files that may be skipped are left to the plan of the run, which names them. Raises WrongCall where all of `names`
    are folders, and no file is left in them.
    """
    folders = [name for name in names if Path(name).expanduser().is_dir()]
    input_counts, in_folders, valid = InputCounts(), Problems() if skip_invalid else problems, 0
    for name in folders:
        folder = in_folders.check(name, partial(checked_folder, name))
        for file in taken_files(folder, Selection(), input_counts) if folder else ():
            valid += in_folders.check(file.path, partial(_check_question, file.name, request)) is not None
    if len(folders) == len(names) and not valid:
        in_folders.raise_all()
        input_counts.refuse_wrong_lines(skip_invalid)


def _check_question(name: str, request: ReasonerRequest) -> Question:
    """Return the question as it is asked about a file. Raises Failure where it cannot be asked about its kind."""
    medium = medium_of(name, *(request.parameters.more_inputs or []))
    refuse_cut_of_image(request.parameters, medium)
    return settle_question(request.parameters, request.prompt, request.system_prompt, medium)


def checked_objects(
    deployment: Deployment, files: Iterable[File], request: ReasonerRequest, pipeline: str, problems: Problems
) -> list[File]:
    """Return the files that a pipeline can take: its engine looks at them, and those in S3 exist where it may read.

    Raises WrongCall for the request's further inputs, which are never left out.
    """
    of_all_files = Problems()
    further = [checked_file(name) for name in request.parameters.more_inputs or []]
    sizes: list[int | None] = [of_all_files.check(file, partial(size_of, deployment, file)) for file in further]
    of_all_files.raise_all()

    deployed = deployment.deployed_pipeline(pipeline)

    def check(file: File) -> File:
        if deployed is not None:
            refuse_unseen_files(deployed.queue.identity.engine, str(file), list(map(str, further)))
        refuse_total_size([size or 0 for size in (size_of(deployment, file), *sizes)])
        return file

    return _valid(files, check, problems)


def size_of(deployment: Deployment, file: File, extensions: tuple[str, ...] = EXTENSIONS) -> int | None:
    """Return the bytes of a file that a deployment can take; None if this person may not see it.

    Raises Failure where it is not below one of the deployment's places, is missing, empty or too large.
    """
    from botocore.exceptions import ClientError

    if isinstance(file, Path):
        return file.stat().st_size
    location = parse_uri(file)
    refuse_name("input", location, deployment.asset_roots, extensions)
    try:
        head = deployment.clients("s3").head_object(Bucket=location.bucket, Key=location.key)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("404", "NoSuchKey", "NoSuchBucket"):
            raise missing_file(location.uri) from error
        return None  # the deployment's roles may read files that this person may not read
    size: int = head["ContentLength"]
    refuse_size(location.uri, size)
    return size


def _valid(files: Iterable[Any], check: Callable[[Any], File], problems: Problems) -> list[File]:
    checked = [problems.check(file, partial(check, file)) for file in files]
    return [file for file in checked if file is not None]

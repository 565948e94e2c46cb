"""Checks of a whole request with the code of the planning Lambda, before it costs anything."""

from collections.abc import Callable, Iterable
from pathlib import Path

from cosmos_batch.catalogue.formats import EXTENSIONS, medium_of
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.input_checks import File, checked_file
from cosmos_batch.cli.messages import warn
from cosmos_batch.cli.reasoner_request import ReasonerRequest
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.planning.input_files import missing_file, refuse_name, refuse_size
from cosmos_batch.planning.questions import refuse_cut_of_image, settle_question


def checked_request(names: Iterable[str], request: ReasonerRequest, skip_invalid: bool = False) -> list[File]:
    """Return the files that the request fits, as far as their names and this machine tell. Raises WrongCall."""

    def check(name: str) -> File:
        file = checked_file(name)
        medium = medium_of(name, *(request.parameters.more_inputs or []))
        refuse_cut_of_image(request.parameters, medium)
        settle_question(request.parameters, request.prompt, request.system_prompt, medium)
        return file

    return _each(list(names), check, skip_invalid)


def checked_objects(
    deployment: Deployment, files: Iterable[File], request: ReasonerRequest, skip_invalid: bool = False
) -> list[File]:
    """Return the files that a deployment can take: those in S3 exist, below one of its places. Raises WrongCall.

    The request's further inputs are checked likewise, and never left out.
    """
    from botocore.exceptions import ClientError

    s3 = deployment.clients("s3")

    def check(file: File) -> File:
        if isinstance(file, Path):
            return file
        location = parse_uri(file)
        refuse_name("input", location, deployment.asset_roots, EXTENSIONS)
        try:
            refuse_size(location, s3.head_object(Bucket=location.bucket, Key=location.key)["ContentLength"])
        except ClientError as error:
            if error.response["Error"]["Code"] in ("404", "NoSuchKey", "NoSuchBucket"):
                raise missing_file(location.uri) from error
            # Otherwise the deployment's roles may read files that this person may not read.
        return file

    _each([checked_file(name) for name in request.parameters.more_inputs or []], check, skip_invalid=False)
    return _each(list(files), check, skip_invalid)


def _each(files: "list[File] | list[str]", check: Callable[..., File], skip_invalid: bool) -> list[File]:
    """Check each file, and name all that are wrong at once; with `skip_invalid`, leave them out unless none is left."""
    valid: list[File] = []
    wrong: dict[str, str] = {}  # message by message, and the remedy of each
    for file in files:
        try:
            valid.append(check(file))
        except WrongCall as error:
            wrong[error.message] = error.remedy
        except Failure as error:
            text = error.error.message
            wrong[text if str(file) in text else f"{file}: {text}"] = error.error.remedy
    if wrong and not (skip_invalid and valid):
        remedies = list(dict.fromkeys(wrong.values()))
        if valid:
            remedies.append("--skip-invalid goes on with the others.")
        raise WrongCall("\n".join(wrong), "\n".join(remedies))
    for message in wrong:
        warn(f"skipped: {message}")
    return valid

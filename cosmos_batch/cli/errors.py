"""Errors that end a command, and the exit statuses that scripts can rely on (docs/command-line.md)."""

import errno
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

FAILED = 1
"""A job failed, or the command could not do what it was called for."""
WRONG_CALL = 2
"""An option, a file or a value is wrong. No job and no run was started."""
STILL_RUNNING = 3
"""A job or a run has not ended yet, or a run is held."""
INTERRUPTED = 130
"""The person pressed Ctrl-C."""
TERMINATED = 143
"""SIGTERM came, as `kill` and `timeout` send it."""


_NO_ROOM, _NOT_ALLOWED = "Free some space there.", "Check the permissions there."
_REMEDIES = {
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.EROFS: _NOT_ALLOWED,
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.EIO: "Check the disk, and type the command again.",
}
"""What a person can do about an error of the operating system, by its number, if the machine is its cause."""


class CliError(Exception):
    """End the command. `remedy` is what the person can do about it."""

    exit_status = FAILED

    def __init__(self, message: str, remedy: str) -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(message)


class WrongCall(CliError):  # noqa: N818 - it says what is wrong
    """End the command because of what the person typed, before anything is started or sent."""

    exit_status = WRONG_CALL


class StillRunning(CliError):  # noqa: N818 - it says what is wrong
    """End the command because a job has not ended yet."""

    exit_status = STILL_RUNNING


def is_gone(error: "ClientError") -> bool:
    """Return whether S3 answers that an object is not there, or that this person may not read it."""
    return error.response["Error"]["Code"] in ("NoSuchKey", "404", "AccessDenied", "403")


def file_problem(error: Exception) -> str:
    """Return why a file could not be read, without the error's number and the path that the message names already."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def exit_status(error: Exception) -> int:
    """Return the exit status of a command that ends with this exception."""
    from cosmos_batch.contract.error import Failure
    from cosmos_batch.planning.configuration import ConfigError

    if isinstance(error, CliError):
        return error.exit_status
    is_invalid = isinstance(error, Failure) and error.error.code == "InvalidInput"
    return WRONG_CALL if is_invalid or isinstance(error, ConfigError) else FAILED


def explain(error: Exception) -> str | None:
    """Return an exception of ours, of AWS or of this machine as text for a person, or None for a defect."""
    if isinstance(error, CliError):
        return f"{error.message}\n{error.remedy}"
    return _explain_ours(error) or _explain_machine(error) or _explain_aws(error)


def _explain_ours(error: Exception) -> str | None:
    from cosmos_batch.contract.error import Failure
    from cosmos_batch.planning.configuration import ConfigError

    if isinstance(error, Failure):
        return f"{error.error.code}: {error.error.message}\n{error.error.remedy}"
    # Importing these classes would load moto, aws-cdk-lib and the console, which most commands never need: compare
    # their names.
    of_other_rooms = type(error).__name__ in ("LocalCloudError", "DeployError", "LayerError", "RefusalError")
    return str(error) if of_other_rooms or isinstance(error, ConfigError) else None


def _explain_machine(error: Exception) -> str | None:
    """Return what keeps this machine from reading or writing a file; None for other errors."""
    if not isinstance(error, OSError) or error.errno not in _REMEDIES:
        return None
    place = "" if error.filename is None else f"{error.filename}: "
    return f"{place}{error.strerror}.\n{_REMEDIES[error.errno]}"


def _explain_aws(error: Exception) -> str | None:
    from boto3.exceptions import S3UploadFailedError
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        EndpointConnectionError,
        NoCredentialsError,
        NoRegionError,
        PartialCredentialsError,
        ProfileNotFound,
    )

    if isinstance(error, NoCredentialsError | PartialCredentialsError | ProfileNotFound | NoRegionError):
        needs = "Sign in to AWS, such as with aws configure"
        if isinstance(error, NoRegionError):
            needs = "Set AWS_REGION, or run aws configure"
        elif isinstance(error, ProfileNotFound):
            needs = "Correct AWS_PROFILE"
        return (
            f"{error}\n{needs}; or point this shell at the local cloud:\n"
            '  cosmos-batch local up && eval "$(cosmos-batch local up --export)"'
        )
    if isinstance(error, EndpointConnectionError):
        return (
            f"{error}\nCheck the network. If AWS_ENDPOINT_URL points at a local cloud, start it:\n"
            '  eval "$(cosmos-batch local up --export)"'
        )
    if not isinstance(error, BotoCoreError | ClientError | S3UploadFailedError):
        return None
    remedy = _remedy_for_permission(error)
    return f"{error}\n{remedy}" if remedy else str(error)


def _remedy_for_permission(error: Exception) -> str | None:
    """Return what to do where AWS did not admit this person; None for any other error of AWS."""
    from botocore.exceptions import ClientError, SSOError, TokenRetrievalError

    for each in _with_causes(error):
        code = each.response["Error"]["Code"] if isinstance(each, ClientError) else None
        if isinstance(each, SSOError | TokenRetrievalError) or code in ("ExpiredToken", "ExpiredTokenException"):
            return "Sign in again, such as with aws sso login."
        if code == "400" and getattr(each, "operation_name", "") == "HeadObject":
            return (
                "S3 gives no reason to HEAD; that of this status is mostly that credentials have expired.\n"
                "Sign in again, such as with aws sso login."
            )
        if code in ("AccessDenied", "AccessDeniedException"):
            return (
                "Commands on runs, submit and doctor need one of the two policies for people in docs/security.md: "
                "ViewerPolicyArn to look, OperatorPolicyArn to start and cancel too. For other commands, ask for the "
                "action that AWS names above."
            )
    return None


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, then those that it was raised for: boto3 wraps what S3 answers in an error of its own."""
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__

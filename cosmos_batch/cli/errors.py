"""What a command cannot do, said to a person."""


class CliError(Exception):
    """Ends a command with exit status 1. `remedy` is what the person can do about it."""

    def __init__(self, message: str, remedy: str) -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(message)


def explain(error: Exception) -> str | None:
    """An error of ours or of AWS in a person's words, or None where it is a fault of this program."""
    if isinstance(error, CliError):
        return f"{error.message}\n{error.remedy}"
    return _explain_ours(error) or _explain_aws(error)


def _explain_ours(error: Exception) -> str | None:
    from cosmos_batch.contract.error import Failure
    from cosmos_batch.planning.configuration import ConfigError

    if isinstance(error, Failure):
        return f"{error.error.code}: {error.error.message}\n{error.error.remedy}"
    # The local cloud's errors, and those of synthesis: their rooms load libraries that a command may not have needed.
    of_other_rooms = type(error).__name__ in ("LocalCloudError", "DeployError", "LayerError")
    return str(error) if of_other_rooms or isinstance(error, ConfigError) else None


def _explain_aws(error: Exception) -> str | None:
    from boto3.exceptions import S3UploadFailedError
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        EndpointConnectionError,
        NoCredentialsError,
        NoRegionError,
    )

    if isinstance(error, NoCredentialsError | NoRegionError):
        return (
            f"{error}\nSign in to AWS (aws configure), or point this shell at the local cloud:\n"
            '  cosmos-batch local up && eval "$(cosmos-batch local up --export)"'
        )
    if isinstance(error, EndpointConnectionError):
        return f"{error}\nIf AWS_ENDPOINT_URL points at a local cloud, start it: cosmos-batch local up"
    return str(error) if isinstance(error, BotoCoreError | ClientError | S3UploadFailedError) else None

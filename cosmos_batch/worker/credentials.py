"""Secrets that a worker reads from AWS Secrets Manager, each only when it is needed."""

from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from cosmos_batch.contract.error import Failure
from cosmos_batch.worker.clients import Clients

# The KeyError is that of a secret whose value is binary.
_UNREADABLE = (ClientError, BotoCoreError, KeyError)


@dataclass(frozen=True)
class HubToken:
    """The Hugging Face token, which is needed to download a model. `secret` is the ARN; None if there is no secret."""

    secret: str | None
    clients: Clients

    def read(self) -> str | None:
        """Return the token, or None if none is configured.

        Raises:
            Failure: `ModelUnavailable` if Secrets Manager cannot be reached or refuses, or the value is no text.
        """
        if self.secret is None:
            return None
        try:
            return _text(self.secret, self.clients)
        except self.clients.secretsmanager.exceptions.ResourceNotFoundException:
            return None  # the stack creates the secret without a value; it has one once a token is configured
        except _UNREADABLE as error:
            raise Failure(
                "ModelUnavailable",
                f"The model must be downloaded, and the secret of the Hugging Face token cannot be read: {error}",
                "Without a way out (network.mode vpcOnly), put the model in place first: cosmos-batch models put, see "
                "docs/deploy.md. Else check that the secret has a text for a value, and that the worker's role may "
                "read it and decrypt with its key.",
                retryable=True,
            ) from error


@dataclass(frozen=True)
class EndpointKey:
    """The API key of a remote model server. `secret` is the ARN; None if the server needs no key."""

    secret: str | None
    clients: Clients

    def read(self) -> str | None:
        """Return the key, or None. Raises Failure (ModelUnavailable) if the secret cannot be read."""
        if self.secret is None:
            return None
        try:
            return _text(self.secret, self.clients)
        except _UNREADABLE as error:
            raise Failure(
                "ModelUnavailable",
                f"The secret of the endpoint's API key cannot be read: {error}",
                "Check that it exists and has a text for a value, and that the worker's role may read it and decrypt "
                "with its key (endpoint.apiKeySecretKeyArn).",
                retryable=True,
            ) from error


def _text(secret: str, clients: Clients) -> str | None:
    """Return the value of a secret without the spaces and line breaks around it; None if that leaves nothing.

    Raises one of `_UNREADABLE`.
    """
    value: str = clients.secretsmanager.get_secret_value(SecretId=secret)["SecretString"]
    return value.strip() or None

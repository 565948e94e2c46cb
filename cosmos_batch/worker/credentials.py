"""Secrets that a worker reads from AWS Secrets Manager, each only when it is needed."""

from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from cosmos_batch.contract.error import Failure
from cosmos_batch.worker.clients import Clients


@dataclass(frozen=True)
class HubToken:
    """The Hugging Face token, which is needed to download a model. `secret` is the ARN; None if there is no secret."""

    secret: str | None
    clients: Clients

    def read(self) -> str | None:
        """Return the token, or None if none is configured.

        Raises:
            Failure: `ModelUnavailable` if Secrets Manager cannot be reached or refuses.
        """
        if self.secret is None:
            return None
        secrets = self.clients.secretsmanager
        try:
            value: str = secrets.get_secret_value(SecretId=self.secret)["SecretString"]
        except secrets.exceptions.ResourceNotFoundException:
            return None  # the stack creates the secret without a value; it has one once a token is configured
        except (ClientError, BotoCoreError) as error:
            raise Failure(
                "ModelUnavailable",
                f"The model must be downloaded, and the secret of the Hugging Face token cannot be read: {error}",
                "Without a way out (network.mode vpcOnly), put the model in place first: cosmos-batch models put, see "
                "docs/deploy.md. Else check that the worker's role may read the secret and decrypt with its key.",
                retryable=True,
            ) from error
        return value or None


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
            value: str = self.clients.secretsmanager.get_secret_value(SecretId=self.secret)["SecretString"]
        except (ClientError, BotoCoreError, KeyError) as error:
            raise Failure(
                "ModelUnavailable",
                f"The secret of the endpoint's API key cannot be read: {error}",
                "Check that it exists and has a text for a value, and that the worker's role may read it and decrypt "
                "with its key (endpoint.apiKeySecretKeyArn).",
                retryable=True,
            ) from error
        return value.strip() or None

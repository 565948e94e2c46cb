"""The Hugging Face token, which is read only when a model must be downloaded."""

from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from cosmos_batch.contract.error import Failure
from cosmos_batch.worker.clients import Clients


@dataclass(frozen=True)
class HubToken:
    """In Secrets Manager, where there is one. `secret` is its ARN."""

    secret: str | None
    clients: Clients

    def read(self) -> str | None:
        """The token, or None.

        Raises:
            Failure: `ModelUnavailable` where AWS does not give it.
        """
        if self.secret is None:
            return None
        secrets = self.clients.secretsmanager
        try:
            value: str = secrets.get_secret_value(SecretId=self.secret)["SecretString"]
        except secrets.exceptions.ResourceNotFoundException:
            return None  # the secret exists without a value until a token is configured
        except (ClientError, BotoCoreError) as error:
            raise Failure(
                "ModelUnavailable",
                f"The model must be downloaded, and the secret of the Hugging Face token cannot be read: {error}",
                "Without a way out (network.mode vpcOnly), put the model in place first: cosmos-batch models put, see "
                "docs/deploy.md. Else check that the worker's role may read the secret and decrypt with its key.",
                retryable=True,
            ) from error
        return value or None

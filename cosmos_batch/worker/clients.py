"""The boto3 clients of a worker, with the credentials and the region of its container."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config as ClientConfig

# Without one of ours, botocore builds its own twice for each call, which takes a quarter of a call's CPU time.
_USER_AGENT = f"Boto3/{boto3.__version__} cosmos-batch"


@dataclass(frozen=True)
class Clients:
    """boto3 clients, each created when it is first used; thread-safe. `connections` limits the concurrent calls."""

    connections: int = 64

    def _client(self, service: str, config: ClientConfig | None = None) -> Any:
        default = ClientConfig(
            max_pool_connections=self.connections,
            retries={"mode": "standard", "max_attempts": 6},
            tcp_keepalive=True,
            parameter_validation=False,  # validating each call costs as much as signing it
            user_agent=_USER_AGENT,
        )
        return self._session.client(service, config=default.merge(config) if config else default)

    @cached_property
    def _session(self) -> boto3.session.Session:
        return boto3.session.Session()

    @cached_property
    def sqs(self) -> Any:
        return self._client("sqs")

    def sqs_answering_within(self, seconds: float) -> Any:
        """Return a client for calls that are repeated anyway: each fails if it has no answer after `seconds`.

        A third of the time each is for the connection, for the TLS handshake, and for the answer.
        """
        return self._client(
            "sqs",
            ClientConfig(
                connect_timeout=seconds / 3,
                read_timeout=seconds / 3,
                retries={"mode": "standard", "total_max_attempts": 1},
            ),
        )

    @cached_property
    def s3(self) -> Any:
        return self._client("s3")

    @cached_property
    def dynamodb(self) -> Any:
        return self._client("dynamodb")

    @cached_property
    def stepfunctions(self) -> Any:
        return self._client("stepfunctions")

    @cached_property
    def secretsmanager(self) -> Any:
        # A VPC may have no route to Secrets Manager: fail after two tries of 5 s each, not after six of a minute each.
        return self._client(
            "secretsmanager", ClientConfig(connect_timeout=5, retries={"mode": "standard", "total_max_attempts": 2})
        )

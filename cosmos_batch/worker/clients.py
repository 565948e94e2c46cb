"""The AWS clients of a worker. Credentials and region are the container's own."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config as ClientConfig


@dataclass(frozen=True)
class Clients:
    """boto3 clients, made when first used; thread-safe. `connections` is how many calls may be under way at once."""

    connections: int = 64

    def _client(self, service: str, config: ClientConfig | None = None) -> Any:
        own = ClientConfig(
            max_pool_connections=self.connections,
            retries={"mode": "standard", "max_attempts": 6},
            tcp_keepalive=True,
            parameter_validation=False,  # every call is ours and tested; checking each costs as much as signing it
        )
        return self._session.client(service, config=own.merge(config) if config else own)

    @cached_property
    def _session(self) -> boto3.session.Session:
        return boto3.session.Session()

    @cached_property
    def sqs(self) -> Any:
        return self._client("sqs")

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
        # A VPC may have no way to it: that is said soon, not after six times a minute.
        return self._client(
            "secretsmanager", ClientConfig(connect_timeout=5, retries={"mode": "standard", "total_max_attempts": 2})
        )

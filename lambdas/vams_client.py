"""Calls to VAMS: in our account, or in its own by a role there."""

import time
from functools import lru_cache
from typing import Any

from lambdas.clients import MAKING, client

RENEW_SECONDS = 1800  # a session lives for an hour, AWS's default


def vams_client(service: str, role_arn: str | None) -> Any:
    """The boto3 client of a service, as ourselves or as VAMS's role for callbacks."""
    if role_arn is None:
        return client(service)
    return _as_role(service, role_arn, int(time.time() // RENEW_SECONDS))


@lru_cache(maxsize=4)
def _as_role(service: str, role_arn: str, _period: int) -> Any:
    """Made anew in each period, so that no session is older than half of its life."""
    import boto3

    session = client("sts").assume_role(RoleArn=role_arn, RoleSessionName="cosmos-batch")["Credentials"]
    with MAKING:
        return boto3.client(
            service,
            aws_access_key_id=session["AccessKeyId"],
            aws_secret_access_key=session["SecretAccessKey"],
            aws_session_token=session["SessionToken"],
        )

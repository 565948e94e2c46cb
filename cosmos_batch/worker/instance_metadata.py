"""What an EC2 instance says of itself: its metadata service (IMDSv2), which is not there outside of EC2."""

import os
import urllib.request
from functools import cache

_TOKEN_SECONDS = 21_600
_TIMEOUT_SECONDS = 1


def is_switched_off() -> bool:
    """Whether AWS's own variable says that there is none to ask."""
    return os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"


def read(name: str) -> str:
    """One entry of `meta-data`. Raises OSError where there is none."""
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")
    token = _call(f"{base}/latest/api/token", "PUT", "X-aws-ec2-metadata-token-ttl-seconds", str(_TOKEN_SECONDS))
    return _call(f"{base}/latest/meta-data/{name}", "GET", "X-aws-ec2-metadata-token", token)


@cache
def instance_type() -> str | None:
    """Such as g6e.12xlarge; None where nobody says so."""
    if is_switched_off():
        return None
    try:
        return read("instance-type")
    except OSError:
        return None


def _call(url: str, method: str, header: str, value: str) -> str:
    request = urllib.request.Request(url, method=method, headers={header: value})  # noqa: S310 - http, link-local
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
        text: str = answer.read().decode()
    return text

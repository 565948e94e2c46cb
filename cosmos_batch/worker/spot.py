"""The Spot notice: two minutes before EC2 takes an instance away, its metadata service says so.

Batch passes nothing on (ECS's own Spot draining does not reach Batch tasks), so the worker asks. Source: EC2 User
Guide, "Spot Instance interruption notices".
"""

import logging
import os
import threading
import time
import urllib.request
from collections.abc import Callable

PERIOD_SECONDS = 5  # as AWS advises
_TOKEN_SECONDS = 21_600
_TIMEOUT_SECONDS = 1

log = logging.getLogger(__name__)


def watch(on_notice: Callable[[], None]) -> None:
    """Ask in the background, until a notice comes. Does nothing where there is no metadata service."""
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        return
    threading.Thread(target=_ask_until_noticed, args=(on_notice,), name="spot-notice", daemon=True).start()


def _ask_until_noticed(on_notice: Callable[[], None]) -> None:
    while not noticed():
        time.sleep(PERIOD_SECONDS)
    log.warning("EC2 takes this Spot instance away in two minutes")
    on_notice()


def noticed() -> bool:
    """Whether the instance is about to be taken away. No answer counts as no."""
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")
    try:
        token = _call(f"{base}/latest/api/token", "PUT", "X-aws-ec2-metadata-token-ttl-seconds", str(_TOKEN_SECONDS))
        _call(f"{base}/latest/meta-data/spot/instance-action", "GET", "X-aws-ec2-metadata-token", token)
    except OSError:  # 404 while there is no notice
        return False
    return True


def _call(url: str, method: str, header: str, value: str) -> str:
    request = urllib.request.Request(url, method=method, headers={header: value})  # noqa: S310 - http, link-local
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
        text: str = answer.read().decode()
    return text

"""The EC2 instance metadata service (IMDSv2): the instance type, and the notice that a Spot instance is reclaimed.

EC2 publishes the notice two minutes before it takes a Spot instance away. ECS's Spot draining does not reach the tasks
of AWS Batch, so the worker polls for it. Source: EC2 User Guide, "Spot Instance interruption notices". Outside of EC2
there is no metadata service.
"""

import logging
import os
import threading
import time
import urllib.request
from collections.abc import Callable

NOTICE_PERIOD_SECONDS = 5  # the EC2 User Guide recommends to look so often
ASK_AGAIN_SECONDS = 60
_TOKEN_SECONDS = 21_600
_TIMEOUT_SECONDS = 1

log = logging.getLogger(__name__)


class InstanceTypeReader:
    """Reads this host's instance type from the metadata service, and keeps it. Thread-safe."""

    def __init__(self) -> None:
        self._known: str | None = None
        self._ask_at = 0.0  # time.monotonic
        self._lock = threading.Lock()

    def get(self) -> str | None:
        """Return the instance type; None as long as the metadata service has not given it.

        The service is asked again after a minute, and not for each job: outside of EC2 each time may take a second.
        """
        with self._lock:  # other jobs that ask meanwhile share the answer
            if self._known is None and time.monotonic() >= self._ask_at:
                try:
                    self._known = _read("instance-type")
                except OSError:
                    self._ask_at = time.monotonic() + ASK_AGAIN_SECONDS
            return self._known


_this_host = InstanceTypeReader()


def instance_type() -> str | None:
    """Return this host's instance type, such as g6e.12xlarge; None outside of EC2, or while it is not known."""
    return None if _is_disabled() else _this_host.get()


def watch_for_spot_notice(on_notice: Callable[[], None]) -> None:
    """Poll for a Spot interruption notice in a background thread, and call `on_notice` once when there is one.

    Does nothing where AWS_EC2_METADATA_DISABLED is set.
    """
    if _is_disabled():
        return
    threading.Thread(target=_poll_for_notice, args=(on_notice,), name="spot-notice", daemon=True).start()


def _poll_for_notice(on_notice: Callable[[], None]) -> None:
    while not has_spot_notice():
        time.sleep(NOTICE_PERIOD_SECONDS)
    log.warning("EC2 takes this Spot instance away in two minutes")
    on_notice()


def has_spot_notice() -> bool:
    """Return whether there is a Spot interruption notice. False also where the metadata service does not answer."""
    try:
        _read("spot/instance-action")
    except OSError:  # HTTP 404 while there is no notice
        return False
    return True


def _is_disabled() -> bool:
    return os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"


def _read(name: str) -> str:
    """Return one entry of `meta-data`. Raises OSError where there is none."""
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")
    token = _call(f"{base}/latest/api/token", "PUT", "X-aws-ec2-metadata-token-ttl-seconds", str(_TOKEN_SECONDS))
    return _call(f"{base}/latest/meta-data/{name}", "GET", "X-aws-ec2-metadata-token", token)


def _call(url: str, method: str, header: str, value: str) -> str:
    request = urllib.request.Request(url, method=method, headers={header: value})  # noqa: S310 - http, link-local
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
        text: str = response.read().decode()
    return text

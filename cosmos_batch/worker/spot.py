"""The Spot notice: two minutes before EC2 takes an instance away, its metadata service says so.

Batch passes nothing on (ECS's own Spot draining does not reach Batch tasks), so the worker asks. Source: EC2 User
Guide, "Spot Instance interruption notices".
"""

import logging
import threading
import time
from collections.abc import Callable

from cosmos_batch.worker import instance_metadata

PERIOD_SECONDS = 5  # as AWS advises

log = logging.getLogger(__name__)


def watch(on_notice: Callable[[], None]) -> None:
    """Ask in the background, until a notice comes. Does nothing where there is no metadata service."""
    if instance_metadata.is_switched_off():
        return
    threading.Thread(target=_ask_until_noticed, args=(on_notice,), name="spot-notice", daemon=True).start()


def _ask_until_noticed(on_notice: Callable[[], None]) -> None:
    while not noticed():
        time.sleep(PERIOD_SECONDS)
    log.warning("EC2 takes this Spot instance away in two minutes")
    on_notice()


def noticed() -> bool:
    """Whether the instance is about to be taken away. No answer counts as no."""
    try:
        instance_metadata.read("spot/instance-action")
    except OSError:  # 404 while there is no notice
        return False
    return True

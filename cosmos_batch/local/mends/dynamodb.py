"""DynamoDB.

AWS: a conditional write decides its condition and writes in one step; of two at once, one sees what the other wrote.

moto: it looks, and then it writes, and another request's thread may come between the two: both conditions hold.

Mend: writes are made one at a time.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from moto.dynamodb.models import DynamoDBBackend

WRITES = ("put_item", "update_item", "delete_item", "transact_write_items")


def apply() -> None:
    """Install the mend."""
    lock = threading.RLock()
    for name in WRITES:
        setattr(DynamoDBBackend, name, _one_at_a_time(getattr(DynamoDBBackend, name), lock))


def _one_at_a_time(write: Callable[..., Any], lock: threading.RLock) -> Callable[..., Any]:
    @functools.wraps(write)
    def call(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return write(*args, **kwargs)

    return call

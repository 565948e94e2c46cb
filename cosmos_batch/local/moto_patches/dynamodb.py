"""DynamoDB.

AWS: a conditional write decides its condition and writes in one step, of two at once one sees what the other wrote; and
nobody reads an item that is half written.

moto: it looks, then makes an item of the key alone, then fills it in place, attribute by attribute, while other
requests' threads look, write and read.

Mend: requests are served one at a time, until their answer is text.
"""

from __future__ import annotations

import threading
from typing import Any

from moto.dynamodb.responses import DynamoHandler

_lock = threading.RLock()
_serve = DynamoHandler.call_action


def apply() -> None:
    """Install the mend."""
    DynamoHandler.call_action = _one_at_a_time


def _one_at_a_time(self: DynamoHandler) -> Any:
    with _lock:
        return _serve(self)

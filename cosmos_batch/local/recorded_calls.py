"""An access key for each role, and a count of the calls with each key.

The local cloud enforces no policy. It records the calls of each role, so that a test can compare them with the
synthesized policies.
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class RecordedCall:
    """A kind of call: the name of the role, the service, the operation, and the resource ("" where it is unknown)."""

    role: str
    service: str
    operation: str
    resource: str


_lock = threading.Lock()
_roles_by_key: dict[str, str] = {}
_calls: Counter[RecordedCall] = Counter()
_units: Counter[RecordedCall] = Counter()


def credentials_of(role_arn: str) -> dict[str, str]:
    """Return the credential variables of a role. The same role always has the same access key."""
    digest = base64.b32encode(hashlib.sha256(role_arn.encode()).digest()).decode()
    access_key = f"ASIA{digest[:16]}"
    with _lock:
        _roles_by_key[access_key] = role_arn.rsplit("/", 1)[-1]
    return {
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_SESSION_TOKEN": "local",
    }


def role_of(access_key: str) -> str | None:
    """Return the name of the role that an access key belongs to, or None for the operator's own key."""
    return _roles_by_key.get(access_key)


def record(call: RecordedCall) -> None:
    """Count a call."""
    with _lock:
        _calls[call] += 1


def record_units(call: RecordedCall, units: int) -> None:
    """Add the units that AWS bills for a recorded call, where they depend on its size."""
    with _lock:
        _units[call] += units


def recorded() -> list[dict[str, str | int]]:
    """Return every kind of call with its count and its billed units, as served at ``/local-cloud/calls``."""
    with _lock:
        counted, units = list(_calls.items()), dict(_units)
    return [
        {
            "role": call.role,
            "service": call.service,
            "operation": call.operation,
            "resource": call.resource,
            "count": count,
            "units": units.get(call, count),
        }
        for call, count in counted
    ]

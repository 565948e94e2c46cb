"""EventBridge.

AWS: delivers to any target after PutEvents has answered, retries, and dead-letters; a disabled rule matches nothing.

moto: delivers inside PutEvents, to logs, queues and buses only; a Lambda target raises and drops every later rule;
disabled rules fire; scheduled rules never do.

Mend: matching is moto's, delivery is ``delivery``'s, schedules are ``schedule``'s.
"""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

from typing import Any

from moto.events.models import Rule

from cosmos_batch.local.eventbridge import delivery


def apply() -> None:
    """Install the mend."""
    Rule.send_to_targets = _send_to_targets


def _send_to_targets(self: Rule, original_event: dict[str, Any], transform_input: bool = True) -> None:
    event = {name: value for name, value in original_event.items() if name != "ingestion-time"}
    event["time"] = delivery.event_time(event["time"])
    delivery.send_if_matched(self, event)

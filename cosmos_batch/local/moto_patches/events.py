"""Patches of moto's EventBridge: events reach every kind of target, with retries and dead-letter queues."""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

from typing import Any

from moto.events.models import Rule

from cosmos_batch.local.eventbridge import delivery
from cosmos_batch.local.moto_patches.registry import patch, replace


@patch(
    "events.targets-are-reached-after-the-call",
    brings="An event reaches every target of the enabled rules that match it, after PutEvents was answered, with "
    "retries and a dead-letter queue.",
    moto="Delivers inside PutEvents, to logs, queues and buses alone: a Lambda target raises, and later rules get "
    "nothing. Disabled rules fire.",
    source="https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-targets.html",
)
def _deliver() -> None:
    replace(Rule, "send_to_targets", _send_to_targets)


def _send_to_targets(self: Rule, original_event: dict[str, Any], transform_input: bool = True) -> None:
    event = {name: value for name, value in original_event.items() if name != "ingestion-time"}
    event["time"] = delivery.event_time(event["time"])
    delivery.send_if_matched(self, event)

"""Scheduled rules: ``rate(...)`` rules fire as on AWS, and ``cron(...)`` rules never fire."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from cosmos_batch.local import backends
from cosmos_batch.local.eventbridge import delivery

_UNITS = {"minute": 60, "hour": 3600, "day": 86400}


def period_of(expression: str) -> float | None:
    """Return the seconds between two firings of ``rate(5 minutes)``, or None for another kind of expression."""
    match = re.fullmatch(r"rate\((\d+) (minute|hour|day)s?\)", expression)
    return int(match[1]) * _UNITS[match[2]] if match else None


class Schedule:
    """Decides which rules are due. A rule fires for the first time one period after it is first seen."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def due(self, rules: Iterable[Any], now: float) -> list[Any]:
        """Return the enabled rules that are due at ``now``, in seconds of a monotonic clock."""
        due = []
        for rule in rules:
            period = period_of(rule.scheduled_expression or "")
            if period is None or rule.state != "ENABLED":
                self._next.pop(rule.arn, None)
                continue
            if now >= self._next.setdefault(rule.arn, now + period):
                self._next[rule.arn] += period
                due.append(rule)
        return due


def start(sleep: Callable[[float], None] = time.sleep) -> None:
    """Start the thread that fires scheduled rules, once a second."""
    schedule = Schedule()

    def run() -> None:
        while True:
            sleep(1)
            rules = list(backends.events().event_buses["default"].rules.values())
            for rule in schedule.due(rules, time.monotonic()):
                delivery.send(rule, delivery.new_event("aws.events", "Scheduled Event", {}, [rule.arn]))

    threading.Thread(target=run, daemon=True, name="schedule").start()

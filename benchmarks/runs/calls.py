"""Count what a local cloud was asked for: billed units of calls, invocations of functions, transitions, log bytes."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tests.e2e.grants import PREFIX, short
from tests.support.deployed_app import App

_DURATION = re.compile(r"REPORT RequestId: \S+\tDuration: ([\d.]+) ms")
_CONSTRUCT = re.compile(r"-Functions(?P<name>[A-Za-z]+?)(Log)?[0-9A-F]{8}")
_OVERHEAD = 26  # bytes that CloudWatch Logs adds to each line


@dataclass(frozen=True)
class Bill:
    """The calls and state transitions that AWS would bill, without prices.

    Attributes
    ----------
    calls
        The number of calls by the app's roles.
    units
        Billed units by `<role> <service>:<operation>`.
    functions
        `<function> requests` and `<function> GB-seconds`.
    transitions
        Transitions of the state machine's executions, with one for the start of each child and for each retry.
    log_bytes
        Bytes of all lines that functions and workers have logged.
    """

    calls: int
    units: dict[str, float]
    functions: dict[str, float]
    transitions: int
    log_bytes: int

    @classmethod
    def read(cls, app: App) -> Self:
        """Count everything that has happened in a cloud."""
        calls = [call for call in app.cloud.calls() if call["role"].startswith(PREFIX)]
        units: Counter[str] = Counter()
        for call in calls:
            units[f"{short(call['role'])} {call['service']}:{call['operation']}"] += call["units"]
        logs = _Logs.read(app)
        return cls(
            calls=sum(call["count"] for call in calls),
            units=dict(units),
            functions=dict(logs.functions),
            transitions=_transitions(app, logs.functions),
            log_bytes=logs.bytes,
        )

    def since(self, before: "Bill") -> "Bill":
        """Return what has happened since an earlier count."""
        return Bill(
            calls=self.calls - before.calls,
            units=_less(self.units, before.units),
            functions=_less(self.functions, before.functions),
            transitions=self.transitions - before.transitions,
            log_bytes=self.log_bytes - before.log_bytes,
        )


@dataclass
class _Logs:
    functions: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    bytes: int = 0

    @classmethod
    def read(cls, app: App) -> Self:
        """Read all lines of the functions and workers."""
        described = _pages(app, "lambda", "list_functions", "Functions")
        gigabytes = {_construct(one["FunctionName"]): one["MemorySize"] / 1024 for one in described}
        logs = cls()
        for group in _pages(app, "logs", "describe_log_groups", "logGroups"):
            name = group["logGroupName"]
            for event in _pages(app, "logs", "filter_log_events", "events", logGroupName=name):
                logs._add(event["message"], _construct(name), gigabytes)
        return logs

    def _add(self, line: str, function: str | None, gigabytes: Mapping[str | None, float]) -> None:
        self.bytes += len(line.encode()) + _OVERHEAD
        if function is None or (report := _DURATION.search(line)) is None:
            return
        seconds = float(report[1]) / 1000
        self.functions[f"{function} requests"] += 1
        self.functions[f"{function} GB-seconds"] += seconds * gigabytes[function]


def _construct(name: str) -> str | None:
    """Return `Feed` for the names of that function and of its log group."""
    found = _CONSTRUCT.search(name)
    return None if found is None else found["name"]


def _transitions(app: App, functions: Mapping[str, float]) -> int:
    """Count the transitions. Those of children are counted by what they invoke: moto lists no children of a map.

    A child is started, feeds its shard and collects it; each further try of a state is one more.
    """
    stepfunctions = app.client("stepfunctions")
    histories = [
        stepfunctions.get_paginator("get_execution_history").paginate(executionArn=execution["executionArn"])
        for execution in app.executions()
    ]
    entered: int = sum(
        event["type"].endswith("StateEntered") for pages in histories for page in pages for event in page["events"]
    )
    feeds, collects = (int(functions.get(f"{name} requests", 0)) for name in ("Feed", "Collect"))
    return entered + 2 * feeds + collects


def _pages(app: App, service: str, operation: str, name: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    for page in app.client(service).get_paginator(operation).paginate(**arguments):
        yield from page[name]


def _less(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: number - before.get(name, 0) for name, number in sorted(after.items()) if number != before.get(name)}

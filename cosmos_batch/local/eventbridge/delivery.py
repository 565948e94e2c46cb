"""EventBridge delivery: rules match an event, transform it, and send it to targets, with retries and dead letters."""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from cosmos_batch.local import backends
from cosmos_batch.local.lambda_functions import invocations
from cosmos_batch.local.runtime import ACCOUNT, REGION

# AWS tries for 24 hours, up to 185 times. Here nothing changes between attempts, so a few are enough.
MAX_RETRIES = 2
RETRY_SECONDS = 0.2

Event = dict[str, Any]
_LOG = logging.getLogger(__name__)
_deliveries = ThreadPoolExecutor(16, thread_name_prefix="eventbridge")


def new_event(source: str, detail_type: str, detail: dict[str, Any], resources: list[str]) -> Event:
    """Return an event with the envelope that a service puts around its detail."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": detail_type,
        "source": source,
        "account": ACCOUNT,
        "time": event_time(time.time()),
        "region": REGION,
        "resources": resources,
        "detail": detail,
    }


def event_time(moment: float | str) -> str:
    """Return a moment (epoch seconds, or text already in ISO form) as an event's ``time``."""
    if isinstance(moment, str) and not moment.replace(".", "").isdigit():
        return moment
    return datetime.fromtimestamp(float(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def publish(event: Event, bus: str = "default") -> None:
    """Put an event on a bus and return at once; other threads deliver it."""
    for rule in list(backends.events().event_buses[bus].rules.values()):
        send_if_matched(rule, event)


def send_if_matched(rule: Any, event: Event) -> None:
    """Send an event to the targets of a rule if the rule is enabled and its pattern matches."""
    scheduled = rule.scheduled_expression and not rule.event_pattern.get_pattern()
    if rule.state == "ENABLED" and not scheduled and rule.event_pattern.matches_event(event):
        send(rule, event)


def send(rule: Any, event: Event) -> None:
    """Send an event to every target of a rule, whatever its pattern."""
    for target in list(rule.targets):
        _deliveries.submit(_deliver, rule, target, event)


def _deliver(rule: Any, target: dict[str, Any], event: Event) -> None:
    allowed = int(target.get("RetryPolicy", {}).get("MaximumRetryAttempts", MAX_RETRIES))
    failure: Exception | None = None
    for attempt in range(1 + min(allowed, MAX_RETRIES)):
        try:
            time.sleep(RETRY_SECONDS * attempt)
            _target(target["Arn"])(target, payload_of(target, rule, event))
            return
        except Exception as error:
            failure = error
    _LOG.warning("Rule %s could not deliver to %s: %s", rule.name, target["Arn"], failure)
    _dead_letter(rule, target, event, failure)


def _dead_letter(rule: Any, target: dict[str, Any], event: Event, failure: Exception | None) -> None:
    arn = target.get("DeadLetterConfig", {}).get("Arn")
    if not arn:
        return
    attributes = {
        "RULE_ARN": rule.arn,
        "TARGET_ARN": target["Arn"],
        "ERROR_CODE": type(failure).__name__,
        "ERROR_MESSAGE": str(failure) or type(failure).__name__,
    }
    backends.queues().send_message(
        arn.rsplit(":", 1)[-1],
        json.dumps(event),
        message_attributes={name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()},
    )


# --- targets ---------------------------------------------------------------------------------------------------------


def _target(arn: str) -> Callable[[dict[str, Any], Any], None]:
    service = arn.split(":")[2]
    try:
        return _TARGETS[service]
    except KeyError:
        raise ValueError(f"The local cloud delivers events to {', '.join(sorted(_TARGETS))}, not to {arn}") from None


def _to_lambda(target: dict[str, Any], payload: Any) -> None:
    invocations.invoke_later(backends.functions().get_function(target["Arn"]), payload)


def _to_state_machine(target: dict[str, Any], payload: Any) -> None:
    backends.state_machines().start_execution(target["Arn"], str(uuid.uuid4()), json.dumps(payload))


def _to_queue(target: dict[str, Any], payload: Any) -> None:
    group = target.get("SqsParameters", {}).get("MessageGroupId")
    backends.queues().send_message(target["Arn"].rsplit(":", 1)[-1], json.dumps(payload), group_id=group)


def _to_topic(target: dict[str, Any], payload: Any) -> None:
    backends.topics().publish(arn=target["Arn"], message=json.dumps(payload))


def _to_bus(target: dict[str, Any], payload: Any) -> None:
    publish(payload, target["Arn"].rsplit("/", 1)[-1])


def _to_log_group(target: dict[str, Any], payload: Any) -> None:
    logs, group, stream = backends.logs(), target["Arn"].split(":log-group:")[1].removesuffix(":*"), str(uuid.uuid4())
    logs.create_log_stream(group, stream)
    line = {"timestamp": int(time.time() * 1000), "message": json.dumps(payload)}
    logs.groups[group].put_log_events(stream, [line])


_TARGETS = {
    "lambda": _to_lambda,
    "states": _to_state_machine,
    "sqs": _to_queue,
    "sns": _to_topic,
    "events": _to_bus,
    "logs": _to_log_group,
}


# --- input transformation --------------------------------------------------------------------------------------------


def payload_of(target: dict[str, Any], rule: Any, event: Event) -> Any:
    """Return the input of a target: the event, a constant, a part of the event, or a template with its values."""
    if target.get("Input"):
        return json.loads(target["Input"])
    if target.get("InputPath"):
        return _at(event, target["InputPath"])
    if target.get("InputTransformer"):
        return transform(target["InputTransformer"], rule, event)
    return event


def transform(transformer: dict[str, Any], rule: Any, event: Event) -> Any:
    """Return the input template with its variables replaced.

    A variable that is a whole JSON value keeps its type; inside a text it becomes text.
    """
    values = {name: _at(event, path) for name, path in transformer.get("InputPathsMap", {}).items()}
    values |= {
        "aws.events.rule-arn": rule.arn,
        "aws.events.rule-name": rule.name,
        "aws.events.event.ingestion-time": event["time"],
        "aws.events.event": event,
        "aws.events.event.json": event,
    }
    template = transformer["InputTemplate"]
    whole = re.sub(r'"<([\w.-]+)>"', lambda match: json.dumps(values.get(match[1])), template)
    pieces = re.split(r'("(?:[^"\\]|\\.)*")', whole)
    filled = "".join(_fill(piece, values, in_text=piece.startswith('"')) for piece in pieces)
    return json.loads(filled)


def _fill(piece: str, values: dict[str, Any], in_text: bool) -> str:
    def replacement(match: re.Match[str]) -> str:
        value = values.get(match[1])
        if not in_text:
            return json.dumps(value)
        return json.dumps(value if isinstance(value, str) else json.dumps(value))[1:-1]

    return re.sub(r"<([\w.-]+)>", lambda match: replacement(match) if match[1] in values else match[0], piece)


def _at(event: Event, path: str) -> Any:
    """Return the value at a JSON path of names and indices, the only paths that EventBridge allows, or None."""
    value: Any = event
    for name, index in re.findall(r"\.([\w-]+)|\[(\d+)\]", path):
        try:
            value = value[name] if name else value[int(index)]
        except (KeyError, IndexError, TypeError):
            return None
    return value

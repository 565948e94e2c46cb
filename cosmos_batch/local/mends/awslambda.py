"""Lambda.

AWS: a function's process stays warm; an ``Event`` invocation answers 202 at once and is tried three times; a function
error has ``FunctionError: Unhandled``; event source mappings poll; a function whose reserved concurrency is 0 is
throttled.

moto: starts a Docker container for each invocation, waits for it whatever the invocation type, says ``Handled``,
invokes mapped functions inside SendMessage, and keeps the reserved concurrency without reading it.

Mend: invocations go to ``lambda_pool``; ``Event`` invocations to threads of their own; mappings to ``event_sources``.
Of the reserved concurrency, 0 is obeyed and no other number.
Layers are not mounted: they hold wheels for the function's architecture, and the local environment has those packages.
"""

from __future__ import annotations

import base64
import collections
import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moto.awslambda.exceptions import LambdaClientError
from moto.awslambda.models import EventInvokeConfig, LambdaBackend, LambdaFunction

from cosmos_batch.local import backends, identity
from cosmos_batch.local.event_sources import POLLERS
from cosmos_batch.local.lambda_pool import Function, Outcome, Pool
from cosmos_batch.local.runtime import ACCOUNT, REGION

DEFAULT_RETRIES = 2
RETRY_SECONDS = 1.0  # One minute, then two, on AWS.

_LOG = logging.getLogger(__name__)
_pools: dict[str, Pool] = collections.defaultdict(Pool)
_pools_lock = threading.Lock()
_asynchronous = ThreadPoolExecutor(16, thread_name_prefix="lambda-event")


def apply() -> None:
    """Install the mend."""
    LambdaFunction.invoke = _invoke
    for name in ("create", "update", "delete"):
        _wrap_mapping_method(f"{name}_event_source_mapping")
    _keep_log_group()
    _close_pool_of_deleted_function()


def close() -> None:
    """End every warm process."""
    for pool in list(_pools.values()):
        pool.close()


def invoke_now(function: LambdaFunction, event: object) -> Outcome:
    """Run one invocation and put its log lines into CloudWatch Logs."""
    with _pools_lock:
        pool = _pools[function.function_arn]
    outcome, stream = pool.invoke(_described(function), event)
    if _pools.get(function.function_arn) is pool:  # else it was deleted meanwhile, its log group too
        _log(function, outcome, stream)
    return outcome


def _log(function: LambdaFunction, outcome: Outcome, stream: str) -> None:
    logs, now = backends.logs(), int(time.time() * 1000)
    logs.ensure_log_group(function.logs_group_name)
    logs.ensure_log_stream(function.logs_group_name, stream)
    lines = [{"timestamp": now, "message": line} for line in outcome.logs]
    logs.groups[function.logs_group_name].put_log_events(stream, lines)


def invoke_later(function: LambdaFunction, event: object) -> None:
    """Invoke as ``InvocationType=Event`` does: return at once, retry a failed invocation, then give up."""
    _asynchronous.submit(_invoke_with_retries, function, event)


class TooManyRequestsError(LambdaClientError):
    """Lambda's answer to an invocation of a throttled function."""

    code = 429

    def __init__(self) -> None:
        super().__init__("TooManyRequestsException", "Rate Exceeded.")


def _invoke(self: LambdaFunction, body: Any, request_headers: Any, response_headers: dict[str, str]) -> bytes:
    event = json.loads(body) if body else {}
    kind = request_headers.get("x-amz-invocation-type", "RequestResponse")
    if kind == "DryRun":
        return b""
    if kind == "Event":
        invoke_later(self, event)
        return b""
    if self.reserved_concurrency is not None and int(self.reserved_concurrency) == 0:
        raise TooManyRequestsError
    outcome = invoke_now(self, event)
    if outcome.failed:
        response_headers["x-amz-function-error"] = "Unhandled"
    response_headers["x-amz-log-result"] = base64.b64encode("\n".join(outcome.logs)[-4096:].encode()).decode()
    return outcome.payload.encode()


def _invoke_with_retries(function: LambdaFunction, event: object) -> None:
    try:
        for attempt in range(1 + _retries(function)):
            time.sleep(RETRY_SECONDS * attempt)
            outcome = invoke_now(function, event)
            if not outcome.failed:
                return
        _LOG.warning("event for %s given up: %s", function.function_name, outcome.payload)
        _send_to_failure_destination(function, event, outcome)
    except Exception:
        _LOG.exception("event for %s lost", function.function_name)


def _retries(function: LambdaFunction) -> int:
    configured = (config.config.get("MaximumRetryAttempts") for config in _invoke_configs(function))
    return int(next((number for number in configured if number is not None), DEFAULT_RETRIES))


def _send_to_failure_destination(function: LambdaFunction, event: object, outcome: Outcome) -> None:
    for config in _invoke_configs(function):
        arn = config.config.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination", "")
        if ":sqs:" in arn:
            body = {"requestPayload": event, "responsePayload": json.loads(outcome.payload)}
            backends.queues().send_message(arn.rsplit(":", 1)[-1], json.dumps(body))


def _invoke_configs(function: LambdaFunction) -> list[EventInvokeConfig]:
    configs = function.event_invoke_config
    return configs if isinstance(configs, list) else [configs]


def _described(function: LambdaFunction) -> Function:
    environment = {
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
        "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(function.timeout),
        "AWS_LAMBDA_LOG_GROUP_NAME": function.logs_group_name,
        "AWS_ACCOUNT_ID": ACCOUNT,
        "AWS_REGION": REGION,
        "_HANDLER": function.handler,
        **identity.credentials_of(function.role),
        **{name: str(value) for name, value in function.environment_vars.items()},
    }
    return Function(
        name=function.function_name,
        handler=function.handler or "",
        code_sha256=function.code_sha_256,
        environment=tuple(sorted(environment.items())),
        code=function.code_bytes,
        timeout=float(function.timeout),
    )


def _wrap_mapping_method(name: str) -> None:
    original = getattr(LambdaBackend, name)

    def create(self: LambdaBackend, spec: dict[str, Any]) -> Any:
        mapping = original(self, spec)
        POLLERS.start(mapping)
        return mapping

    def update(self: LambdaBackend, uuid: str, spec: dict[str, Any]) -> Any:
        mapping = original(self, uuid, spec)
        if mapping:
            mapping.scaling_config = spec.get("ScalingConfig", mapping.scaling_config)
            mapping.function_response_types = spec.get("FunctionResponseTypes", mapping.function_response_types)
            POLLERS.wake(uuid)
        return mapping

    def delete(self: LambdaBackend, uuid: str) -> Any:
        POLLERS.stop(uuid)
        return original(self, uuid)

    setattr(LambdaBackend, name, {"create": create, "update": update, "delete": delete}[name.split("_")[0]])


def _keep_log_group() -> None:
    """moto drops ``LoggingConfig``; the function must log to the group that the template made for it."""
    original = LambdaFunction.__init__

    def init(self: LambdaFunction, account_id: str, spec: dict[str, Any], region: str, version: int = 1) -> None:
        original(self, account_id, spec, region, version)
        self.logs_group_name = spec.get("LoggingConfig", {}).get("LogGroup") or self.logs_group_name

    LambdaFunction.__init__ = init


def _close_pool_of_deleted_function() -> None:
    original = LambdaBackend.delete_function

    def delete_function(self: LambdaBackend, function_name: str, *args: Any, **kwargs: Any) -> None:
        arn = self.get_function(function_name).function_arn
        original(self, function_name, *args, **kwargs)
        pool = _pools.pop(arn, None)
        if pool:
            pool.close()

    LambdaBackend.delete_function = delete_function

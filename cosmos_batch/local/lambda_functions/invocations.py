"""Synchronous and asynchronous invocations of Lambda functions.

Layers are not mounted: they hold wheels for the architecture of the function; the local environment has the packages.
"""

from __future__ import annotations

import collections
import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from cosmos_batch.local import backends, recorded_calls
from cosmos_batch.local.lambda_functions.processes import DeployedFunction, FunctionPool, InvocationResult
from cosmos_batch.local.runtime import ACCOUNT, REGION

if TYPE_CHECKING:
    from moto.awslambda.models import EventInvokeConfig, LambdaFunction

DEFAULT_RETRIES = 2
RETRY_SECONDS = 1.0  # AWS waits one minute before the first retry and two before the second.

_LOG = logging.getLogger(__name__)
_pools: dict[str, FunctionPool] = collections.defaultdict(FunctionPool)
_pools_lock = threading.Lock()
_asynchronous = ThreadPoolExecutor(16, thread_name_prefix="lambda-event")


def close_all() -> None:
    """End the warm processes of every function."""
    for pool in list(_pools.values()):
        pool.close()


def invoke_now(function: LambdaFunction, event: object) -> InvocationResult:
    """Run one invocation and put its log lines into CloudWatch Logs."""
    with _pools_lock:
        pool = _pools[function.function_arn]
    outcome, stream = pool.invoke(_described(function), event)
    if _pools.get(function.function_arn) is pool:  # else the function and its log group were deleted meanwhile
        _log(function, outcome, stream)
    return outcome


def _log(function: LambdaFunction, outcome: InvocationResult, stream: str) -> None:
    logs, now = backends.logs(), int(time.time() * 1000)
    logs.ensure_log_group(function.logs_group_name)
    logs.ensure_log_stream(function.logs_group_name, stream)
    lines = [{"timestamp": now, "message": line} for line in outcome.logs]
    logs.groups[function.logs_group_name].put_log_events(stream, lines)


def invoke_later(function: LambdaFunction, event: object) -> None:
    """Invoke as ``InvocationType=Event`` does: return at once, and retry a failed invocation a few times."""
    _asynchronous.submit(_invoke_with_retries, function, event)


def _invoke_with_retries(function: LambdaFunction, event: object) -> None:
    try:
        for attempt in range(1 + _retries(function)):
            time.sleep(RETRY_SECONDS * attempt)
            outcome = invoke_now(function, event)
            if not outcome.failed:
                return
        _LOG.warning("Every attempt to handle an event failed in %s: %s", function.function_name, outcome.payload)
        _send_to_failure_destination(function, event, outcome)
    except Exception:
        _LOG.exception("An event for %s was lost", function.function_name)


def _retries(function: LambdaFunction) -> int:
    configured = (config.config.get("MaximumRetryAttempts") for config in _invoke_configs(function))
    return int(next((number for number in configured if number is not None), DEFAULT_RETRIES))


def _send_to_failure_destination(function: LambdaFunction, event: object, outcome: InvocationResult) -> None:
    for config in _invoke_configs(function):
        arn = config.config.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination", "")
        if ":sqs:" in arn:
            body = {"requestPayload": event, "responsePayload": json.loads(outcome.payload)}
            backends.queues().send_message(arn.rsplit(":", 1)[-1], json.dumps(body))


def _invoke_configs(function: LambdaFunction) -> list[EventInvokeConfig]:
    configs = function.event_invoke_config
    return configs if isinstance(configs, list) else [configs]


def _described(function: LambdaFunction) -> DeployedFunction:
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
        **recorded_calls.credentials_of(function.role),
        **{name: str(value) for name, value in function.environment_vars.items()},
    }
    return DeployedFunction(
        name=function.function_name,
        handler=function.handler or "",
        code_sha256=function.code_sha_256,
        environment=tuple(sorted(environment.items())),
        code=function.code_bytes,
        timeout=float(function.timeout),
    )


def close_pool(function_arn: str) -> None:
    """End the warm processes of a function that was deleted."""
    pool = _pools.pop(function_arn, None)
    if pool:
        pool.close()

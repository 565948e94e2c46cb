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
import json
from typing import Any

from moto.awslambda.exceptions import LambdaClientError
from moto.awslambda.models import LambdaBackend, LambdaFunction

from cosmos_batch.local.lambda_functions import invocations
from cosmos_batch.local.lambda_functions.event_sources import POLLERS


def apply() -> None:
    """Install the mend."""
    LambdaFunction.invoke = _invoke
    for name in ("create", "update", "delete"):
        _wrap_mapping_method(f"{name}_event_source_mapping")
    _keep_log_group()
    _close_pool_of_deleted_function()


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
        invocations.invoke_later(self, event)
        return b""
    if self.reserved_concurrency is not None and int(self.reserved_concurrency) == 0:
        raise TooManyRequestsError
    outcome = invocations.invoke_now(self, event)
    if outcome.failed:
        response_headers["x-amz-function-error"] = "Unhandled"
    response_headers["x-amz-log-result"] = base64.b64encode("\n".join(outcome.logs)[-4096:].encode()).decode()
    return outcome.payload.encode()


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
        invocations.close_pool(arn)

    LambdaBackend.delete_function = delete_function

"""Patches of moto's Lambda: functions run in warm processes, and event source mappings poll their queues."""

from __future__ import annotations

import base64
import json
from typing import Any

from moto.awslambda.exceptions import LambdaClientError
from moto.awslambda.models import EventSourceMapping, LambdaBackend, LambdaFunction

from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.lambda_functions import invocations
from cosmos_batch.local.lambda_functions.event_sources import POLLERS
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import configure_after, fix_properties, is_true


@patch(
    "awslambda.functions-run-as-processes",
    brings="A function runs on a warm process; an Event invocation is answered at once and tried three times; an error "
    "of the function is called Unhandled; a function whose reserved concurrency is 0 is throttled (other numbers "
    "limit nothing).",
    moto="Starts a Docker container for each invocation, waits for it whatever the invocation type, calls each error "
    "Handled, and ignores the reserved concurrency.",
    source="https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html",
)
def _run_functions() -> None:
    replace(LambdaFunction, "invoke", _invoke)


class TooManyRequestsError(LambdaClientError):
    """Lambda throttled the invocation of a function."""

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


@patch(
    "awslambda.mappings-poll-their-queue",
    brings="An event source mapping polls its queue in batches, from its creation to its deletion.",
    moto="Invokes a mapped function inside SendMessage, one message at a time, and never for a delayed message.",
    source="https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html",
)
def _poll_for_mappings() -> None:
    for name in ("create", "update", "delete"):
        _wrap_mapping_method(f"{name}_event_source_mapping")


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

    replace(LambdaBackend, name, {"create": create, "update": update, "delete": delete}[name.split("_")[0]])


@patch(
    "awslambda.functions-log-to-their-group",
    brings="A function logs to the group that LoggingConfig names.",
    moto="Ignores LoggingConfig.",
    source="https://docs.aws.amazon.com/lambda/latest/api/API_LoggingConfig.html",
)
def _keep_log_group() -> None:
    original = LambdaFunction.__init__

    def init(self: LambdaFunction, account_id: str, spec: dict[str, Any], region: str, version: int = 1) -> None:
        original(self, account_id, spec, region, version)
        self.logs_group_name = spec.get("LoggingConfig", {}).get("LogGroup") or self.logs_group_name

    replace(LambdaFunction, "__init__", init)


@patch(
    "awslambda.deleted-functions-end-their-processes",
    brings="The warm processes of a function end when it is deleted, as its execution environments do.",
    moto="Has no processes.",
    source="https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html",
)
def _close_pool_of_deleted_function() -> None:
    original = LambdaBackend.delete_function

    def delete_function(self: LambdaBackend, function_name: str, *args: Any, **kwargs: Any) -> None:
        arn = self.get_function(function_name).function_arn
        original(self, function_name, *args, **kwargs)
        invocations.close_pool(arn)

    replace(LambdaBackend, "delete_function", delete_function)


@patch(
    "awslambda.updates-change-variables",
    brings="A stack update sets the variables and the log group of a function to those of its template.",
    moto="Keeps the variables and the log group that the function had.",
    source=f"{RESOURCE_PAGES}aws-resource-lambda-function.html",
)
def _configure_functions() -> None:
    configure_after(LambdaFunction, _configure_function)


def _configure_function(function: LambdaFunction, properties: Properties) -> None:
    group = properties.get("LoggingConfig", {}).get("LogGroup")
    function.logs_group_name = group or f"/aws/lambda/{function.function_name}"
    function.environment_vars = properties.get("Environment", {}).get("Variables", {})


@patch(
    "awslambda.mapping-properties-may-be-text",
    brings="BatchSize and Enabled of a mapping may be text in a template, as every property may.",
    moto="Keeps the text, compares it with numbers, and takes 'false' for true.",
    source=f"{RESOURCE_PAGES}aws-resource-lambda-eventsourcemapping.html",
)
def _read_mapping_properties() -> None:
    fix_properties(EventSourceMapping, _typed_mapping)


def _typed_mapping(_: str, properties: Properties) -> None:
    if "BatchSize" in properties:
        properties["BatchSize"] = int(properties["BatchSize"])
    properties["Enabled"] = is_true(properties.get("Enabled", True))

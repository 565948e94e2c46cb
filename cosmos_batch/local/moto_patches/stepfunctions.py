"""Patches of moto's Step Functions: machines of a template run, and each attempt of a state has a task token."""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

import json
from typing import Any

from moto.core.config import default_user_config
from moto.core.responses import ActionResult, EmptyResult
from moto.stepfunctions import models
from moto.stepfunctions.models import StateMachine
from moto.stepfunctions.parser import models as parser_models
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_factory  # noqa: F401
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import ResourceCondition
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (
    StateTaskServiceCallback,
)
from moto.stepfunctions.parser.asl.eval.callback.callback import CallbackPoolManager
from moto.stepfunctions.responses import StepFunctionResponse

from cosmos_batch.local import backends
from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import fix_properties
from cosmos_batch.local.stepfunctions import task_tokens

_MACHINE_PAGE = f"{RESOURCE_PAGES}aws-resource-stepfunctions-statemachine.html"


@patch(
    "stepfunctions.machines-run",
    brings="A machine runs its definition, also one that CloudFormation made.",
    moto="Runs no machine unless it is configured to, and keeps machines of CloudFormation where they never run.",
    source="https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html",
)
def _run_machines() -> None:
    replace(default_user_config, "stepfunctions", {"execute_state_machine": True})
    replace(models, "stepfunctions_backends", parser_models.stepfunctions_parser_backends)


@patch(
    "stepfunctions.definitions-of-templates",
    brings="A template gives a definition as text, as an object or in S3, with substitutions.",
    moto="Reads text alone.",
    source=_MACHINE_PAGE,
)
def _read_definitions() -> None:
    fix_properties(StateMachine, _inline_definition)


def _inline_definition(_: str, properties: Properties) -> None:
    if "DefinitionS3Location" in properties:
        location = properties["DefinitionS3Location"]
        definition = backends.s3().get_object(location["Bucket"], location["Key"]).value.decode()
    elif "Definition" in properties:
        definition = json.dumps(properties["Definition"])
    else:
        definition = properties["DefinitionString"]
    for name, value in properties.get("DefinitionSubstitutions", {}).items():
        definition = definition.replace(f"${{{name}}}", str(value))
    properties["DefinitionString"] = definition


@patch(
    "stepfunctions.machine-arn",
    brings="Fn::GetAtt of a machine's Arn is its ARN.",
    moto="Does not know the attribute.",
    source=_MACHINE_PAGE,
)
def _expose_arn() -> None:
    has, get = StateMachine.has_cfn_attr.__func__, StateMachine.get_cfn_attribute
    replace(StateMachine, "has_cfn_attr", classmethod(lambda cls, name: name == "Arn" or has(cls, name)))
    replace(StateMachine, "get_cfn_attribute", lambda self, name: self.arn if name == "Arn" else get(self, name))


# --- tokens ----------------------------------------------------------------------------------------------------------


@patch(
    "stepfunctions.callbacks-are-checked",
    brings="A callback for a task that is over is refused as TaskTimedOut, one with output that is not JSON as "
    "InvalidOutput; the cause of a failure is kept; a callback may come before the state waits for it.",
    moto="Accepts callbacks of stopped executions, calls the token of an answered task invalid, drops the cause, and "
    "loses a callback that comes early.",
    source="https://docs.aws.amazon.com/step-functions/latest/apireference/API_SendTaskSuccess.html",
)
def _check_callbacks() -> None:
    replace(CallbackPoolManager, "add", task_tokens.create)
    replace(StateTaskServiceCallback, "_eval_wait_for_task_token", _wait_for_callback)
    replace(StepFunctionResponse, "send_task_heartbeat", _send_task_heartbeat)
    replace(StepFunctionResponse, "send_task_success", _send_task_success)
    replace(StepFunctionResponse, "send_task_failure", _send_task_failure)


def _wait_for_callback(self: Any, env: Any, timeout_seconds: float, callback_endpoint: Any, **_: Any) -> Any:
    return callback_endpoint.wait_for_outcome(timeout_seconds)


def _send_task_heartbeat(self: StepFunctionResponse) -> ActionResult:
    task_tokens.heartbeat(self._get_param("taskToken"))
    return EmptyResult()


def _send_task_success(self: StepFunctionResponse) -> ActionResult:
    task_tokens.success(self._get_param("taskToken"), self._get_param("output"))
    return EmptyResult()


def _send_task_failure(self: StepFunctionResponse) -> ActionResult:
    task_tokens.failure(self._get_param("taskToken"), self._get_param("error"), self._get_param("cause"))
    return EmptyResult()


@patch(
    "stepfunctions.each-attempt-has-a-token",
    brings="Each attempt of a state has a task token of its own, and an execution that was stopped retries nothing.",
    moto="Gives every attempt the token of the first, and retries in an execution that was stopped.",
    source="https://docs.aws.amazon.com/step-functions/latest/dg/connect-to-resource.html",
)
def _give_each_attempt_its_token() -> None:
    original = ExecutionState._evaluate_with_timeout

    def attempt(self: ExecutionState, env: Any) -> None:
        token = _new_token(env) if _waits_for_token(self) else None
        try:
            original(self, env)
        except Exception:
            _leave_if_ended(env)
            raise
        finally:
            if token:
                token.close()
        _leave_if_ended(env)

    replace(ExecutionState, "_evaluate_with_timeout", attempt)


def _waits_for_token(state: ExecutionState) -> bool:
    callback = isinstance(state, StateTaskServiceCallback)
    return callback and state.resource.condition == ResourceCondition.WaitForTaskToken


def _new_token(env: Any) -> task_tokens.TaskToken:
    return task_tokens.create(env.callback_pool_manager, env.states.context_object.update_task_token())


def _leave_if_ended(env: Any) -> None:
    """End the interpreter's thread if the execution was stopped, so that no Retry or Catch is applied."""
    if not env.is_running():
        raise SystemExit

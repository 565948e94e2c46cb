"""Step Functions.

AWS: a callback for a task that is over is refused with ``TaskTimedOut``; each attempt has a token of its own; stopping
an execution ends it at once; starting one twice with one name and input is one execution; every change of status is an
event.

moto: accepts callbacks for stopped executions and says ``InvalidToken`` for answered ones; drops the cause of a
failure; loses a callback that arrives before the state waits for it; leaves a stopped execution RUNNING until its task
ends; puts no events; puts machines made by CloudFormation where they do not run.

Mend: tokens are ``task_tokens``'; executions end once, with an event.
"""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from moto.core.config import default_user_config
from moto.core.responses import ActionResult, EmptyResult
from moto.stepfunctions import models
from moto.stepfunctions.exceptions import InvalidName
from moto.stepfunctions.parser import models as parser_models
from moto.stepfunctions.parser.api import ExecutionStatus, HistoryEventType
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_factory  # noqa: F401
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import ResourceCondition
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (
    StateTaskServiceCallback,
)
from moto.stepfunctions.parser.asl.eval.callback.callback import CallbackPoolManager
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.utils.encoding import to_json_str
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution
from moto.stepfunctions.parser.models import StepFunctionsParserBackend
from moto.stepfunctions.responses import StepFunctionResponse

from cosmos_batch.local.eventbridge import delivery
from cosmos_batch.local.stepfunctions import task_tokens

_starting = threading.Lock()
_ending = threading.Lock()


def apply() -> None:
    """Install the mend."""
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    models.stepfunctions_backends = parser_models.stepfunctions_parser_backends
    _mend_tokens()
    _mend_executions()


# --- tokens ----------------------------------------------------------------------------------------------------------


def _mend_tokens() -> None:
    CallbackPoolManager.add = task_tokens.create
    StateTaskServiceCallback._eval_wait_for_task_token = _wait_for_callback
    _give_each_attempt_its_token()
    StepFunctionResponse.send_task_heartbeat = _send_task_heartbeat
    StepFunctionResponse.send_task_success = _send_task_success
    StepFunctionResponse.send_task_failure = _send_task_failure


def _wait_for_callback(self: Any, env: Any, timeout_seconds: float, callback_endpoint: Any, **_: Any) -> Any:
    return callback_endpoint.wait_for_outcome(timeout_seconds)


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

    ExecutionState._evaluate_with_timeout = attempt


def _waits_for_token(state: ExecutionState) -> bool:
    callback = isinstance(state, StateTaskServiceCallback)
    return callback and state.resource.condition == ResourceCondition.WaitForTaskToken


def _new_token(env: Any) -> task_tokens.TaskToken:
    return task_tokens.create(env.callback_pool_manager, env.states.context_object.update_task_token())


def _leave_if_ended(env: Any) -> None:
    """Leave the interpreter's thread when the execution was stopped, before a Retry or Catch is looked for."""
    if not env.is_running():
        raise SystemExit


def _send_task_heartbeat(self: StepFunctionResponse) -> ActionResult:
    task_tokens.heartbeat(self._get_param("taskToken"))
    return EmptyResult()


def _send_task_success(self: StepFunctionResponse) -> ActionResult:
    task_tokens.success(self._get_param("taskToken"), self._get_param("output"))
    return EmptyResult()


def _send_task_failure(self: StepFunctionResponse) -> ActionResult:
    task_tokens.failure(self._get_param("taskToken"), self._get_param("error"), self._get_param("cause"))
    return EmptyResult()


# --- executions ------------------------------------------------------------------------------------------------------


def _mend_executions() -> None:
    _start_once()
    _publish_start()
    BaseExecutionWorkerCommunication.terminated = _ended_by_itself
    Execution.stop = _stop
    # An execution is listed a moment before it has a status.
    Execution.status = property(lambda self: (self.exec_status or ExecutionStatus.RUNNING).value)
    StepFunctionResponse.stop_execution = _stop_execution
    StepFunctionResponse.describe_execution = _describe_execution


def _start_once() -> None:
    original = StepFunctionsParserBackend.start_execution

    def start_execution(
        self: Any, state_machine_arn: str, name: str | None = None, execution_input: str | None = None, **extra: Any
    ) -> Execution:
        name = name or str(uuid.uuid4())
        if len(name) > 80:
            raise InvalidName(f"Invalid Name: '{name}' is longer than 80 characters")
        with _starting:
            return original(self, state_machine_arn, name, execution_input, **extra)

    StepFunctionsParserBackend.start_execution = start_execution


def _publish_start() -> None:
    original = Execution.start

    def start(self: Execution) -> None:
        original(self)
        _publish_status(self, ExecutionStatus.RUNNING)

    Execution.start = start


def _ended_by_itself(self: BaseExecutionWorkerCommunication) -> None:
    execution = self.execution
    with _ending:
        if execution.exec_status != ExecutionStatus.RUNNING:
            return
        self._reflect_execution_status()
        if execution.exec_status == ExecutionStatus.TIMED_OUT:
            execution.error = "States.Timeout"
    if execution.exec_status == ExecutionStatus.TIMED_OUT:
        _close(execution, HistoryEventType.ExecutionTimedOut, {"executionTimedOutEventDetails": {}})
    _publish_status(execution)


def _stop(self: Execution, stop_date: datetime, error: str | None, cause: str | None) -> None:
    with _ending:
        if self.exec_status != ExecutionStatus.RUNNING:
            return
        self.exec_status, self.stop_date = ExecutionStatus.ABORTED, stop_date
        self.error, self.cause = error, cause
    while self.exec_worker.env is None:
        time.sleep(0.005)  # Its thread was started and has not come to it yet.
    self.exec_worker.env.set_stop(stop_date=stop_date, error=error, cause=cause)
    details = {key: value for key, value in {"error": error, "cause": cause}.items() if value is not None}
    _close(self, HistoryEventType.ExecutionAborted, {"executionAbortedEventDetails": details})
    _publish_status(self)


def _close(execution: Execution, event_type: str, details: dict[str, Any]) -> None:
    """End everything that waits in an execution that did not come to its own end, and write that into its history."""
    env = execution.exec_worker.env
    task_tokens.close_all(env.callback_pool_manager)
    env.event_manager.add_event(
        context=env.event_history_context, event_type=event_type, event_details=EventDetails(**details)
    )


def _publish_status(execution: Execution, status: ExecutionStatus | None = None) -> None:
    status = status or execution.exec_status
    succeeded = status == ExecutionStatus.SUCCEEDED
    detail = {
        "executionArn": execution.exec_arn,
        "stateMachineArn": execution.state_machine.arn,
        "name": execution.name,
        "status": status.value,
        "startDate": _milliseconds(execution.start_date),
        "stopDate": _milliseconds(execution.stop_date) if status != ExecutionStatus.RUNNING else None,
        "input": execution.execution_input,
        "inputDetails": {"included": True},
        "output": to_json_str(execution.output) if succeeded else None,
        "outputDetails": {"included": True} if succeeded else None,
        "error": execution.error,
        "cause": execution.cause,
    }
    source, detail_type = "aws.states", "Step Functions Execution Status Change"
    delivery.publish(delivery.new_event(source, detail_type, detail, [execution.exec_arn]))


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _stop_execution(self: StepFunctionResponse) -> ActionResult:
    execution = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    execution.stop(datetime.now(UTC), self._get_param("error"), self._get_param("cause"))
    return ActionResult({"stopDate": execution.stop_date})


def _describe_execution(self: StepFunctionResponse) -> ActionResult:
    execution = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    described = {**execution.to_describe_output(), "input": execution.execution_input, "status": execution.status}
    return ActionResult({name: value for name, value in described.items() if value is not None})

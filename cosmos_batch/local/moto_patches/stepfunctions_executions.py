"""Patches of executions of Step Functions: each starts once, ends once, and sends its events to EventBridge."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.stepfunctions.exceptions import InvalidName
from moto.stepfunctions.parser.api import ExecutionStatus, HistoryEventType
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.utils.encoding import to_json_str
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication, Execution
from moto.stepfunctions.parser.models import StepFunctionsParserBackend
from moto.stepfunctions.responses import StepFunctionResponse

from cosmos_batch.local.eventbridge import delivery
from cosmos_batch.local.moto_patches.registry import patch, replace
from cosmos_batch.local.stepfunctions import task_tokens

_API = "https://docs.aws.amazon.com/step-functions/latest/apireference/"

_starting = threading.Lock()
_ending = threading.Lock()


@patch(
    "stepfunctions_executions.start-once",
    brings="Two starts with one name and input at one moment start one execution; a name has at most 80 characters.",
    moto="Starts two, and takes a name of any length.",
    source=f"{_API}API_StartExecution.html",
)
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

    replace(StepFunctionsParserBackend, "start_execution", start_execution)


@patch(
    "stepfunctions_executions.status-changes-are-events",
    brings="Each change of an execution's status is an event on the default bus.",
    moto="Puts no events.",
    source="https://docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html",
)
def _publish_status_changes() -> None:
    _publish_start()
    replace(BaseExecutionWorkerCommunication, "terminated", _ended_by_itself)


def _publish_start() -> None:
    original = Execution.start

    def start(self: Execution) -> None:
        original(self)
        _publish_status(self, ExecutionStatus.RUNNING)

    replace(Execution, "start", start)


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


@patch(
    "stepfunctions_executions.stop-ends-at-once",
    brings="StopExecution ends an execution at once, with its error and cause in the history.",
    moto="Leaves it RUNNING until its task ends.",
    source=f"{_API}API_StopExecution.html",
)
def _stop_at_once() -> None:
    replace(Execution, "stop", _stop)
    replace(StepFunctionResponse, "stop_execution", _stop_execution)


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
    """End the waiting states of an execution that was stopped or timed out, and write that into its history."""
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


@patch(
    "stepfunctions_executions.descriptions-have-no-gaps",
    brings="DescribeExecution and ListExecutions work from the moment at which StartExecution answered.",
    moto="Fails for an execution whose thread has not set its status yet, and describes members that are null.",
    source=f"{_API}API_DescribeExecution.html",
)
def _describe_at_any_moment() -> None:
    replace(Execution, "status", property(lambda self: (self.exec_status or ExecutionStatus.RUNNING).value))
    replace(StepFunctionResponse, "describe_execution", _describe_execution)


def _describe_execution(self: StepFunctionResponse) -> ActionResult:
    execution = self.stepfunction_backend.describe_execution(self._get_param("executionArn"))
    described = {**execution.to_describe_output(), "input": execution.execution_input, "status": execution.status}
    return ActionResult({name: value for name, value in described.items() if value is not None})

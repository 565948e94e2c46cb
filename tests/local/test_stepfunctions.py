"""Step Functions: callbacks, the end of executions, and their events."""

from __future__ import annotations

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.local.cloud import LocalCloud
from tests.local.support import Inbox, Stack, wait_until

GREETS = "def handler(event, context):\n    return {'hello': event['name']}\n"


class Machine:
    """A state machine of a template whose second state waits for a callback."""

    def __init__(self, cloud: LocalCloud, stack: Stack, inbox: Inbox, limits: dict[str, Any] | None = None) -> None:
        self.cloud, self.client, self.inbox, self.name = cloud, cloud.client("stepfunctions"), inbox, stack.name
        definition = {
            "StartAt": "Greet",
            "TimeoutSeconds": 60,
            "States": {
                "Greet": {
                    "Type": "Task",
                    "Resource": "arn:aws:states:::lambda:invoke",
                    "Parameters": {"FunctionName": "${Function}", "Payload.$": "$"},
                    "ResultPath": "$.greeted",
                    "Next": "Wait",
                },
                "Wait": {
                    "Type": "Task",
                    "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
                    "Parameters": {"QueueUrl": inbox.url, "MessageBody": {"token.$": "$$.Task.Token", "input.$": "$"}},
                    **(limits if limits is not None else {"TimeoutSecondsPath": "$.t", "HeartbeatSecondsPath": "$.h"}),
                    "Retry": [{"ErrorEquals": ["Again"], "IntervalSeconds": 1, "MaxAttempts": 1}],
                    "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Report"}],
                    "End": True,
                },
                "Report": {"Type": "Pass", "End": True},
            },
        }
        resources = {
            "F": stack.function(GREETS),
            "Machine": {
                "Type": "AWS::StepFunctions::StateMachine",
                "Properties": {
                    "StateMachineName": stack.name,
                    "DefinitionString": json.dumps(definition),
                    "DefinitionSubstitutions": {"Function": {"Ref": "F"}},
                    "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                },
            },
        }
        self.arn = stack.put(resources, {"Arn": {"Fn::GetAtt": ["Machine", "Arn"]}})["Arn"]

    def start(self, name: str = "", **more: Any) -> str:
        machine_input = {"name": "n", "t": 30, "h": 29, **more}
        options = {"name": name} if name else {}
        started = self.client.start_execution(stateMachineArn=self.arn, input=json.dumps(machine_input), **options)
        return started["executionArn"]

    def token(self) -> str:
        return self.inbox.next()["token"]

    def ended(self, arn: str) -> dict[str, Any]:
        described = lambda: self.client.describe_execution(executionArn=arn)  # noqa: E731
        return wait_until(lambda: (d := described())["status"] != "RUNNING" and d)


@pytest.fixture
def machine(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> Machine:
    return Machine(cloud, stack, inbox)


def code_of(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**arguments)
    return refused.value.response["Error"]["Code"]


def test_a_callback_ends_the_wait_and_its_output_is_the_result(machine: Machine) -> None:
    arn = machine.start()
    machine.client.send_task_success(taskToken=machine.token(), output='{"answer": 42}')
    ended = machine.ended(arn)
    assert ended["status"] == "SUCCEEDED"
    assert json.loads(ended["output"]) == {"answer": 42}
    assert ended["stopDate"] >= ended["startDate"]


def test_a_lambda_task_passes_its_payload(machine: Machine) -> None:
    arn = machine.start(name=f"e{uuid.uuid4().hex}")
    sent = machine.inbox.next()
    assert sent["input"]["greeted"]["Payload"] == {"hello": "n"}
    machine.client.stop_execution(executionArn=arn)


def test_a_failure_keeps_error_and_cause(machine: Machine) -> None:
    arn = machine.start()
    machine.client.send_task_failure(taskToken=machine.token(), error="Blocked", cause="a check refused it")
    assert json.loads(machine.ended(arn)["output"])["error"] == {"Error": "Blocked", "Cause": "a check refused it"}


def test_a_retry_gets_a_token_of_its_own(machine: Machine) -> None:
    arn = machine.start()
    first = machine.token()
    machine.client.send_task_failure(taskToken=first, error="Again")
    second = machine.token()
    assert second != first
    machine.client.send_task_success(taskToken=second, output="1")
    assert machine.ended(arn)["status"] == "SUCCEEDED"


def test_the_timeout_from_the_input_is_caught(machine: Machine) -> None:
    arn = machine.start(t=1, h=29)
    token = machine.token()
    assert json.loads(machine.ended(arn)["output"])["error"]["Error"] == "States.Timeout"
    assert code_of(machine.client.send_task_heartbeat, taskToken=token) == "TaskTimedOut"


def test_heartbeats_keep_a_task_alive_and_their_end_is_a_timeout(machine: Machine) -> None:
    arn = machine.start(t=20, h=4)
    token = machine.token()
    for _ in range(5):
        time.sleep(1)
        machine.client.send_task_heartbeat(taskToken=token)
    assert machine.client.describe_execution(executionArn=arn)["status"] == "RUNNING"
    assert json.loads(machine.ended(arn)["output"])["error"]["Error"] in ("States.Timeout", "States.HeartbeatTimeout")


def test_a_heartbeat_without_a_limit_is_harmless(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> None:
    machine = Machine(cloud, stack, inbox, limits={})
    arn = machine.start()
    token = machine.token()
    machine.client.send_task_heartbeat(taskToken=token)
    machine.client.send_task_success(taskToken=token, output="{}")
    assert machine.ended(arn)["status"] == "SUCCEEDED"


@pytest.mark.parametrize("end", ["answered", "stopped"])
def test_a_callback_for_an_ended_task_is_refused_as_task_timed_out(machine: Machine, end: str) -> None:
    arn = machine.start()
    token = machine.token()
    if end == "answered":
        machine.client.send_task_success(taskToken=token, output="{}")
    else:
        machine.client.stop_execution(executionArn=arn)
    client = machine.client
    assert code_of(client.send_task_heartbeat, taskToken=token) == "TaskTimedOut"
    assert code_of(client.send_task_success, taskToken=token, output="{}") == "TaskTimedOut"
    assert code_of(client.send_task_failure, taskToken=token) == "TaskTimedOut"


def test_an_unknown_token_and_an_output_that_is_not_json_are_refused(machine: Machine) -> None:
    assert code_of(machine.client.send_task_heartbeat, taskToken="garbage") == "InvalidToken"
    arn = machine.start()
    token = machine.token()
    assert code_of(machine.client.send_task_success, taskToken=token, output="not json") == "InvalidOutput"
    machine.client.stop_execution(executionArn=arn)


def test_a_stopped_execution_is_aborted_at_once_and_catches_no_error(machine: Machine) -> None:
    arn = machine.start()
    machine.token()
    machine.client.stop_execution(executionArn=arn, error="Cancelled", cause="by a person")
    described = machine.client.describe_execution(executionArn=arn)
    assert (described["status"], described["error"], described["cause"]) == ("ABORTED", "Cancelled", "by a person")
    assert "stopDate" in described
    history = machine.client.get_execution_history(executionArn=arn)["events"]
    assert history[-1]["type"] == "ExecutionAborted"
    assert machine.inbox.next(1) is None


def test_starts_with_one_name_start_one_execution(machine: Machine) -> None:
    name = f"e{uuid.uuid4().hex}"
    arn = machine.start(name=name)
    assert machine.start(name=name) == arn
    other = {"stateMachineArn": machine.arn, "name": name, "input": '{"other": 1}'}
    assert code_of(machine.client.start_execution, **other) == "ExecutionAlreadyExists"
    machine.client.send_task_success(taskToken=machine.token(), output="{}")
    machine.ended(arn)
    same = {"stateMachineArn": machine.arn, "name": name, "input": '{"name": "n", "t": 30, "h": 29}'}
    assert code_of(machine.client.start_execution, **same) == "ExecutionAlreadyExists"


def test_every_change_of_status_is_an_event(cloud: LocalCloud, stack: Stack, inbox: Inbox, machine: Machine) -> None:
    seen = Inbox(cloud)
    events = cloud.client("events")
    pattern = {"source": ["aws.states"], "detail": {"stateMachineArn": [machine.arn]}}
    events.put_rule(Name=stack.name, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=stack.name, Targets=[{"Id": "T", "Arn": seen.arn}])
    succeeded = machine.start()
    machine.client.send_task_success(taskToken=machine.token(), output='{"a": 1}')
    machine.ended(succeeded)
    stopped = machine.start()
    machine.client.stop_execution(executionArn=stopped, cause="why")
    arrived = {(e["detail"]["executionArn"], e["detail"]["status"]): e for e in seen.all(4)}
    assert set(arrived) == {
        (succeeded, "RUNNING"),
        (succeeded, "SUCCEEDED"),
        (stopped, "RUNNING"),
        (stopped, "ABORTED"),
    }
    event = arrived[succeeded, "SUCCEEDED"]
    assert event["detail-type"] == "Step Functions Execution Status Change"
    assert json.loads(event["detail"]["output"]) == {"a": 1}
    assert event["detail"]["stopDate"] >= event["detail"]["startDate"] > 1e12
    assert arrived[stopped, "ABORTED"]["detail"]["cause"] == "why"


def test_an_execution_that_exceeds_its_timeout_is_timed_out(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> None:
    definition = {"StartAt": "W", "TimeoutSeconds": 1, "States": {"W": {"Type": "Wait", "Seconds": 30, "End": True}}}
    client = cloud.client("stepfunctions")
    machine = client.create_state_machine(
        name=stack.name, definition=json.dumps(definition), roleArn="arn:aws:iam::123456789012:role/r"
    )
    arn = client.start_execution(stateMachineArn=machine["stateMachineArn"])["executionArn"]
    ended = wait_until(lambda: (d := client.describe_execution(executionArn=arn))["status"] != "RUNNING" and d)
    assert ended["status"] == "TIMED_OUT"
    assert "stopDate" in ended


def test_two_hundred_waiting_executions_use_almost_no_cpu_time(machine: Machine) -> None:
    client = machine.client
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: machine.start(), range(200)))
    tokens = machine.inbox.tokens(200)
    before = cpu_seconds(machine.cloud.process_id)
    time.sleep(2)
    assert cpu_seconds(machine.cloud.process_id) - before < 0.2
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda token: client.send_task_success(taskToken=token, output="{}"), tokens))
    ended = {"stateMachineArn": machine.arn, "statusFilter": "SUCCEEDED", "maxResults": 1000}
    wait_until(lambda: len(client.list_executions(**ended)["executions"]) == 200)


def cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100

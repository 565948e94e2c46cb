"""The Amazon States Language as AWS reads it: paths, names of errors, and which errors are retried and caught."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.moto_patches.stepfunctions_language import quote_members
from tests.local.support import Inbox, Stack, wait_until

# Fails if its event says so, else returns a text of the requested length, or the number of earlier calls.
COUNTS = """
calls = []

def handler(event, context):
    calls.append(event)
    if event.get("fails"):
        raise ValueError("as requested")
    return "x" * event.get("much", 0) or len(calls) - 1
"""


class Runner:
    """Runs definitions whose states call one function."""

    def __init__(self, cloud: LocalCloud, stack: Stack) -> None:
        self._client = cloud.client("stepfunctions")
        self._name = stack.name
        self.function = stack.put({"F": stack.function(COUNTS)}, {"Name": {"Ref": "F"}})["Name"]

    def run(self, states: dict[str, Any], machine_input: object) -> dict[str, Any]:
        """Run the states from the first on; return the description of the ended execution."""
        machine = self._client.create_state_machine(
            name=self._name,
            definition=json.dumps({"StartAt": next(iter(states)), "States": states}),
            roleArn="arn:aws:iam::123456789012:role/r",
        )["stateMachineArn"]
        arn = self._client.start_execution(stateMachineArn=machine, input=json.dumps(machine_input))["executionArn"]
        return wait_until(lambda: (d := self._client.describe_execution(executionArn=arn))["status"] != "RUNNING" and d)

    def entered(self, arn: str) -> list[str]:
        """Return the names of the states that an execution entered."""
        events = self._client.get_execution_history(executionArn=arn)["events"]
        return [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]


@pytest.fixture
def runner(cloud: LocalCloud, stack: Stack) -> Runner:
    return Runner(cloud, stack)


def task(runner: Runner, payload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a state that calls the function, retries any error once, and catches any error."""
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": runner.function, "Payload": payload},
        "ResultSelector": {"calls.$": "$.Payload"},
        "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "MaxAttempts": 1}],
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}],
        "End": True,
        **fields,
    }


CAUGHT = {"Type": "Pass", "End": True}


@pytest.mark.parametrize("member", ["1a2b3-name-2b", "12345-p", "1e234-p", "abcde-p"])
def test_the_name_of_a_result_may_begin_with_any_character(runner: Runner, member: str) -> None:
    """Step Functions accepts `$.1a2b3-name.output`; definitions of other systems have such paths."""
    states = {
        "Call": task(runner, {}, ResultPath=f"$.{member}.output", End=False, Next="Read"),
        "Read": {"Type": "Pass", "Parameters": {"seen.$": f"$.{member}.output.calls", "kept.$": "$.kept"}, "End": True},
        "Caught": CAUGHT,
    }
    del states["Call"]["End"]
    ended = runner.run(states, {"kept": 1})
    assert json.loads(ended["output"]) == {"seen": 0, "kept": 1}


@pytest.mark.parametrize(
    ("path", "quoted"),
    [
        ("$.1a.output", "$['1a'].output"),
        ("$.a[0].2b[1:2].c", "$.a[0]['2b'][1:2].c"),
        ("$['a.1b'].c", "$['a.1b'].c"),
        ("$.items[?(@.price > 1.5)].1z", "$.items[?(@.price > 1.5)]['1z']"),
        ("$$.Execution.Name", "$$.Execution.Name"),
    ],
)
def test_only_members_that_begin_with_a_digit_are_quoted(path: str, quoted: str) -> None:
    assert quote_members(path) == quoted


@pytest.mark.parametrize("error", ["States.TaskFailed", "WorkflowFailed"])
def test_a_fail_state_reports_any_error(runner: Runner, error: str) -> None:
    """Step Functions accepts a reserved name too."""
    ended = runner.run({"Failed": {"Type": "Fail", "Error": error, "Cause": "a reason"}}, {})
    assert (ended["status"], ended["error"], ended["cause"]) == ("FAILED", error, "a reason")


def test_errors_of_a_task_are_retried_and_caught(runner: Runner) -> None:
    ended = runner.run({"Call": task(runner, {"fails": True}), "Caught": CAUGHT}, {})
    assert json.loads(ended["output"])["Error"] == "ValueError"


def test_an_error_at_runtime_is_neither_retried_nor_caught(runner: Runner) -> None:
    """Step Functions: "A retry or catch on States.ALL won't catch States.Runtime errors."."""
    states = {"Call": task(runner, {"missing.$": "$.not.there"}), "Caught": CAUGHT}
    ended = runner.run(states, {})
    assert (ended["status"], ended["error"]) == ("FAILED", "States.Runtime")
    assert runner.entered(ended["executionArn"]) == ["Call"]


@pytest.mark.parametrize("named", [False, True])
def test_a_data_limit_error_is_caught_by_its_own_name_alone(runner: Runner, named: bool) -> None:
    """Step Functions: States.ALL "can't catch the States.DataLimitExceeded terminal error"; its own name does."""
    catch = [{"ErrorEquals": ["States.DataLimitExceeded"], "Next": "Caught"}] if named else []
    call = task(runner, {"much": 300_000})
    call["Catch"] = [*catch, *call["Catch"]]
    ended = runner.run({"Call": call, "Caught": CAUGHT}, {})
    assert ended["status"] == ("SUCCEEDED" if named else "FAILED")
    assert runner.entered(ended["executionArn"]) == (["Call", "Caught"] if named else ["Call"])


def test_maps_in_a_map_have_slots_of_their_own(cloud: LocalCloud, runner: Runner, inbox: Inbox) -> None:
    """The state machine of runs rests on it: an item that nobody answers fills the slot of its own list alone."""
    s3, stepfunctions = cloud.client("s3"), cloud.client("stepfunctions")
    bucket = uuid.uuid4().hex
    s3.create_bucket(Bucket=bucket)
    for name in ("slow", "fast"):
        s3.put_object(Bucket=bucket, Key=name, Body=json.dumps([f"{name}-{number}" for number in range(3)]).encode())
    ask = {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": inbox.url, "MessageBody": {"token.$": "$$.Task.Token", "item.$": "$.item"}},
        "End": True,
    }
    items = {
        "Type": "Map",
        "ItemReader": {
            "Resource": "arn:aws:states:::s3:getObject",
            "ReaderConfig": {"InputType": "JSON"},
            "Parameters": {"Bucket": bucket, "Key.$": "$.list"},
        },
        "ItemSelector": {"item.$": "$$.Map.Item.Value"},
        "ItemProcessor": {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": "Ask",
            "States": {"Ask": ask},
        },
        "Label": "Items",
        "MaxConcurrencyPath": "$.slots",
        "End": True,
    }
    processor = {"ProcessorConfig": {"Mode": "INLINE"}, "StartAt": "Items", "States": {"Items": items}}
    each = {"Type": "Map", "ItemsPath": "$", "ItemProcessor": processor, "End": True}

    def answer(message: dict[str, str]) -> None:
        stepfunctions.send_task_success(taskToken=message["token"], output="1")

    with ThreadPoolExecutor(1) as pool:
        execution = pool.submit(runner.run, {"Each": each}, [{"list": name, "slots": 1} for name in ("slow", "fast")])
        asked: dict[str, dict[str, str]] = {}
        for _ in range(4):
            message = inbox.next()
            asked[message["item"]] = message
            if message["item"].startswith("fast"):
                answer(message)
        assert sorted(asked) == ["fast-0", "fast-1", "fast-2", "slow-0"]
        answer(asked["slow-0"])
        answer(inbox.next())
        answer(inbox.next())
        assert execution.result()["status"] == "SUCCEEDED"

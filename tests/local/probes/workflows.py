"""Probes of Step Functions."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

from cosmos_batch.local import recorded_calls
from tests.local.probes.registry import ROLE_ARN, ProbedCloud, error_code, probe, resource, unique, until

PASS = {"StartAt": "P", "States": {"P": {"Type": "Pass", "Result": "${Value}", "End": True}}}
CAUGHT = {"Type": "Pass", "Parameters": {"caught": True}, "End": True}


def _ended(cloud: ProbedCloud, arn: str) -> dict[str, Any]:
    client = cloud.client("stepfunctions")
    return until(lambda: (d := client.describe_execution(executionArn=arn))["status"] != "RUNNING" and d)


@probe("stepfunctions.machines-run")
def _machines(cloud: ProbedCloud) -> Any:
    """A machine of a template runs."""
    text = json.dumps(PASS)
    arn = cloud.stack().put_one(
        resource("AWS::StepFunctions::StateMachine", DefinitionString=text, RoleArn=ROLE_ARN, StateMachineName=unique())
    )
    started = cloud.client("stepfunctions").start_execution(stateMachineArn=arn)
    return _ended(cloud, started["executionArn"])["status"] == "SUCCEEDED"


@probe("stepfunctions.definitions-of-templates")
def _definitions(cloud: ProbedCloud) -> Any:
    properties = {"Definition": PASS, "DefinitionSubstitutions": {"Value": "put in"}, "RoleArn": ROLE_ARN}
    arn = cloud.stack().put_one(resource("AWS::StepFunctions::StateMachine", **properties, StateMachineName=unique()))
    definition = cloud.client("stepfunctions").describe_state_machine(stateMachineArn=arn)["definition"]
    return json.loads(definition)["States"]["P"]["Result"] == "put in"


@probe("stepfunctions.machine-arn")
def _machine_arn(cloud: ProbedCloud) -> Any:
    machine = resource(
        "AWS::StepFunctions::StateMachine",
        DefinitionString=json.dumps(PASS),
        RoleArn=ROLE_ARN,
        StateMachineName=unique(),
    )
    return ":stateMachine:" in cloud.stack().put_one(machine, "Arn")


class WaitingMachine:
    """A machine whose state sends its task token to a queue and waits."""

    def __init__(self, cloud: ProbedCloud, **fields: Any) -> None:
        self.cloud, self.client = cloud, cloud.client("stepfunctions")
        self.url = cloud.queue()
        state = {
            "Type": "Task",
            "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
            "Parameters": {"QueueUrl": self.url, "MessageBody": {"token.$": "$$.Task.Token"}},
            "TimeoutSeconds": 20,
            "End": True,
            **fields,
        }
        definition = json.dumps({"StartAt": "W", "States": {"W": state}})
        machine = self.client.create_state_machine(name=unique(), definition=definition, roleArn=ROLE_ARN)
        self.machine_arn = machine["stateMachineArn"]

    def start(self) -> tuple[str, str]:
        """Start an execution; return its ARN and the token for which it waits."""
        arn = self.client.start_execution(stateMachineArn=self.machine_arn)["executionArn"]
        return arn, self.token()

    def token(self) -> str:
        """Return the token of the next attempt."""
        sqs = self.cloud.client("sqs")
        [message] = sqs.receive_message(QueueUrl=self.url, WaitTimeSeconds=5)["Messages"]
        sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return json.loads(message["Body"])["token"]


@probe("stepfunctions.callbacks-are-checked")
def _callbacks(cloud: ProbedCloud) -> Any:
    machine = WaitingMachine(cloud)
    arn, token = machine.start()
    invalid = error_code(machine.client.send_task_success, taskToken=token, output="not JSON")
    machine.client.send_task_success(taskToken=token, output="{}")
    _ended(cloud, arn)
    late = error_code(machine.client.send_task_heartbeat, taskToken=token)
    return (invalid, late) == ("InvalidOutput", "TaskTimedOut")


@probe("stepfunctions.each-attempt-has-a-token")
def _tokens(cloud: ProbedCloud) -> Any:
    machine = WaitingMachine(cloud, Retry=[{"ErrorEquals": ["Again"], "IntervalSeconds": 1, "MaxAttempts": 1}])
    arn, first = machine.start()
    machine.client.send_task_failure(taskToken=first, error="Again")
    second = machine.token()
    machine.client.send_task_success(taskToken=second, output="{}")
    return _ended(cloud, arn)["status"] == "SUCCEEDED" and first != second


@probe("stepfunctions_executions.start-once")
def _start_once(cloud: ProbedCloud) -> Any:
    machine = WaitingMachine(cloud)
    start = {"stateMachineArn": machine.machine_arn, "input": "{}"}
    too_long = error_code(machine.client.start_execution, **start, name="n" * 81)
    with ThreadPoolExecutor(8) as threads:
        codes = list(threads.map(lambda _: error_code(machine.client.start_execution, **start, name="same"), range(8)))
    executions = machine.client.list_executions(stateMachineArn=machine.machine_arn)["executions"]
    for execution in executions:
        machine.client.stop_execution(executionArn=execution["executionArn"])
    return (too_long, set(codes), len(executions)) == ("InvalidName", {""}, 1)


@probe("stepfunctions_executions.status-changes-are-events")
def _status_events(cloud: ProbedCloud) -> Any:
    url = cloud.events_to_queue({"source": ["aws.states"], "detail": {"status": ["SUCCEEDED"]}})
    arn = cloud.run_machine({"P": {"Type": "Pass", "End": True}})["executionArn"]
    return arn in [event["detail"]["executionArn"] for event in cloud.received(url, 1)]


@probe("stepfunctions_executions.stop-ends-at-once")
def _stop(cloud: ProbedCloud) -> Any:
    machine = WaitingMachine(cloud)
    arn, _ = machine.start()
    machine.client.stop_execution(executionArn=arn, error="Cancelled", cause="by a person")
    described = machine.client.describe_execution(executionArn=arn)
    last = machine.client.get_execution_history(executionArn=arn)["events"][-1]
    return (described["status"], described.get("error"), last["type"]) == (
        "ABORTED",
        "Cancelled",
        "ExecutionAborted",
    )


@probe("stepfunctions_executions.descriptions-have-no-gaps")
def _descriptions(cloud: ProbedCloud) -> Any:
    """An execution whose status moto has not set yet is described as RUNNING."""
    from moto.stepfunctions.parser.backend.execution import Execution

    fresh = Execution.__new__(Execution)
    fresh.exec_status = None
    return fresh.status == "RUNNING"


@probe("stepfunctions_language.members-may-begin-with-a-digit")
def _digits(cloud: ProbedCloud) -> Any:
    states = {
        "Write": {"Type": "Pass", "Result": 1, "ResultPath": "$.1a2b-name.output", "Next": "Read"},
        "Read": {"Type": "Pass", "InputPath": "$.1a2b-name.output", "End": True},
    }
    return cloud.run_machine(states)["output"] == "1"


@probe("stepfunctions_language.fail-states-may-report-any-error")
def _reserved_errors(cloud: ProbedCloud) -> Any:
    return cloud.run_machine({"F": {"Type": "Fail", "Error": "States.TaskFailed"}})["error"] == "States.TaskFailed"


@probe("stepfunctions_language.all-does-not-match-every-error")
def _runtime_errors(cloud: ProbedCloud) -> Any:
    states = {
        "Call": {
            "Type": "Task",
            "Resource": "arn:aws:states:::sqs:sendMessage",
            "Parameters": {"QueueUrl.$": "$.missing", "MessageBody": "{}"},
            "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}],
            "End": True,
        },
        "Caught": CAUGHT,
    }
    return cloud.run_machine(states)["status"] == "FAILED"


@probe("stepfunctions_tasks.tasks-call-as-the-machine")
def _roles(cloud: ProbedCloud) -> Any:
    """A call of a state is made with the credentials of the machine's role, for which it is recorded."""
    role = f"arn:aws:iam::123456789012:role/{unique()}"
    cloud.run_machine(
        {
            "Call": {
                "Type": "Task",
                "Resource": "arn:aws:states:::sqs:sendMessage",
                "Credentials": {"RoleArn": role},
                "Parameters": {"QueueUrl": cloud.queue(), "MessageBody": "{}"},
                "End": True,
            }
        }
    )
    return role.rpartition("/")[2] in [call["role"] for call in recorded_calls.recorded()]


@probe("stepfunctions_tasks.definitions-are-parsed-once")
def _parsing(_: ProbedCloud) -> Any:
    return "_parse" in ExecutionWorker._get_evaluation_entrypoint.__code__.co_names


@probe("stepfunctions_tasks.integrations-use-the-api-casing")
def _casing(cloud: ProbedCloud) -> Any:
    """SQS answers with QueueUrls; the integration calls it so, and takes QueueNamePrefix."""
    cloud.queue()
    ended = cloud.run_machine(
        {
            "Call": {
                "Type": "Task",
                "Resource": "arn:aws:states:::aws-sdk:ecs:listClusters",
                "Parameters": {"MaxResults": 5},
                "End": True,
            }
        }
    )
    return ended["status"] == "SUCCEEDED" and "ClusterArns" in json.loads(ended["output"])


@probe("stepfunctions_tasks.refusals-of-lambda-have-names")
def _refusals(cloud: ProbedCloud) -> Any:
    arn = "arn:aws:lambda:us-east-1:123456789012:function:missing"
    ended = cloud.run_machine({"Call": {"Type": "Task", "Resource": arn, "End": True}})
    return ended["error"] == "Lambda.ResourceNotFoundException"


@probe("stepfunctions_language.percentages-may-be-whole")
def _whole_percentages(cloud: ProbedCloud) -> Any:
    """A Distributed Map over a list tolerates 100 % of failures."""
    ended = cloud.run_machine(
        {
            "Map": {
                "Type": "Map",
                "ItemsPath": "$.items",
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
                    "StartAt": "P",
                    "States": {"P": {"Type": "Pass", "End": True}},
                },
                "ToleratedFailurePercentage": 100,
                "End": True,
            }
        },
        {"items": [1, 2]},
    )
    return ended["status"] == "SUCCEEDED" and json.loads(ended["output"]) == [1, 2]

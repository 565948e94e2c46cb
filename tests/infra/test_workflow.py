"""The definition of the state machine, as Step Functions reads it."""

import json
import time
from typing import Any

import boto3
import pytest
from moto import mock_aws

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.vams import MARGIN_SECONDS
from infra.constructs.workflow import LONGEST_PAUSE, SQS_ATTEMPTS
from tests.infra.assembly import Assembly, resolve

States = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def definition(assembly: Assembly) -> dict[str, Any]:
    machine = assembly.one("Pipelines", "StepFunctions::StateMachine")
    content: dict[str, Any] = json.loads(resolve(machine["DefinitionString"]))
    return content


@pytest.fixture(scope="module")
def states(definition: dict[str, Any]) -> States:
    states: States = definition["States"]
    return states


def test_it_is_a_standard_machine_whose_log_holds_no_data(assembly: Assembly) -> None:
    machine = assembly.one("Pipelines", "StepFunctions::StateMachine")
    assert machine["StateMachineType"] == "STANDARD"
    assert machine["LoggingConfiguration"]["IncludeExecutionData"] is False
    assert machine["LoggingConfiguration"]["Level"] == "ALL"


def test_its_log_group_needs_no_entry_in_the_account_wide_resource_policy(assembly: Assembly) -> None:
    """The log group of an earlier deployment is kept, with its logs."""
    (log,) = [
        log_group
        for name, log_group in assembly.resources("Pipelines", "Logs::LogGroup").items()
        if name.startswith("WorkflowLog")
    ]
    assert log["Properties"]["LogGroupName"] == "/aws/vendedlogs/states/CosmosBatch-Pipelines-Workflow"
    assert (log["DeletionPolicy"], log["UpdateReplacePolicy"]) == ("Delete", "Retain")
    destination = json.dumps(assembly.one("Pipelines", "StepFunctions::StateMachine")["LoggingConfiguration"])
    assert "WorkflowLog" in destination


DEADLINE_AND_A_DAY = (72 + 24) * 3600


def test_the_state_machine_times_out_after_the_longest_run(definition: dict[str, Any]) -> None:
    assert definition["TimeoutSeconds"] == 90 * 24 * 3600


def test_plan_gets_the_request_and_the_execution(definition: dict[str, Any], states: States) -> None:
    assert definition["StartAt"] == "IsItARun"
    assert states["IsItARun"]["Default"] == "Plan"
    assert states["Plan"]["Parameters"] == {
        "request.$": "$$.Execution.Input",
        "execution": {
            "id.$": "$$.Execution.Id",
            "name.$": "$$.Execution.Name",
            "startTime.$": "$$.Execution.StartTime",
        },
        "schemaVersion": 4,
    }
    assert states["Plan"]["Next"] == "Enqueue"


PATIENT = {
    "IntervalSeconds": 2,
    "BackoffRate": 2,
    "MaxAttempts": 2304,
    "MaxDelaySeconds": 300,
    "JitterStrategy": "FULL",
}


def test_plan_is_tried_again_whatever_happened_unless_it_refused(states: States) -> None:
    refused, passing, anything = states["Plan"]["Retry"]
    assert refused == {"ErrorEquals": [Failure.__name__], "MaxAttempts": 0}
    assert "Lambda.TooManyRequestsException" in passing["ErrorEquals"]
    assert {key: passing[key] for key in PATIENT} == PATIENT
    assert anything == {**PATIENT, "ErrorEquals": ["States.ALL"], "MaxAttempts": 6}


@pytest.mark.parametrize("state", ["Report", "ReportError"])
def test_report_is_tried_again_until_a_day_after_the_longest_deadline(states: States, state: str) -> None:
    [retry] = states[state]["Retry"]
    assert retry == {**PATIENT, "ErrorEquals": ["States.ALL"]}
    # With full jitter a pause is half of its limit on average.
    assert retry["MaxAttempts"] * retry["MaxDelaySeconds"] / 2 >= DEADLINE_AND_A_DAY


def test_the_message_waits_with_the_task_token_until_the_deadline_that_plan_set(states: States) -> None:
    enqueue = states["Enqueue"]
    assert enqueue["Resource"].endswith(":states:::sqs:sendMessage.waitForTaskToken")
    assert enqueue["Parameters"] == {
        "QueueUrl.$": "$.queueUrl",
        "MessageGroupId.$": "$.messageGroup",
        "MessageBody": {"schemaVersion": 4, "taskToken.$": "$$.Task.Token", "job.$": "$.job"},
    }
    assert enqueue["TimeoutSecondsPath"] == "$.timeoutSeconds"
    assert enqueue["HeartbeatSecondsPath"] == "$.heartbeatSeconds"
    assert enqueue["Next"] == "Report"


def test_a_message_that_sqs_does_not_take_is_sent_again_and_an_answer_of_a_worker_is_not(states: States) -> None:
    [retry] = states["Enqueue"]["Retry"]
    names = ["SQS.SdkClientException", "SQS.AmazonSQSException"]
    assert retry == {**PATIENT, "ErrorEquals": names, "MaxAttempts": SQS_ATTEMPTS}
    assert states["Enqueue"]["Catch"][1] == {"ErrorEquals": names, "ResultPath": "$", "Next": "MaySqsTakeItLater"}


def test_sqs_is_not_tried_for_longer_than_vams_waits_after_a_deadline() -> None:
    pauses = [min(2.0 * 2**attempt, LONGEST_PAUSE.to_seconds()) for attempt in range(SQS_ATTEMPTS)]
    assert sum(pauses) < MARGIN_SECONDS


def end_of(states: States, first: str, machine_input: dict[str, Any]) -> str:
    """Run the states from `first` on with moto, and return which of the two ways out they take."""
    names = ("BeforePlanningAgain", "ReportError")
    ways = {name: {"Type": "Pass", "Result": {"way": name}, "End": True} for name in names}
    own = {name: states[name] for name in ("Enqueue", "MaySqsTakeItLater")} | ways
    own["Enqueue"] = {**own["Enqueue"], "Next": "ReportError", "Retry": []}
    definition = json.dumps({"StartAt": first, "States": own})
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        client = boto3.client("stepfunctions", region_name="us-east-1")
        role = "arn:aws:iam::123456789012:role/machine"
        arn = client.create_state_machine(name="m", definition=definition, roleArn=role)["stateMachineArn"]
        execution = client.start_execution(stateMachineArn=arn, input=json.dumps(machine_input))["executionArn"]
        while (described := client.describe_execution(executionArn=execution))["status"] == "RUNNING":
            time.sleep(0.01)
    assert described["status"] == "SUCCEEDED"
    way: str = json.loads(described["output"])["way"]
    return way


NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"
SDK = "(Service: AmazonSQS; Status Code: {}; Error Code: {}; Request ID: 0; Proxy: null)"


@pytest.mark.parametrize(
    ("error", "way"),
    [
        ({"Error": "SQS.SdkClientException"}, "BeforePlanningAgain"),
        ({"Error": "SQS.AmazonSQSException", "Cause": SDK.format(503, "Unavailable")}, "BeforePlanningAgain"),
        ({"Error": "SQS.AmazonSQSException", "Cause": SDK.format(403, "RequestThrottled")}, "BeforePlanningAgain"),
        ({"Error": "SQS.AmazonSQSException", "Cause": SDK.format(400, "ThrottlingException")}, "BeforePlanningAgain"),
        ({"Error": "SQS.AmazonSQSException", "Cause": SDK.format(400, NO_QUEUE)}, "BeforePlanningAgain"),
        ({"Error": "SQS.AmazonSQSException", "Cause": SDK.format(403, "AccessDenied")}, "ReportError"),
        ({"Error": "SQS.AmazonSQSException"}, "ReportError"),
    ],
)
def test_after_a_fault_of_sqs_that_passes_a_job_is_planned_again_and_a_refusal_is_reported(
    states: States, error: dict[str, str], way: str
) -> None:
    assert end_of(states, "MaySqsTakeItLater", error) == way


def test_the_error_of_a_message_that_sqs_does_not_take_has_the_name_that_is_caught(states: States) -> None:
    """Moto calls every answer of SQS that is an error SQS.SdkClientException."""
    queue = "https://sqs.us-east-1.amazonaws.com/123456789012/not-there"
    sending = {"queueUrl": queue, "messageGroup": "g", "job": {}, "timeoutSeconds": 60, "heartbeatSeconds": 59}
    assert end_of(states, "Enqueue", sending) == "BeforePlanningAgain"


@pytest.mark.parametrize("state", ["Plan", "Enqueue"])
def test_every_error_is_reported(states: States, state: str) -> None:
    assert states[state]["Catch"][-1] == {"ErrorEquals": ["States.ALL"], "ResultPath": "$", "Next": "ReportError"}


def test_a_job_that_no_deployed_worker_takes_is_planned_again_after_a_pause(states: States) -> None:
    assert states["Enqueue"]["Catch"][0] == {
        "ErrorEquals": ["PlanAgain"],
        "ResultPath": None,
        "Next": "BeforePlanningAgain",
    }
    assert states["BeforePlanningAgain"] == {"Type": "Wait", "Seconds": 5, "Next": "Plan"}


@pytest.mark.parametrize(("state", "what"), [("Report", "result.$"), ("ReportError", "error.$")])
def test_report_gets_the_execution_and_its_end(states: States, state: str, what: str) -> None:
    execution = dict(states["Plan"]["Parameters"]["execution"])
    if state == "ReportError":
        execution["input.$"] = "$$.Execution.Input"
    assert states[state]["Parameters"] == {"execution": execution, what: "$"}


def test_an_execution_ends_with_the_result_or_the_error_of_its_job(states: States) -> None:
    assert states["Report"]["ResultPath"] is None, "the result stays the output"
    assert states["Report"]["Next"] == "Succeeded"
    assert states["Succeeded"]["Type"] == "Succeed"
    assert states["ReportError"]["Next"] == "HasItFailed"
    assert states["HasItFailed"] == {
        "Type": "Choice",
        "Choices": [{"Variable": "$.error", "IsNull": True, "Next": "SucceededBeforeTheError"}],
        "Default": "Failed",
    }
    assert states["SucceededBeforeTheError"] == {"Type": "Succeed", "OutputPath": "$.result"}
    assert states["Failed"] == {"Type": "Fail", "ErrorPath": "$.error", "CausePath": "$.cause"}


def test_a_run_is_prepared_its_shards_are_fed_and_it_is_finished_whatever_fails(states: States) -> None:
    assert states["IsItARun"]["Choices"] == [{"Variable": "$.run", "IsPresent": True, "Next": "PrepareRun"}]
    assert (states["PrepareRun"]["Next"], states["EachPipeline"]["Next"]) == ("EachPipeline", "FinishRun")
    for name in ("PrepareRun", "EachPipeline"):
        assert states[name]["Catch"] == [{"ErrorEquals": ["States.ALL"], "ResultPath": "$", "Next": "FinishFailedRun"}]


def shards_of(states: States) -> dict[str, Any]:
    """Return the Distributed Map, of which each pipeline of a run has its own."""
    pipelines = states["EachPipeline"]
    assert (pipelines["ItemsPath"], pipelines["ItemProcessor"]["ProcessorConfig"]) == (
        "$.pipelines",
        {"Mode": "INLINE"},
    )
    shards: dict[str, Any] = pipelines["ItemProcessor"]["States"]["Shards"]
    return shards


def test_a_failed_shard_does_not_fail_its_run(states: States) -> None:
    shards = shards_of(states)
    assert shards["ItemProcessor"]["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
    assert (shards["ToleratedFailurePercentage"], shards["MaxConcurrencyPath"]) == (100, "$.maxConcurrency")
    assert shards["ItemReader"]["Parameters"]["Key.$"] == "$.key"
    fed = shards["ItemProcessor"]["States"]["Feed"]
    assert fed["Resource"].endswith(":states:::lambda:invoke.waitForTaskToken")
    assert fed["Parameters"]["Payload"]["token.$"] == "$$.Task.Token"
    assert (fed["Next"], fed["Catch"][0]["Next"]) == ("Collect", "CollectBroken")
    assert fed["TimeoutSeconds"] == 10 * 24 * 3600


def test_throttled_functions_of_a_run_are_called_for_days_before_any_item_fails_for_it(states: States) -> None:
    shard = shards_of(states)["ItemProcessor"]["States"]
    calls = [states[name] for name in ("PrepareRun", "FinishRun", "FinishFailedRun")]
    for call in (*calls, shard["Feed"], shard["Collect"], shard["CollectBroken"]):
        *_, passing, anything = call["Retry"]
        assert "Lambda.TooManyRequestsException" in passing["ErrorEquals"]
        assert passing["MaxAttempts"] * passing["MaxDelaySeconds"] / 2 >= 3 * 24 * 3600
        assert (anything["ErrorEquals"], anything["MaxAttempts"]) == (["States.ALL"], 8)
    assert shards_of(states)["Retry"][0]["ErrorEquals"] == ["States.ItemReaderFailed"]


def test_the_machine_reads_no_other_object_than_the_lists_of_shards(assembly: Assembly) -> None:
    policies = json.dumps(assembly.resources("Pipelines", "IAM::Policy"))
    assert "/runs/*/shards*.json" in policies

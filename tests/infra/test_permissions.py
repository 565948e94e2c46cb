"""Each role does what it needs, on what it needs it for."""

import json

import pytest

from tests.infra.assembly import Assembly, Resource, resolve

# What every function has: its log, and its traces.
LOG = {"logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTraceSegments", "xray:PutTelemetryRecords"}
READ_FILES = {"s3:ListBucket", "s3:GetObject", "s3:GetObjectVersion"}
CONSUME = {  # what Lambda's own poller needs
    "sqs:ReceiveMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueUrl",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
}
ACTIONS = {
    "FunctionsUpload": LOG
    | READ_FILES
    | CONSUME
    | {"s3:GetObjectTagging", "s3:GetObjectVersionTagging", "s3:PutObject", "dynamodb:GetItem", "sqs:SendMessage"}
    | {"states:StartExecution", "states:DescribeExecution", "states:StopExecution", "s3:ListBucketVersions"},
    "FunctionsVamscosmosreason22b": LOG
    | {"s3:PutObject", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
    | {"states:StartExecution", "states:SendTaskFailure"},
    "FunctionsPlan": LOG | READ_FILES | {"s3:PutObject", "dynamodb:GetItem", "dynamodb:PutItem", "sqs:SendMessage"},
    "FunctionsReport": LOG
    | CONSUME
    | {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "events:PutEvents"}
    | {"states:SendTaskSuccess", "states:SendTaskFailure"},
    "FunctionsScale": LOG
    | CONSUME
    | {"sqs:SendMessage", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem", "states:SendTaskFailure"}
    | {"batch:DescribeJobs", "batch:DescribeJobQueues", "batch:DescribeComputeEnvironments"}
    | {"batch:SubmitJob", "batch:TagResource", "batch:TerminateJob"},
    "FunctionsDeadLetter": LOG | CONSUME | {"dynamodb:GetItem", "dynamodb:UpdateItem", "states:SendTaskFailure"},
    "cosmosreason22bWorkerRole": READ_FILES
    | {"s3:PutObject", "s3:DeleteObject", "dynamodb:GetItem", "dynamodb:UpdateItem"}
    | {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "secretsmanager:GetSecretValue"}
    | {"elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"}
    | {"states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat"},
}
# AWS has no resource-level permission for these.
WITHOUT_RESOURCE = {
    "batch:DescribeJobs",
    "batch:DescribeJobQueues",
    "batch:DescribeComputeEnvironments",
    "ecr:GetAuthorizationToken",
    "logs:CreateLogDelivery",
    "logs:GetLogDelivery",
    "logs:UpdateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:DescribeResourcePolicies",
    "logs:DescribeLogGroups",
    "xray:PutTraceSegments",
    "xray:PutTelemetryRecords",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
}


def listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def resources_of(statements: list[Resource], action: str) -> list[str]:
    """As texts, every resource that the statements allow an action on."""
    return [
        json.dumps(resource)
        for statement in statements
        if action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    ]


@pytest.mark.parametrize("role", ACTIONS)
def test_a_role_has_these_actions_and_no_other(assembly: Assembly, role: str) -> None:
    found = {action for statement in assembly.statements(role) for action in listed(statement["Action"])}
    assert found == ACTIONS[role]


def test_every_resource_is_named_where_aws_lets_one_name_it(assembly: Assembly) -> None:
    for statement in assembly.statements(""):
        if "*" in listed(statement["Resource"]):
            assert set(listed(statement["Action"])) <= WITHOUT_RESOURCE


def test_no_action_is_a_wildcard(assembly: Assembly) -> None:
    assert not [one for one in assembly.statements("") if "*" in json.dumps(one["Action"])]


def test_hosts_alone_have_a_policy_of_aws(assembly: Assembly) -> None:
    roles = assembly.resources("Pipelines", "IAM::Role")
    managed = {name for name, role in roles.items() if "ManagedPolicyArns" in role["Properties"]}
    assert len(managed) == 1 and "HostsRole" in next(iter(managed))


@pytest.mark.parametrize("role", ["FunctionsReport", "FunctionsVams"])
def test_vams_is_called_back_by_report_and_vams(assembly: Assembly, role: str) -> None:
    (machines,) = set(resources_of(assembly.statements(role), "states:SendTaskFailure"))
    assert ":stateMachine:vams-*" in machines


@pytest.mark.parametrize("role", ["WorkerRole", "FunctionsScale", "FunctionsDeadLetter"])
def test_others_answer_our_own_tasks_only(assembly: Assembly, role: str) -> None:
    (machine,) = assembly.resources("Pipelines", "StepFunctions::StateMachine")
    found = set(resources_of(assembly.statements(role), "states:SendTaskFailure"))
    assert found == {json.dumps({"Ref": machine})}


def test_a_worker_touches_its_own_model_only(assembly: Assembly) -> None:
    for pipeline, model in (("22b", "2B"), ("28b", "8B")):
        statements = assembly.statements(f"cosmosreason{pipeline}WorkerRole")
        (models,) = resources_of(statements, "s3:DeleteObject")
        assert f"/models/nvidia--Cosmos-Reason2-{model}/*" in models
        conditions = [one["Condition"] for one in statements if "s3:prefix" in json.dumps(one.get("Condition"))]
        assert conditions == [{"StringLike": {"s3:prefix": f"models/nvidia--Cosmos-Reason2-{model}/*"}}]


def test_a_worker_takes_from_its_own_queue_only(assembly: Assembly) -> None:
    (queue,) = resources_of(assembly.statements("cosmosreason22bWorkerRole"), "sqs:ReceiveMessage")
    assert "cosmosreason22bJobsQueue" in queue


def test_a_worker_reads_requests_and_writes_attempts(assembly: Assembly) -> None:
    statements = assembly.statements("cosmosreason22bWorkerRole")
    readable = [place for place in resources_of(statements, "s3:GetObject") if "State" in place]
    writable = [place for place in resources_of(statements, "s3:PutObject") if "State" in place]
    assert len(readable) == 2 and any("/requests/*" in place for place in readable)
    assert len(writable) == 1 and "/jobs/*" in writable[0]


def test_a_worker_mounts_through_its_access_point_only(assembly: Assembly) -> None:
    (statement,) = [one for one in assembly.statements("cosmosreason22bWorkerRole") if "elasticfile" in json.dumps(one)]
    assert "elasticfilesystem:AccessPointArn" in statement["Condition"]["StringEquals"]


def test_no_partition_is_taken_for_granted(assembly: Assembly) -> None:
    for template in assembly.templates.values():
        assert "arn:aws:" not in json.dumps(template)


def test_names_that_stand_for_resources_are_not_lost_by_resolving() -> None:
    assert resolve({"Fn::Join": ["", ["a", {"Ref": "B"}]]}) == "a" + resolve({"Ref": "B"})
    assert resolve({"Ref": "B"}) != resolve({"Ref": "C"})

"""Each role has exactly the permissions that it needs, each for a resource."""

import json
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache

import pytest

from cosmos_batch.planning.configuration import parse_config
from infra.synth import synthesize
from tests.infra.assembly import STACKS, Assembly, Resource, resolve
from tests.infra.deployed import Deployed
from tests.infra.examples import FOLDER, NAMES, example

MANAGED_POLICY = 6144  # characters of a managed policy that IAM takes
KEY = "arn:aws:kms:us-east-1:123456789012:key/01234567-89ab-cdef-0123-4567890abc"

# What every function has: its log, and its traces.
LOG = {"logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTraceSegments", "xray:PutTelemetryRecords"}
READ_FILES = {"s3:ListBucket", "s3:GetObject", "s3:GetObjectVersion"}
READ_ASSET = {"s3:GetObject*", "s3:GetBucket*", "s3:List*"}  # CDK's grant, of the one object
CONSUME = {  # what Lambda's own poller needs
    "sqs:ReceiveMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueUrl",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
}
PULL = {
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:GetDownloadUrlForLayer",
    "ecr:GetAuthorizationToken",
}
# What became of the items of a run, and the tables in which that is written.
COLLECT = {"s3:ListBucket", "s3:GetObject", "s3:PutObject", "states:SendTaskSuccess"}
COLLECT |= {"dynamodb:GetItem", "dynamodb:UpdateItem"}
EXAMPLES = ["everything", "vams", "existing-vpc"]  # together they have every role
# Those that each pipeline or image has for itself stand here once.
ACTIONS = {
    "FunctionsUpload": LOG
    | READ_FILES
    | CONSUME
    | {"s3:GetObjectTagging", "s3:GetObjectVersionTagging", "s3:PutObject", "dynamodb:GetItem", "sqs:SendMessage"}
    | {"states:StartExecution", "states:DescribeExecution", "states:StopExecution", "s3:ListBucketVersions"},
    "FunctionsVams": LOG
    | {"s3:GetObject", "s3:PutObject", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
    | {"states:StartExecution", "states:SendTaskSuccess", "states:SendTaskFailure"},
    "FunctionsRegisterVams": LOG | {"lambda:InvokeFunction"},
    "FunctionsPlan": LOG
    | READ_FILES
    | {"s3:PutObject", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
    | {"sqs:SendMessage", "ssm:GetParameters"},
    "FunctionsReport": LOG
    | CONSUME
    | {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "events:PutEvents"}
    | {"s3:PutObject"}  # documents of errors: beside an upload, and among the results of several files of VAMS
    | {"states:SendTaskSuccess", "states:SendTaskFailure"},
    "FunctionsScale": LOG
    | CONSUME
    | {"sqs:SendMessage", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem", "s3:GetObject"}
    | {"states:SendTaskFailure", "states:SendTaskSuccess"}
    | {"batch:DescribeJobs", "batch:DescribeJobQueues", "batch:DescribeComputeEnvironments"}
    | {"batch:SubmitJob", "batch:TagResource", "batch:TerminateJob", "ssm:GetParameters"},
    "FunctionsDeadLetter": LOG
    | CONSUME
    | {"dynamodb:GetItem", "dynamodb:UpdateItem", "states:SendTaskFailure", "states:SendTaskSuccess"},
    # Its rights on a queue are in the queue's policy.
    "FunctionsCloseQueue": LOG
    | {"batch:TerminateJob", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"}
    | {"states:SendTaskFailure", "states:SendTaskSuccess"},
    "FunctionsPrepareRun": LOG
    | {"s3:ListBucket", "s3:GetObject", "s3:PutObject", "ssm:GetParameters"}
    | {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
    "FunctionsFeed": LOG
    | READ_FILES
    | {"s3:PutObject", "sqs:SendMessage", "ssm:GetParameters", "states:SendTaskFailure", "states:SendTaskSuccess"}
    | {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
    "FunctionsCollect": LOG | COLLECT,
    "FunctionsFinishRun": LOG
    | CONSUME
    | COLLECT
    | {"dynamodb:DeleteItem", "dynamodb:Query", "events:PutEvents", "states:SendTaskFailure"},
    "WorkflowMachine": {"lambda:InvokeFunction", "sqs:SendMessage", "xray:PutTraceSegments", "s3:GetObject"}
    # What a Distributed Map needs: its children are executions of the same machine.
    | {"states:StartExecution", "states:DescribeExecution", "states:StopExecution", "states:RedriveExecution"}
    | {"xray:PutTelemetryRecords", "xray:GetSamplingRules", "xray:GetSamplingTargets"}
    | {"logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery", "logs:DeleteLogDelivery"}
    | {"logs:ListLogDeliveries", "logs:PutResourcePolicy", "logs:DescribeResourcePolicies", "logs:DescribeLogGroups"},
    "Worker": READ_FILES
    | {"s3:PutObject", "s3:DeleteObject", "dynamodb:GetItem", "dynamodb:UpdateItem"}
    | {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "secretsmanager:GetSecretValue"}
    | {"elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"}
    | {"states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat"},
    "WorkerContainerExecution": PULL | {"logs:CreateLogStream", "logs:PutLogEvents"},
    "Hosts": set(),
    "BuildsFunctionsImageBuild": {"logs:CreateLogStream", "logs:PutLogEvents", "logs:GetLogEvents"}
    | {"codebuild:StartBuild", "codebuild:BatchGetBuilds", "ecr:DescribeImages"},
    "BuildProject": PULL
    | {"ecr:InitiateLayerUpload", "ecr:UploadLayerPart", "ecr:CompleteLayerUpload", "ecr:PutImage"}
    | {"ecr:DescribeImages", "logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"}
    | {"ec2:CreateNetworkInterface", "ec2:CreateNetworkInterfacePermission", "ec2:DeleteNetworkInterface"}
    | {"ec2:DescribeDhcpOptions", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups"}
    | {"ec2:DescribeSubnets", "ec2:DescribeVpcs"}
    | READ_ASSET,
    "BucketNotificationsHandler050a0587b7544547bf325f094a3db834": {
        "s3:GetBucketNotification",
        "s3:PutBucketNotification",
    },
}
# What 2.6 of VAMS asks for: requests that lie in its buckets, executions that are registered on its bus.
WITH_VAMS = {"FunctionsVams": READ_FILES | {"events:PutEvents"}}
# AWS has no resource-level permission for these.
WITHOUT_RESOURCE = {
    "batch:DescribeJobs",
    "batch:DescribeJobDefinitions",
    "batch:DescribeJobQueues",
    "batch:DescribeComputeEnvironments",
    "cloudformation:DescribeStacks",  # it has, but not for a search among all stacks
    "ec2:DescribeInstanceTypeOfferings",
    "servicequotas:GetServiceQuota",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
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
    """Return as texts all resources on which the statements allow an action."""
    return [
        json.dumps(resource)
        for statement in statements
        if action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    ]


def kind_of(role: str) -> str:
    """Return the kind of role that a logical id names, such as `Worker` for `cosmosreason22bWorkerRole4BCBEA66`."""
    name = re.sub(r"Role[0-9A-F]{8}$", "", role)
    return re.sub(r"cosmos[a-z0-9]+|^[A-Z][a-z]+(?=BuildProject$)", "", name)


def found_actions(name: str) -> dict[str, set[object]]:
    """Return the allowed actions of each role of an example."""
    return {
        role: {action for statement in statements for action in listed(statement["Action"])}
        for role, statements in example(name).roles().items()
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_role_has_these_actions_and_no_other(name: str) -> None:
    for role, actions in found_actions(name).items():
        kind = kind_of(role)
        assert actions == ACTIONS[kind] | (WITH_VAMS.get(kind, set()) if name == "vams" else set()), role


def test_every_role_is_listed_and_every_listed_role_is_there() -> None:
    assert {kind_of(role) for name in EXAMPLES for role in found_actions(name)} == ACTIONS.keys()


@pytest.mark.parametrize("name", NAMES)
def test_no_example_has_a_role_that_is_not_listed(name: str) -> None:
    assert {kind_of(role) for role in example(name).roles()} <= ACTIONS.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_resource_is_named_where_aws_lets_one_name_it(name: str) -> None:
    for statement in [*example(name).statements(""), *statements_for_people(name)]:
        if "*" in listed(statement["Resource"]):
            assert set(listed(statement["Action"])) <= WITHOUT_RESOURCE


def statements_for_people(name: str) -> list[Resource]:
    """Return the statements of the managed policies, which `tests/e2e/test_policies_for_people.py` compares."""
    policies = example(name).properties("Pipelines", "IAM::ManagedPolicy", "People")
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


def test_the_policies_for_people_are_attached_to_nobody() -> None:
    viewer, operator = example("everything").properties("Pipelines", "IAM::ManagedPolicy", "People")
    assert not {"Users", "Groups", "Roles"} & (viewer.keys() | operator.keys())
    assert not [one for one in statements_for_people("everything") if "*" in json.dumps(one["Action"])]


@pytest.fixture(scope="module")
def adopting(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Assembly]:
    """Return a function that returns the app with all pipelines and adopted buckets, each with a key of its own."""

    @cache
    def synthesized(count: int) -> Assembly:
        config = json.loads((FOLDER / "everything.json").read_text(encoding="utf-8"))
        buckets = [
            {"name": f"media-of-a-department-{number}", "prefix": f"videos-{number}/", "kmsKeyArn": f"{KEY}{number:02}"}
            for number in range(count)
        ]
        config["app"]["cosmosBatch"] = {"storage": {"assetBuckets": buckets}}
        folder = tmp_path_factory.mktemp("adopting")
        return Assembly(synthesize(parse_config(json.dumps(config)), folder / "cdk.out"))

    return synthesized


def documents_for_people(assembly: Assembly, name: str) -> list[Resource]:
    """Return the documents of the viewer's or the operator's policies, as IAM reads them."""
    deployed = Deployed({f"CosmosBatch-{stack}": template for stack, template in assembly.templates.items()})
    policies = assembly.properties("Pipelines", "IAM::ManagedPolicy", f"People{name}")
    return [deployed.document("CosmosBatch-Pipelines", policy["PolicyDocument"]) for policy in policies]


@pytest.mark.parametrize("buckets", [pytest.param(5, marks=pytest.mark.slow), 30])
@pytest.mark.parametrize("name", ["Viewer", "Operator"])
def test_the_policies_for_people_are_as_long_as_iam_takes_with_all_pipelines(
    adopting: Callable[[int], Assembly], name: str, buckets: int
) -> None:
    documents = documents_for_people(adopting(buckets), name)
    assert max(len(json.dumps(document, separators=(",", ":"))) for document in documents) <= MANAGED_POLICY
    outputs = [one for one in adopting(buckets).templates["Pipelines"]["Outputs"] if one.startswith(f"{name}PolicyArn")]
    assert len(outputs) == len(documents)


@pytest.mark.slow
def test_with_five_buckets_of_others_an_operator_needs_one_policy(adopting: Callable[[int], Assembly]) -> None:
    """A person who has it already would lose what an update moves into another policy."""
    assert len(documents_for_people(adopting(5), "Operator")) == 1


def test_the_policies_of_an_operator_allow_to_use_every_bucket(adopting: Callable[[int], Assembly]) -> None:
    granted = {
        (action, resource)
        for document in documents_for_people(adopting(30), "Operator")
        for statement in document["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }
    for number in range(30):
        bucket = f"arn:aws:s3:::media-of-a-department-{number}"
        assert {
            ("s3:ListBucket", bucket),
            ("s3:GetObject", f"{bucket}/videos-{number}/*"),
            ("s3:PutObject", f"{bucket}/videos-{number}/uploads/*"),
            ("kms:Decrypt", f"{KEY}{number:02}"),
            ("kms:GenerateDataKey", f"{KEY}{number:02}"),
        } <= granted


@pytest.mark.parametrize("name", NAMES)
def test_people_may_read_the_logs_of_workers_and_no_other_logs(name: str) -> None:
    deployed = Deployed({f"CosmosBatch-{stack}": template for stack, template in example(name).templates.items()})
    document = deployed.document("CosmosBatch-Pipelines", statements_for_people(name))
    (pattern,) = {one["Resource"] for one in document if one["Action"] == "logs:GetLogEvents"}
    logs = example(name).resources("Pipelines", "Logs::LogGroup")
    readable = {log for log in logs if fnmatchcase(deployed.text("CosmosBatch-Pipelines", arn_of(log)), pattern)}
    definitions = example(name).properties("Pipelines", "Batch::JobDefinition")
    options = [one["ContainerProperties"]["LogConfiguration"]["Options"] for one in definitions]
    assert readable == {option["awslogs-group"]["Ref"] for option in options}


def arn_of(resource: str) -> Resource:
    return {"Fn::GetAtt": [resource, "Arn"]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_action_is_a_wildcard_but_for_cdks_grant_of_an_asset(name: str) -> None:
    for statement in example(name).statements(""):
        if "*" in json.dumps(statement["Action"]):
            assert set(listed(statement["Action"])) == READ_ASSET
            assert not [resource for resource in listed(statement["Resource"]) if "*" in json.dumps(resource)]


def test_hosts_and_cdks_function_alone_have_a_policy_of_aws() -> None:
    roles = {
        role: one for stack in STACKS for role, one in example("existing-vpc").resources(stack, "IAM::Role").items()
    }
    managed = {kind_of(role) for role, one in roles.items() if "ManagedPolicyArns" in one["Properties"]}
    assert managed == {"Hosts", "BucketNotificationsHandler050a0587b7544547bf325f094a3db834"}
    assert not [role for role, one in roles.items() if "Policies" in one["Properties"]]


@pytest.mark.parametrize("role", ["FunctionsReport", "FunctionsVams"])
def test_vams_is_called_back_by_report_and_vams(assembly: Assembly, role: str) -> None:
    (machines,) = set(resources_of(assembly.statements(role), "states:SendTaskFailure"))
    assert ":stateMachine:vams-*" in machines


def test_a_function_that_feeds_has_shards_fed_later_and_nothing_else(assembly: Assembly) -> None:
    (machine,) = assembly.resources("Pipelines", "StepFunctions::StateMachine")
    resources = resources_of(assembly.statements("FunctionsFeed"), "states:SendTaskFailure")
    own, shards = {"Ref": machine}, {"Fn::Join": ["", [{"Ref": machine}, "/Shards"]]}
    assert {*resources} == {json.dumps(own), json.dumps(shards)}


@pytest.mark.parametrize("role", ["WorkerRole", "FunctionsScale", "FunctionsDeadLetter"])
def test_others_answer_our_own_tasks_only(assembly: Assembly, role: str) -> None:
    (machine,) = assembly.resources("Pipelines", "StepFunctions::StateMachine")
    resources = set(resources_of(assembly.statements(role), "states:SendTaskFailure"))
    shards = {"Fn::Join": ["", [{"Ref": machine}, "/Shards"]]}
    # A worker has the items of a shard planned again.
    assert resources == {json.dumps({"Ref": machine}), *([json.dumps(shards)] if role == "WorkerRole" else [])}


def test_a_worker_touches_its_own_model_only(assembly: Assembly) -> None:
    for pipeline, model in (("22b", "2B"), ("28b", "8B")):
        statements = assembly.statements(f"cosmosreason{pipeline}WorkerRole")
        (models,) = resources_of(statements, "s3:DeleteObject")
        assert f"/models/nvidia--Cosmos-Reason2-{model}/*" in models
        conditions = [
            statement["Condition"] for statement in statements if "s3:prefix" in json.dumps(statement.get("Condition"))
        ]
        prefixes = [f"models/nvidia--Cosmos-Reason2-{model}/*", f"caches/cosmos-reason2-{model.lower()}/*"]
        assert conditions == [{"StringLike": {"s3:prefix": prefix}} for prefix in prefixes]


@pytest.mark.parametrize("name", NAMES)
def test_compiled_code_is_written_only_by_the_workers_that_run_it(name: str) -> None:
    """Whoever may write compiled code decides what a worker executes."""
    writers: dict[str, list[str]] = {}
    for role, statements in example(name).roles().items():
        for statement in statements:
            if re.search(r'"s3:(Put|Delete|\*)|"\*"', json.dumps(statement["Action"])):
                for place in map(json.dumps, listed(statement["Resource"])):
                    if "GetAttModels" in place and not re.search(r'"/models/(nvidia|Qwen)--[\w.-]+/\*"', place):
                        writers.setdefault(place, []).append(role)
    workers = [role for role in example(name).roles() if kind_of(role) == "Worker"]
    assert len(writers) == len(workers)
    for place, roles in writers.items():
        [pipeline] = re.findall(r'"/caches/([a-z0-9-]+)/\*"', place)
        [role] = roles
        assert role in workers and role.startswith(f"{pipeline.replace('-', '')}WorkerRole")


def test_compiled_code_expires_if_it_is_not_written_again(assembly: Assembly) -> None:
    [models] = [
        bucket for id_, bucket in assembly.resources("Storage", "S3::Bucket").items() if id_.startswith("Models")
    ]
    rules = models["Properties"]["LifecycleConfiguration"]["Rules"]
    assert [rule["ExpirationInDays"] for rule in rules if rule.get("Prefix") == "caches/"] == [90]


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

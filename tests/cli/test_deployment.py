"""Finding the deployment by the outputs of its stacks."""

import json

import boto3
import pytest
from moto import mock_aws

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.errors import CliError
from tests.cli.conftest import MACHINE

STORAGE = {"AssetBucketName": "assets", "StateTableName": "state", "StateBucketName": "state-objects"}
PIPELINES = {
    "StateMachineArn": MACHINE,
    "Reason8BQueueUrl": "q8",
    "Reason2BQueueUrl": "q2",
    "Reason2BParameter": "parameter-2",
}


def create_stack(name: str, outputs: dict[str, str]) -> None:
    template = {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {key: {"Value": value} for key, value in outputs.items()},
    }
    boto3.client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template))


@mock_aws
def test_the_outputs_of_our_stacks_say_where_things_are() -> None:
    create_stack("CosmosBatch-Storage", STORAGE)
    create_stack("CosmosBatch-Pipelines", PIPELINES)
    create_stack("Another", {"AssetBucketName": "not-ours"})
    deployment_ = deployments.find()
    assert deployment_.state_bucket == "state-objects"
    assert (deployment_.asset_roots, deployment_.state_table, deployment_.state_machine_arn) == (
        ["assets"],
        "state",
        MACHINE,
    )
    assert deployment_.pipelines == ["cosmos-reason2-2b", "cosmos-reason2-8b"], "smallest first"
    assert deployment_.parameters == {"cosmos-reason2-2b": "parameter-2"}
    assert deployment_.deployed_pipeline("cosmos-reason2-8b") is None, "its stack is of an earlier version"
    assert deployment_.deployed_pipeline("cosmos-reason2-2b") is None, "this person may not see it"
    assert deployment_.execution_arn("job") == MACHINE.replace("stateMachine", "execution") + ":job"


@mock_aws
def test_files_may_lie_in_several_buckets_and_below_prefixes() -> None:
    roots = ["videos/inbox/", "archive"]
    create_stack("CosmosBatch-Storage", {**STORAGE, "AssetRoots": json.dumps(roots)})
    create_stack("CosmosBatch-Pipelines", PIPELINES)
    assert deployments.find().asset_roots == roots


@mock_aws
def test_a_pipelines_parameter_the_model_bucket_and_the_tokens_secret_are_outputs_too() -> None:
    create_stack("CosmosBatch-Storage", {**STORAGE, "ModelBucketName": "models", "HuggingFaceTokenSecretArn": "arn"})
    create_stack("CosmosBatch-Pipelines", {**PIPELINES, "Reason2BParameter": "p2"})
    found = deployments.find()
    assert (found.parameters, found.model_bucket, found.token_secret) == ({"cosmos-reason2-2b": "p2"}, "models", "arn")


@mock_aws
def test_a_missing_stack_is_explained() -> None:
    create_stack("CosmosBatch-Storage", STORAGE)
    with pytest.raises(CliError, match="StateMachineArn") as caught:
        deployments.find()
    assert "cosmos-batch local up" in caught.value.remedy

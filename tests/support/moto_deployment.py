"""A deployment without a cloud: moto's buckets and table."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
from moto import mock_aws

from cosmos_batch.cli.deployment import Deployment
from tests.support.run_objects import PIPELINE

MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:machine"


@contextmanager
def moto_deployment(stepfunctions: Any) -> Iterator[Deployment]:
    """Provide a deployment whose executions are in a fake client of Step Functions."""
    with mock_aws():
        client = cache(boto3.client)
        client("s3").create_bucket(Bucket="assets")
        client("s3").put_bucket_versioning(Bucket="assets", VersioningConfiguration={"Status": "Enabled"})
        client("s3").create_bucket(Bucket="state")
        client("dynamodb").create_table(
            TableName="state",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
            BillingMode="PAY_PER_REQUEST",
        )
        yield Deployment(
            clients=lambda service: stepfunctions if service == "stepfunctions" else client(service),
            asset_roots=["assets"],
            state_machine_arn=MACHINE,
            state_table="state",
            state_bucket="state",
            pipelines=[PIPELINE, "cosmos-reason2-8b"],
        )

"""Simulated types of resource policies. They are stored and can be read, and none is enforced."""

from __future__ import annotations

import json
from collections.abc import Callable

from cosmos_batch.local import backends
from cosmos_batch.local.cloudformation.simulated_type import Properties, SimulatedType
from cosmos_batch.local.runtime import operator_client


def _on_each(members: str, put: Callable[[str, str], None]) -> SimulatedType:
    """Return the type of a policy of one or more resources, whose names are the physical id of the policy."""

    def put_all(_: str, properties: Properties) -> tuple[str, dict[str, str]]:
        resources = properties[members] if isinstance(properties[members], list) else [properties[members]]
        policy = properties.get("PolicyDocument", properties.get("ResourcePolicy"))
        for resource in resources:
            put(resource, policy if isinstance(policy, str) else json.dumps(policy))
        return ",".join(resources), {}

    def remove(physical_id: str) -> None:
        for resource in physical_id.split(","):
            put(resource, "")

    return SimulatedType(put_all, remove)


def _put_bucket_policy(bucket: str, policy: str) -> None:
    # The API would refuse a policy that locks the operator out, so it is not used.
    backends.s3().buckets[bucket].policy = policy.encode() or None


def _put_queue_policy(url: str, policy: str) -> None:
    operator_client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})


def _put_topic_policy(arn: str, policy: str) -> None:
    topic = backends.topics().topics[arn]
    topic.policy = policy or json.dumps(topic._create_default_topic_policy(*arn.split(":")[3:6]))


def _put_secret_policy(secret_id: str, policy: str) -> None:
    if policy:
        operator_client("secretsmanager").put_resource_policy(SecretId=secret_id, ResourcePolicy=policy)
    else:
        operator_client("secretsmanager").delete_resource_policy(SecretId=secret_id)


TYPES = {
    "AWS::S3::BucketPolicy": _on_each("Bucket", _put_bucket_policy),
    "AWS::SecretsManager::ResourcePolicy": _on_each("SecretId", _put_secret_policy),
    "AWS::SNS::TopicPolicy": _on_each("Topics", _put_topic_policy),
    "AWS::SQS::QueuePolicy": _on_each("Queues", _put_queue_policy),
}

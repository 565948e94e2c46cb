"""Add IAM statements for exact actions and resources to a role, or to the policy of a queue."""

from collections.abc import Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn

SHARDS = "Shards"  # label of the Distributed Map of runs


def allow(grantee: iam.IGrantable, actions: Sequence[str], resources: Sequence[str]) -> None:
    """Allow `grantee` the actions on the resources."""
    grantee.grant_principal.add_to_principal_policy(
        iam.PolicyStatement(actions=list(actions), resources=list(resources))
    )


def allow_objects(grantee: iam.IGrantable, bucket: s3.IBucket, pattern: str, *actions: str) -> None:
    """Allow `grantee` actions of S3, such as `GetObject`, on the objects whose keys match a pattern."""
    allow(grantee, [f"s3:{action}" for action in actions], [bucket.arn_for_objects(pattern)])


def allow_list(grantee: iam.IGrantable, bucket: s3.IBucket, prefix: str | None = None) -> None:
    """Allow `grantee` to list a bucket. Without it S3 answers 403, not 404, for an object that does not exist."""
    conditions = {"StringLike": {"s3:prefix": f"{prefix}*"}} if prefix else None
    grantee.grant_principal.add_to_principal_policy(
        iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket.bucket_arn], conditions=conditions)
    )


def allow_key(grantee: iam.IGrantable, key_arn: str, service: str, writes: bool = False) -> None:
    """Allow `grantee` to use a customer key through one service, such as `s3`; the key's policy must allow that too."""
    grantee.grant_principal.add_to_principal_policy(
        iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:GenerateDataKey"] if writes else ["kms:Decrypt"],
            resources=[key_arn],
            conditions={"StringEquals": {"kms:ViaService": f"{service}.{Aws.REGION}.{Aws.URL_SUFFIX}"}},
        )
    )


def allow_rules(queue: sqs.Queue) -> None:
    """Allow the rules of this stack to send `queue` messages: CloudFormation begins their names with the stack's.

    That is one statement, however many rules there are.
    """
    rules = f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:rule/{Aws.STACK_NAME}-*"
    queue.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            actions=["sqs:SendMessage"],
            resources=[queue.queue_arn],
            conditions={"ArnLike": {"aws:SourceArn": rules}},
        )
    )


def as_target(queue: sqs.Queue) -> sqs.IQueue:
    """Return a queue as the target of rules, to which `allow_rules` lets them send.

    CDK adds nothing to the policy of a queue that it has not created. To that of `queue` it would add a statement for
    each rule, and SQS takes no more than 20
    (docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-policies.html).
    """
    return sqs.Queue.from_queue_attributes(queue, "Target", queue_arn=queue.queue_arn, fifo=queue.fifo)


def allow_shard_answers(grantee: iam.IGrantable, machine: sfn.StateMachine) -> None:
    """Allow `grantee` to answer the tokens of shards of runs."""
    grantee.grant_principal.add_to_principal_policy(shard_answers(machine))


def shard_answers(machine: sfn.StateMachine) -> iam.PolicyStatement:
    """Return the statement that allows to answer the token of a shard, for which a child of the machine's map waits."""
    return iam.PolicyStatement(actions=["states:SendTaskSuccess"], resources=_with_children(machine))


def shard_delays(machine: sfn.StateMachine) -> iam.PolicyStatement:
    """Return the statement that allows to have a shard fed later, which is a failure of its task that is retried."""
    return iam.PolicyStatement(actions=["states:SendTaskFailure"], resources=_with_children(machine))


def _with_children(machine: sfn.StateMachine) -> list[str]:
    """Return the ARNs of the machine and of its map's children, which have its name and the label of the map."""
    return [machine.state_machine_arn, f"{machine.state_machine_arn}/{SHARDS}"]

"""The DynamoDB table whose rows `cosmos_batch/state` describes."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct


class StateTable(dynamodb.Table):
    """The state table, which is kept when its stack is deleted."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(
            scope,
            construct_id,
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expiresAt",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=RemovalPolicy.RETAIN,
        )

    def grant_calls(self, grantee: iam.IGrantable, *operations: str) -> None:
        """Allow operations of DynamoDB on the table, such as `GetItem`."""
        self.grant(grantee, *(f"dynamodb:{operation}" for operation in operations))

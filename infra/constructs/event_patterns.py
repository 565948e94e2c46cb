"""Which events of AWS we hear."""

from aws_cdk import aws_events as events
from aws_cdk import aws_stepfunctions as sfn

from infra.constructs.asset_buckets import AssetBucket


def object_created(bucket: AssetBucket) -> events.EventPattern:
    """An object came into an asset bucket, below its prefix if it has one."""
    below = {"object": {"key": [{"prefix": bucket.prefix}]}} if bucket.prefix else {}
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created"],
        detail={"bucket": {"name": [bucket.bucket.bucket_name]}, **below},
    )


def execution_ended_badly(machine: sfn.IStateMachine) -> events.EventPattern:
    """An execution failed, timed out or was stopped, and may not have reported that itself."""
    return events.EventPattern(
        source=["aws.states"],
        detail_type=["Step Functions Execution Status Change"],
        detail={"stateMachineArn": [machine.state_machine_arn], "status": ["FAILED", "TIMED_OUT", "ABORTED"]},
    )

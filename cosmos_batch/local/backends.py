"""Returns moto's backends, each of which simulates a service, for the one account and region of a local cloud."""

from __future__ import annotations

from typing import Any

from cosmos_batch.local.runtime import ACCOUNT, REGION


def batch() -> Any:
    """Return the Batch backend."""
    from moto.batch.models import batch_backends

    return batch_backends[ACCOUNT][REGION]


def builds() -> Any:
    """Return the CodeBuild backend."""
    from moto.codebuild.models import codebuild_backends

    return codebuild_backends[ACCOUNT][REGION]


def ec2() -> Any:
    """Return the EC2 backend."""
    from moto.ec2.models import ec2_backends

    return ec2_backends[ACCOUNT][REGION]


def ecr() -> Any:
    """Return the ECR backend."""
    from moto.ecr.models import ecr_backends

    return ecr_backends[ACCOUNT][REGION]


def efs() -> Any:
    """Return the EFS backend."""
    from moto.efs.models import efs_backends

    return efs_backends[ACCOUNT][REGION]


def events() -> Any:
    """Return the EventBridge backend."""
    from moto.events.models import events_backends

    return events_backends[ACCOUNT][REGION]


def functions() -> Any:
    """Return the Lambda backend."""
    from moto.awslambda.models import lambda_backends

    return lambda_backends[ACCOUNT][REGION]


def iam() -> Any:
    """Return the IAM backend."""
    from moto.iam.models import iam_backends

    return iam_backends[ACCOUNT]["aws"]


def logs() -> Any:
    """Return the CloudWatch Logs backend."""
    from moto.logs.models import logs_backends

    return logs_backends[ACCOUNT][REGION]


def queues() -> Any:
    """Return the SQS backend."""
    from moto.sqs.models import sqs_backends

    return sqs_backends[ACCOUNT][REGION]


def s3() -> Any:
    """Return the S3 backend."""
    from moto.s3.models import s3_backends

    return s3_backends[ACCOUNT]["aws"]


def secrets() -> Any:
    """Return the Secrets Manager backend."""
    from moto.secretsmanager.models import secretsmanager_backends

    return secretsmanager_backends[ACCOUNT][REGION]


def state_machines() -> Any:
    """Return the Step Functions backend that runs state machines."""
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends

    return stepfunctions_parser_backends[ACCOUNT][REGION]


def tables() -> Any:
    """Return the DynamoDB backend."""
    from moto.dynamodb.models import dynamodb_backends

    return dynamodb_backends[ACCOUNT][REGION]


def topics() -> Any:
    """Return the SNS backend."""
    from moto.sns.models import sns_backends

    return sns_backends[ACCOUNT][REGION]

"""Check whether workers can have their models: from the model bucket, a folder, or the Hub with the token."""

import os
from collections.abc import Iterator

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.doctor.findings import Finding, Verdict
from cosmos_batch.cli.model_access import STAND_IN, is_demo_model
from cosmos_batch.contract.environment import DeployedPipeline
from cosmos_batch.contract.error import Failure

CHECK = "model"


def check_model(deployment: Deployment, pipeline: DeployedPipeline) -> Iterator[Finding]:
    """Yield whether the model of a pipeline is available. The first place that workers would find it in decides."""
    from cosmos_batch.store.backup import Backup
    from cosmos_batch.store.huggingface import Hub

    model = pipeline.queue.identity.model
    name = f"{CHECK} of {pipeline.queue.id}"
    if is_demo_model(model):
        remedy = "`cosmos-batch local up` says what NVIDIA's model needs, and deploys it if it is available."
        yield Finding(check=name, verdict=Verdict.WARNING, message=STAND_IN, remedy=remedy)
        return
    if model.startswith(("/", "http://", "https://")):
        yield Finding(check=name, verdict=Verdict.OK, message=f"{model} is no model of the Hub.")
        return
    bucket = deployment.model_bucket
    if bucket and Backup(bucket, deployment.clients("s3")).newest(model) is not None:
        yield Finding(check=name, verdict=Verdict.OK, message=f"{model} is in s3://{bucket}.")
        return
    try:
        Hub(model, _token(deployment)).check_access(pipeline.queue.revision)
    except Failure as failure:
        verdict = Verdict.UNKNOWN if failure.error.retryable else Verdict.PROBLEM
        yield Finding(check=name, verdict=verdict, message=failure.error.message, remedy=failure.error.remedy)
    else:
        yield Finding(check=name, verdict=Verdict.OK, message=f"{model} can be downloaded with the token.")


def _token(deployment: Deployment) -> str | None:
    """Return the token of the deployment's secret; where it may not be read, that of config.json or HF_TOKEN."""
    from botocore.exceptions import BotoCoreError, ClientError

    from cosmos_batch.cli.configuration import CONFIG
    from cosmos_batch.planning.configuration import ConfigError, load_config

    if deployment.token_secret:
        try:
            answer = deployment.clients("secretsmanager").get_secret_value(SecretId=deployment.token_secret)
            return answer.get("SecretString") or None
        except (ClientError, BotoCoreError):
            pass  # workers may read it and this person may not: their own token says nearly as much
    try:
        return load_config(CONFIG).cosmos.hugging_face_token.get_secret_value() or os.environ.get("HF_TOKEN")
    except (ConfigError, OSError):
        return os.environ.get("HF_TOKEN")

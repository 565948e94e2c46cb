"""The deployment that a command works with, found by the outputs of its CloudFormation stacks."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from cosmos_batch.catalogue.pipelines import PIPELINES, Pipeline
from cosmos_batch.cli.errors import CliError
from cosmos_batch.contract.environment import DeployedPipeline
from cosmos_batch.planning.executions import execution_arn
from cosmos_batch.state import Jobs, Runs, Table, Workers

# The connections of a boto3 client. Many threads upload and read the files of a run; botocore's default is 10.
CONNECTIONS = 64
STACK_PREFIX = "CosmosBatch-"

ClientFactory = Callable[[str], Any]
"""A function that returns the boto3 client of a service, in AWS or in a local cloud."""


@dataclass(frozen=True)
class Deployment:
    """The names of a deployment's resources, and the clients to reach them."""

    clients: ClientFactory
    asset_roots: list[str]  # `bucket` or `bucket/prefix/`, where files may lie
    state_machine_arn: str
    state_table: str
    state_bucket: str  # objects of jobs and runs
    pipelines: list[str]
    parameters: dict[str, str] = field(default_factory=dict)
    """By pipeline, the name of the SSM parameter that holds its `DeployedPipeline`."""
    input_hosts: Sequence[str] = ()
    """Hosts from whose https addresses files may be copied into S3."""
    model_bucket: str = ""
    token_secret: str = ""
    """ARN of the secret with the Hugging Face token, if the deployment made one."""
    ends_with_command: bool = False
    """Whether it lies in a local cloud that the command has started for itself, which forgets its answers."""

    @property
    def is_alive(self) -> bool:
        """Return whether a cloud stands behind it. Of a local cloud that was stopped, only what it left can be read."""
        return bool(self.state_machine_arn)

    @property
    def is_local(self) -> bool:
        """Return whether it lies in a local cloud, where nothing costs anything."""
        return urlsplit(self.clients("s3").meta.endpoint_url).hostname in ("localhost", "127.0.0.1")

    @property
    def jobs(self) -> Jobs:
        """Return the jobs' rows in the state table."""
        return Jobs(self._table)

    @property
    def runs(self) -> Runs:
        """Return the runs' rows in the state table."""
        return Runs(self._table)

    def workers(self, pipeline: str) -> Workers:
        """Return the rows of a pipeline's workers in the state table."""
        return Workers(self._table, pipeline)

    def deployed_pipeline(self, pipeline: str) -> DeployedPipeline | None:
        """Return how a pipeline is configured; None where this person may not see it, or a newer release wrote it."""
        from botocore.exceptions import ClientError

        name = self.parameters.get(pipeline)  # an earlier version's stacks do not have it
        if name is None:
            return None
        try:
            return DeployedPipeline.read(self.clients("ssm").get_parameter(Name=name)["Parameter"]["Value"])
        except ValidationError:
            return None
        except ClientError as error:
            if error.response["Error"]["Code"] in ("AccessDeniedException", "ParameterNotFound"):
                return None
            raise

    def deployed_pipelines(self, names: Iterable[str]) -> dict[str, DeployedPipeline]:
        """Return how these pipelines are configured, without those that this person may not see."""
        return {name: pipeline for name in names if (pipeline := self.deployed_pipeline(name)) is not None}

    def execution_arn(self, job_id: str) -> str:
        """Return the ARN of a job's execution, whose name is the job's id."""
        return execution_arn(self.state_machine_arn, job_id)

    @property
    def _table(self) -> Table:
        return Table(self.clients("dynamodb"), self.state_table)


def find(clients: ClientFactory | None = None) -> Deployment:
    """Find the deployment in the cloud of `clients`, or in the one that the environment points at.

    Raises CliError where there is none, or where a stack is missing.
    """
    clients = clients or environment_clients()
    outputs = _outputs(clients("cloudformation"))
    try:
        return Deployment(
            clients=clients,
            asset_roots=_asset_roots(outputs),
            state_machine_arn=outputs["StateMachineArn"],
            state_table=outputs["StateTableName"],
            state_bucket=outputs["StateBucketName"],
            pipelines=[pipeline.id for pipeline in PIPELINES if _output(pipeline, "QueueUrl") in outputs],
            model_bucket=outputs.get("ModelBucketName", ""),
            token_secret=outputs.get("HuggingFaceTokenSecretArn", ""),
            input_hosts=json.loads(outputs.get("InputHosts", "[]")),
            parameters={
                pipeline.id: outputs[name]
                for pipeline in PIPELINES
                if (name := _output(pipeline, "Parameter")) in outputs
            },
        )
    except KeyError as missing:
        raise _not_deployed(missing) from missing


def model_bucket(clients: ClientFactory) -> str:
    """Return the name of the bucket for models. Only the storage stack has to be deployed."""
    try:
        return _outputs(clients("cloudformation"))["ModelBucketName"]
    except KeyError as missing:
        raise _not_deployed(missing) from missing


def _not_deployed(missing: KeyError) -> CliError:
    return CliError(
        f"Cosmos Batch is not deployed here: no stack {STACK_PREFIX}* has the output {missing}.",
        "Deploy it first: `cosmos-batch local up` on this machine, or `npx cdk deploy --all` to AWS. "
        "In another account or region? Check AWS_PROFILE, AWS_REGION and AWS_ENDPOINT_URL.",
    )


def _asset_roots(outputs: dict[str, str]) -> list[str]:
    """Return the places where files may lie. Versions before prefixes name one bucket. Raises KeyError."""
    if "AssetRoots" in outputs:
        roots: list[str] = json.loads(outputs["AssetRoots"])
        return roots
    return [outputs["AssetBucketName"]]


def _output(pipeline: Pipeline, ending: str) -> str:
    """Return the name of an output about a pipeline: `Reason2BQueueUrl` for the configuration's `reason2B`."""
    return f"{pipeline.config_key[0].upper()}{pipeline.config_key[1:]}{ending}"


def environment_clients() -> ClientFactory:
    """Return the clients of the cloud that the environment points at. boto3 alone ignores AWS_REGION."""
    import boto3
    from botocore.config import Config

    from cosmos_batch.cli.throttling import PatientClients

    session, patient = boto3.Session(region_name=os.environ.get("AWS_REGION")), PatientClients()
    config = Config(max_pool_connections=CONNECTIONS)
    return cache(lambda service: patient.make_patient(session.client(service, config=config)))


def _outputs(cloudformation: Any) -> dict[str, str]:
    pages = cloudformation.get_paginator("describe_stacks").paginate()
    stacks = [stack for page in pages for stack in page["Stacks"] if stack["StackName"].startswith(STACK_PREFIX)]
    return {output["OutputKey"]: output["OutputValue"] for stack in stacks for output in stack.get("Outputs", [])}

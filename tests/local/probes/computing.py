"""Probes of Lambda, Batch, CodeBuild and ECR."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from tests.local.probes.registry import ASSUME, ROLE_ARN, ProbedCloud, error_code, probe, resource, unique, until

GREETS = "def handler(event, context):\n    print('hello')\n    return {'hello': event['name']}\n"
FAILS = "def handler(event, context):\n    raise ValueError('no')\n"


@probe("awslambda.functions-run-as-processes")
def _functions(cloud: ProbedCloud) -> Any:
    client = cloud.client("lambda")
    greets, fails = cloud.stack().put_one(cloud.function(GREETS)), cloud.stack().put_one(cloud.function(FAILS))
    answer = client.invoke(FunctionName=greets, Payload=b'{"name": "a"}')
    failure = client.invoke(FunctionName=fails, Payload=b"{}")
    client.put_function_concurrency(FunctionName=greets, ReservedConcurrentExecutions=0)
    throttled = error_code(client.invoke, FunctionName=greets, Payload=b"{}")
    return (json.load(answer["Payload"]), failure["FunctionError"], throttled) == (
        {"hello": "a"},
        "Unhandled",
        "TooManyRequestsException",
    )


@probe("awslambda.functions-log-to-their-group")
def _log_group(cloud: ProbedCloud) -> Any:
    group = unique()
    logging = {"LogGroup": group}
    name = cloud.stack().put_one(cloud.function(GREETS, LoggingConfig=logging))
    configuration = cloud.client("lambda").get_function(FunctionName=name)["Configuration"]
    if configuration.get("LoggingConfig", {}).get("LogGroup") == group:
        return True
    cloud.client("lambda").invoke(FunctionName=name, Payload=b'{"name": "a"}')
    return cloud.client("logs").describe_log_streams(logGroupName=group)["logStreams"]


@probe("awslambda.deleted-functions-end-their-processes")
def _deleted_functions(cloud: ProbedCloud) -> Any:
    """A function that is created anew under one name starts with fresh memory."""
    code = "calls = []\ndef handler(event, context):\n    calls.append(1)\n    return len(calls)\n"
    counts, name = [], unique()
    for _ in range(2):
        stack = cloud.stack()
        stack.put_one(cloud.function(code, FunctionName=name))
        answers = [cloud.client("lambda").invoke(FunctionName=name, Payload=b"{}")["Payload"] for _ in range(2)]
        counts += [json.load(answer) for answer in answers]
        stack.delete()
    return counts == [1, 2, 1, 2]


@probe("awslambda.updates-change-variables")
def _variables(cloud: ProbedCloud) -> Any:
    stack, function = cloud.stack(), cloud.function(GREETS)
    function["Properties"]["Environment"] = {"Variables": {"A": "1"}}
    stack.put_one(function)
    del function["Properties"]["Environment"]
    name = stack.put_one(function)
    configuration = cloud.client("lambda").get_function(FunctionName=name)["Configuration"]
    return configuration.get("Environment", {}).get("Variables", {}) == {}


@probe("awslambda.mapping-properties-may-be-text")
def _mapping_text(cloud: ProbedCloud) -> Any:
    properties = {"FunctionName": {"Ref": "F"}, "EventSourceArn": cloud.queue_arn(cloud.queue())}
    mapping = resource("AWS::Lambda::EventSourceMapping", **properties, BatchSize="5", Enabled="false")
    outputs = cloud.stack().put({"F": cloud.function(GREETS), "M": mapping}, {"Id": {"Ref": "M"}})
    described = cloud.client("lambda").get_event_source_mapping(UUID=outputs["Id"])
    return (described["BatchSize"], described["State"]) == (5, "Disabled")


COMPUTE = {
    "Type": "EC2",
    "MaxvCpus": 1,
    "InstanceTypes": ["g6e.xlarge"],
    "InstanceRole": "instance",
    "Subnets": [],
    "SecurityGroupIds": [],
}


def _queue_resources(**environment: Any) -> dict[str, Any]:
    order = [{"Order": 1, "ComputeEnvironment": {"Ref": "Environment"}}]
    return {
        "Environment": resource(
            "AWS::Batch::ComputeEnvironment", Type="managed", ComputeResources=COMPUTE, **environment
        ),
        "Queue": resource("AWS::Batch::JobQueue", Priority=1, ComputeEnvironmentOrder=order),
    }


def _submit(cloud: ProbedCloud, **environment: Any) -> tuple[Any, dict[str, str], str]:
    """Create a queue of one vCPU by CloudFormation and submit a job to it; return client, outputs and job id."""
    batch = cloud.client("batch")
    definition = {
        "Image": "no/image:1",
        "Command": ["true"],
        "ResourceRequirements": [{"Type": "VCPU", "Value": "1"}, {"Type": "MEMORY", "Value": "512"}],
    }
    resources = _queue_resources(**environment) | {
        "Definition": resource("AWS::Batch::JobDefinition", Type="container", ContainerProperties=definition)
    }
    references = {name: {"Ref": name} for name in resources}
    outputs = cloud.stack().put(resources, references)
    job = batch.submit_job(jobName="probe", jobQueue=outputs["Queue"], jobDefinition=outputs["Definition"])
    return batch, outputs, job["jobId"]


@probe("batch.jobs-run-as-processes")
def _jobs(cloud: ProbedCloud) -> Any:
    """An image that does not exist is the reason of a failed job, and each change of its state is an event."""
    batch, _, job_id = _submit(cloud)
    until(lambda: batch.describe_jobs(jobs=[job_id])["jobs"][0]["status"] == "FAILED")
    return "CannotPullContainerError" in batch.describe_jobs(jobs=[job_id])["jobs"][0]["statusReason"]


@probe("batch.lists-running-jobs-by-default")
def _lists(cloud: ProbedCloud) -> Any:
    batch, queue, job_id = _list_queue(cloud)
    every = [
        job["jobId"]
        for status in ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "SUCCEEDED", "FAILED")
        for job in batch.list_jobs(jobQueue=queue, jobStatus=status)["jobSummaryList"]
    ]
    return job_id in every and batch.list_jobs(jobQueue=queue)["jobSummaryList"] == []


def _list_queue(cloud: ProbedCloud) -> tuple[Any, str, str]:
    """Submit a job that depends on one that does not exist, so that it never runs."""
    batch, name = cloud.client("batch"), unique()
    arn = batch.create_compute_environment(computeEnvironmentName=name, type="UNMANAGED", serviceRole=cloud.role())
    order = [{"order": 1, "computeEnvironment": arn["computeEnvironmentArn"]}]
    queue = batch.create_job_queue(jobQueueName=name, state="ENABLED", priority=1, computeEnvironmentOrder=order)
    requirements = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "512"}]
    properties = {"image": "no/image:1", "command": ["true"], "resourceRequirements": requirements}
    definition = batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)
    job = batch.submit_job(
        jobName=name,
        jobQueue=queue["jobQueueArn"],
        jobDefinition=definition["jobDefinitionArn"],
        dependsOn=[{"jobId": "none"}],
    )
    return batch, queue["jobQueueArn"], job["jobId"]


@probe("batch.updates-start-waiting-jobs")
def _updates(cloud: ProbedCloud) -> Any:
    batch, outputs, job_id = _submit(cloud, State="DISABLED")
    status = lambda: batch.describe_jobs(jobs=[job_id])["jobs"][0]["status"]  # noqa: E731
    until(lambda: status() == "RUNNABLE")
    batch.update_compute_environment(computeEnvironment=outputs["Environment"], state="ENABLED")
    until(lambda: status() == "FAILED")  # Its image does not exist.
    return "CannotPullContainerError" in batch.describe_jobs(jobs=[job_id])["jobs"][0]["statusReason"]


@probe("batch.arns-of-resources")
def _arns(cloud: ProbedCloud) -> Any:
    definition = {"Image": "i", "Vcpus": 1, "Memory": 512}
    resources = {
        "D": resource(
            "AWS::Batch::JobDefinition", Type="container", ContainerProperties=definition, RetryStrategy={"Attempts": 1}
        )
    }
    outputs = cloud.stack().put(resources, {"Arn": {"Fn::GetAtt": ["D", "JobDefinitionArn"]}})
    return ":job-definition/" in outputs["Arn"]


@probe("batch.compute-environments-of-templates")
def _environments(cloud: ProbedCloud) -> Any:
    stack, batch = cloud.stack(), cloud.client("batch")
    environment = lambda limit: resource(  # noqa: E731
        "AWS::Batch::ComputeEnvironment", Type="managed", ComputeResources={**COMPUTE, "MaxvCpus": limit}
    )
    stack.put_one(environment(1))
    arn = stack.put_one(environment(2))
    described = batch.describe_compute_environments(computeEnvironments=[arn])["computeEnvironments"]
    stack.delete()
    left = batch.describe_compute_environments(computeEnvironments=[arn])["computeEnvironments"]
    return described[0]["computeResources"]["maxvCpus"] == 2 and left == []


@probe("batch.queues-of-templates")
def _queues(cloud: ProbedCloud) -> Any:
    """Made without an environment of a template, which is another patch."""
    batch, stack = cloud.client("batch"), cloud.stack()
    arn = batch.create_compute_environment(computeEnvironmentName=unique(), type="UNMANAGED", serviceRole=cloud.role())
    order = [{"Order": 1, "ComputeEnvironment": arn["computeEnvironmentArn"]}]
    queue = lambda number: resource("AWS::Batch::JobQueue", Priority=number, ComputeEnvironmentOrder=order)  # noqa: E731
    first, second = stack.put_one(queue(1)), stack.put_one(queue(2))
    described = batch.describe_job_queues(jobQueues=[second])["jobQueues"]
    stack.delete()
    left = batch.describe_job_queues(jobQueues=[second])["jobQueues"]
    return first == second and described[0]["priority"] == 2 and left == []


def _definition(cloud: ProbedCloud, stack: Any, image: str, **properties: Any) -> dict[str, Any]:
    container = {
        "Image": image,
        "ResourceRequirements": [{"Type": "VCPU", "Value": "1"}, {"Type": "MEMORY", "Value": "512"}],
    }
    name = {"JobDefinitionName": stack.name, "RetryStrategy": {"Attempts": 1}}
    stack.put_one(
        resource("AWS::Batch::JobDefinition", Type="container", ContainerProperties=container, **name, **properties)
    )
    definitions = cloud.client("batch").describe_job_definitions(jobDefinitionName=stack.name)["jobDefinitions"]
    return {definition["revision"]: definition for definition in definitions}


@probe("batch.timeouts-of-templates")
def _timeouts(cloud: ProbedCloud) -> Any:
    [definition] = _definition(cloud, cloud.stack(), "a", Timeout={"AttemptDurationSeconds": 77}).values()
    return definition["timeout"]["attemptDurationSeconds"] == 77


@probe("batch.definitions-have-revisions")
def _revisions(cloud: ProbedCloud) -> Any:
    stack = cloud.stack()
    _definition(cloud, stack, "a")
    revisions = _definition(cloud, stack, "b")
    statuses = {number: definition["status"] for number, definition in revisions.items()}
    stack.delete()
    left = cloud.client("batch").describe_job_definitions(jobDefinitionName=stack.name, status="ACTIVE")
    return statuses == {1: "INACTIVE", 2: "ACTIVE"} and left["jobDefinitions"] == []


@probe("codebuild.builds-run")
def _builds(cloud: ProbedCloud) -> Any:
    client, name = cloud.client("codebuild"), unique()
    client.create_project(
        name=name,
        source={
            "type": "NO_SOURCE",
            "location": "none",
            "buildspec": '{"version": "0.2", "phases": {"build": {"commands": ["false"]}}}',
        },
        artifacts={"type": "NO_ARTIFACTS"},
        environment={"type": "LINUX_CONTAINER", "image": "i", "computeType": "BUILD_GENERAL1_SMALL"},
        serviceRole=ROLE_ARN,
    )
    build_id = client.start_build(projectName=name)["build"]["id"]
    status = lambda: client.batch_get_builds(ids=[build_id])["builds"][0]["buildStatus"]  # noqa: E731
    return until(lambda: (seen := status()) != "IN_PROGRESS" and seen) == "FAILED"


MANIFEST = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json"}


@probe("ecr.immutable-tags")
def _immutable_tags(cloud: ProbedCloud) -> Any:
    ecr, name = cloud.client("ecr"), unique()
    ecr.create_repository(repositoryName=name, imageTagMutability="IMMUTABLE")
    put = lambda number: error_code(  # noqa: E731
        ecr.put_image,
        repositoryName=name,
        imageManifest=json.dumps({**MANIFEST, "config": {"number": number}}),
        imageTag="one",
    )
    return (put(1), put(2)) == ("", "ImageTagAlreadyExistsException")


@probe("ecr.empty-on-delete")
def _empty_on_delete(cloud: ProbedCloud) -> Any:
    ecr, stack, name = cloud.client("ecr"), cloud.stack(), unique()
    stack.put_one(resource("AWS::ECR::Repository", RepositoryName=name, EmptyOnDelete=True))
    ecr.put_image(repositoryName=name, imageManifest=json.dumps(MANIFEST), imageTag="one")
    stack.delete()
    return error_code(ecr.describe_repositories, repositoryNames=[name]) == "RepositoryNotFoundException"


@probe("ecr.images-go-with-their-repository")
def _images_of_deleted_repositories(cloud: ProbedCloud) -> Any:
    ecr, name, page = cloud.client("ecr"), unique(), f"{cloud.endpoint}/local-cloud/images"
    uri = ecr.create_repository(repositoryName=name)["repository"]["repositoryUri"]
    neighbour = ecr.create_repository(repositoryName=f"{name}-2")["repository"]["repositoryUri"]
    pushed = [f"{uri}:1", f"{uri}@sha256:0", f"{neighbour}:1"]
    body = json.dumps({image: {"command": ["true"]} for image in pushed}).encode()
    urllib.request.urlopen(urllib.request.Request(page, body, method="PUT")).close()
    ecr.delete_repository(repositoryName=name, force=True)
    with urllib.request.urlopen(page) as response:
        return set(pushed) & set(json.load(response)) == {f"{neighbour}:1"}


@probe("ecr.generated-names-are-lower-case")
def _repository_names(cloud: ProbedCloud) -> Any:
    name = cloud.stack().put_one(resource("AWS::ECR::Repository"))
    return name == name.lower()


@probe("iam.updates-change-inline-policies")
def _inline_policies(cloud: ProbedCloud) -> Any:
    stack = cloud.stack()
    role = lambda policies: resource("AWS::IAM::Role", AssumeRolePolicyDocument=ASSUME, Policies=policies)  # noqa: E731
    stack.put_one(role([{"PolicyName": "a", "PolicyDocument": ASSUME}]))
    name = stack.put_one(role([{"PolicyName": "b", "PolicyDocument": ASSUME}]))
    return cloud.client("iam").list_role_policies(RoleName=name)["PolicyNames"] == ["b"]


@probe("iam.stacks-delete-managed-policies")
def _managed_policies(cloud: ProbedCloud) -> Any:
    stack, iam = cloud.stack(), cloud.client("iam")
    document = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}],
    }
    arn = stack.put_one(resource("AWS::IAM::ManagedPolicy", PolicyDocument=document))
    iam.get_policy(PolicyArn=arn)
    stack.delete()
    return error_code(iam.get_policy, PolicyArn=arn) == "NoSuchEntity"

"""CodeBuild: a build runs the buildspec of its project as the project's role, and pushes images that jobs can run."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.codebuild import buildspec
from tests.local.support import CODE_BUCKET, Inbox, Stack, wait_until, zipped

DOCKERFILE = 'FROM public.ecr.aws/docker/library/python:3.12\nARG SAID=nothing\nENV SAID=$SAID\nENTRYPOINT ["python"]\n'


def get(name: str, attribute: str = "Arn") -> dict[str, Any]:
    return {"Fn::GetAtt": [name, attribute]}


def project(spec: dict[str, Any] | str, **properties: Any) -> dict[str, Any]:
    source = {"Type": "NO_SOURCE", "BuildSpec": spec if isinstance(spec, str) else json.dumps(spec)}
    return {
        "Type": "AWS::CodeBuild::Project",
        "Properties": {
            "ServiceRole": get("Role"),
            "Artifacts": {"Type": "NO_ARTIFACTS"},
            "Environment": {
                "Type": "LINUX_CONTAINER",
                "ComputeType": "BUILD_GENERAL1_LARGE",
                "Image": "aws/codebuild/amazonlinux-x86_64-standard:5.0",
                "PrivilegedMode": True,
                "EnvironmentVariables": properties.pop("variables", []),
            },
            "Source": {**source, **properties.pop("source", {})},
            **properties,
        },
    }


def spec(*build: str, **phases: Any) -> dict[str, Any]:
    return {"version": 0.2, "phases": {"build": {"commands": list(build)}, **phases}}


class Project:
    """A project in a stack of its own, and its builds."""

    def __init__(self, cloud: LocalCloud, stack: Stack) -> None:
        self.cloud, self._stack = cloud, stack
        self.codebuild = cloud.client("codebuild")

    def put(self, spec: dict[str, Any] | str, **properties: Any) -> Project:
        resources = {"Project": project(spec, **properties)}
        self.outputs = self._stack.put(resources, {"Name": {"Ref": "Project"}, "Role": {"Ref": "Role"}})
        self.name = self.outputs["Name"]
        return self

    def start(self, **overrides: Any) -> str:
        return self.codebuild.start_build(projectName=self.name, **overrides)["build"]["id"]

    def run(self, **overrides: Any) -> dict[str, Any]:
        return self.ended(self.start(**overrides))

    def ended(self, build_id: str) -> dict[str, Any]:
        def complete() -> Any:
            build = self.codebuild.batch_get_builds(ids=[build_id])["builds"][0]
            return build if build["buildComplete"] else None

        return wait_until(complete, 30)

    def lines(self, build: dict[str, Any]) -> list[str]:
        logs = build["logs"]
        events = self.cloud.client("logs").get_log_events(
            logGroupName=logs["groupName"], logStreamName=logs["streamName"], startFromHead=True
        )["events"]
        return [event["message"] for event in events]

    def output(self, build: dict[str, Any]) -> list[str]:
        return [line for line in self.lines(build) if not line.startswith("[Container]")]


@pytest.fixture
def builds(cloud: LocalCloud, stack: Stack) -> Project:
    return Project(cloud, stack)


def phases(build: dict[str, Any]) -> dict[str, str]:
    return {phase["phaseType"]: phase.get("phaseStatus", "") for phase in build["phases"]}


def test_phases_run_in_order_and_share_variables_and_directory(builds: Project) -> None:
    document = spec(
        "echo $A $CODEBUILD_BUILD_SUCCEEDING $(basename $PWD)",
        install={"commands": ["mkdir -p deep && cd deep", "A=one", "exit 0"]},
        pre_build={"commands": 'A="$A two"'},
        post_build={"commands": ["|\n", 'for n in 1 2; do\n  echo "post $n"\ndone'][1:]},
    )
    build = builds.put(document).run()
    assert build["buildStatus"] == "SUCCEEDED"
    assert builds.output(build) == ["one two 1 deep", "post 1", "post 2"]
    assert list(phases(build)) == [
        "SUBMITTED", "QUEUED", "PROVISIONING", "DOWNLOAD_SOURCE", "INSTALL", "PRE_BUILD", "BUILD", "POST_BUILD",
        "UPLOAD_ARTIFACTS", "FINALIZING", "COMPLETED",
    ]  # fmt: skip
    assert builds.codebuild.list_builds_for_project(projectName=builds.name)["ids"] == [build["id"]]


def test_a_failed_command_ends_its_phase_and_post_build_sees_the_failure(builds: Project) -> None:
    document = spec(
        "echo before",
        "false || exit 3",
        "echo never",
        post_build={"commands": ["echo succeeding $CODEBUILD_BUILD_SUCCEEDING"], "finally": ["echo finally"]},
    )
    build = builds.put(document).run()
    assert build["buildStatus"] == "FAILED"
    assert builds.output(build) == ["before", "succeeding 0", "finally"]
    [context] = next(phase["contexts"] for phase in build["phases"] if phase["phaseType"] == "BUILD")
    assert context["statusCode"] == "COMMAND_EXECUTION_ERROR"
    assert context["message"] == "Error while executing command: false || exit 3. Reason: exit status 3"


def test_a_failed_pre_build_ends_the_build_after_its_finally_block(builds: Project) -> None:
    document = spec("echo never", pre_build={"commands": ["false"], "finally": ["echo tidied"]})
    build = builds.put(document).run()
    assert (build["buildStatus"], builds.output(build)) == ("FAILED", ["tidied"])
    assert "BUILD" not in phases(build)


def test_a_source_in_s3_is_unpacked_and_contains_the_buildspec(cloud: LocalCloud, builds: Project) -> None:
    key = f"{uuid.uuid4().hex}.zip"
    text = "version: 0.2\nphases:\n  build:\n    commands:\n      - cat deep/file\n"
    body = zipped({"deep/file": "from the zip\n", "ci/spec.yml": text})
    cloud.client("s3").put_object(Bucket=CODE_BUCKET, Key=key, Body=body)
    source = {"Type": "S3", "Location": f"{CODE_BUCKET}/{key}", "BuildSpec": "ci/spec.yml"}
    builds.put("", source=source)
    assert builds.output(builds.run()) == ["from the zip"]
    assert builds.output(builds.run(buildspecOverride=json.dumps(spec("echo instead")))) == ["instead"]
    build = builds.run(sourceLocationOverride=f"{CODE_BUCKET}/missing.zip")
    assert phases(build)["DOWNLOAD_SOURCE"] == "FAILED"
    assert "missing.zip" in "".join(builds.lines(build))


def test_variables_come_from_parameters_and_secrets_which_are_masked(cloud: LocalCloud, builds: Project) -> None:
    name = f"s-{uuid.uuid4().hex[:8]}"
    arn = cloud.client("secretsmanager").create_secret(Name=name, SecretString='{"user": "eve", "word": "open sesame"}')
    cloud.client("ssm").put_parameter(Name=f"/{name}", Value="a parameter", Type="String")
    variables = [
        {"Name": "USER_NAME", "Value": f"{name}:user", "Type": "SECRETS_MANAGER"},
        {"Name": "WORD", "Value": f"{arn['ARN']}:word", "Type": "SECRETS_MANAGER"},
        {"Name": "PARAMETER", "Value": f"/{name}", "Type": "PARAMETER_STORE"},
        {"Name": "PLAIN", "Value": "project"},
    ]
    show = "echo $SPEC $PLAIN; echo $USER_NAME and $WORD; echo ${#USER_NAME} ${#WORD} ${#PARAMETER}"
    document = {**spec(show), "env": {"variables": {"SPEC": "spec", "PLAIN": "spec"}}}
    builds.put(document, variables=variables)
    build = builds.run(environmentVariablesOverride=[{"name": "PLAIN", "value": "call"}])
    assert builds.output(build) == ["spec call", "*** and ***", "3 11 11"]
    missing = [{"name": "WORD", "value": "nobody", "type": "SECRETS_MANAGER"}]
    build = builds.run(environmentVariablesOverride=missing)
    assert phases(build)["DOWNLOAD_SOURCE"] == "FAILED"
    assert "nobody cannot be read" in "".join(builds.lines(build))


def test_a_build_is_stopped_by_a_call_and_by_its_timeout(builds: Project) -> None:
    builds.put(spec("sleep 600", post_build={"commands": ["echo never"]}))
    build_id = builds.start()
    wait_until(lambda: builds.codebuild.batch_get_builds(ids=[build_id])["builds"][0]["currentPhase"] == "BUILD")
    builds.codebuild.stop_build(id=build_id)
    assert builds.ended(build_id)["buildStatus"] == "STOPPED"
    # AWS requires at least five minutes, which the local cloud does not check.
    build = builds.put(spec("sleep 600"), TimeoutInMinutes=0.01).run()
    assert build["buildStatus"] == "TIMED_OUT"
    assert phases(build)["BUILD"] == "TIMED_OUT"


def test_the_end_is_an_event_and_calls_are_recorded_by_role(cloud: LocalCloud, builds: Project, inbox: Inbox) -> None:
    builds.put(spec("aws sqs list-queues --query 'QueueUrls[0]' --output text", "false"))
    events, rule = cloud.client("events"), f"builds-{builds.name}"
    pattern = {
        "source": ["aws.codebuild"],
        "detail-type": ["CodeBuild Build State Change"],
        "detail": {"project-name": [builds.name], "build-status": ["FAILED", "SUCCEEDED"]},
    }
    events.put_rule(Name=rule, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=rule, Targets=[{"Id": "T", "Arn": inbox.arn}])
    build = builds.run()
    event = inbox.next()
    detail = event["detail"]
    assert event["resources"] == [build["arn"]] == [detail["build-id"]]
    assert (detail["build-status"], detail["current-phase"]) == ("FAILED", "COMPLETED")
    failed = [phase for phase in detail["additional-information"]["phases"] if phase.get("phase-status") == "FAILED"]
    assert failed[0]["phase-context"] == [
        "COMMAND_EXECUTION_ERROR: Error while executing command: false. Reason: exit status 1"
    ]
    assert detail["additional-information"]["logs"]["group-name"] == f"/aws/codebuild/{builds.name}"
    role = builds.outputs["Role"]
    calls = {(call["service"], call["operation"]) for call in cloud.calls() if call["role"] == role}
    assert calls == {("sqs", "ListQueues")}


# --- images ----------------------------------------------------------------------------------------------------------

REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
LOGIN = f"aws ecr get-login-password --region us-east-1 | docker login --username AWS --password-stdin {REGISTRY}"


@pytest.fixture
def repository(cloud: LocalCloud) -> str:
    name = f"r-{uuid.uuid4().hex[:8]}"
    cloud.client("ecr").create_repository(repositoryName=name, imageTagMutability="IMMUTABLE")
    return name


def dockerfile(text: str) -> str:
    return f"cat > Dockerfile <<'END'\n{text}END"


def test_a_pushed_image_is_in_the_registry_and_can_be_run(cloud: LocalCloud, builds: Project, repository: str) -> None:
    image = f"{REGISTRY}/{repository}"
    describe = f"aws ecr describe-images --repository-name {repository} --image-ids imageTag=1"
    document = spec(
        f"{describe} --query 'imageDetails[0].imageTags[0]' --output text || echo none yet",
        LOGIN,
        "aws ecr-public get-login-password --region us-east-1"
        " | docker login --username AWS --password-stdin public.ecr.aws",
        dockerfile(DOCKERFILE),
        f"docker buildx build -f Dockerfile -t {image}:1 --build-arg SAID=hello --push .",
        dockerfile(f'FROM {image}:1 AS base\nCMD ["-V"]\nFROM base\nCMD ["-c", "no"]\n'),
        f"docker build --target base -t {image}:2 .",
        f"docker push {image}:2",
        f"{describe} --query 'imageDetails[0].imageTags[0]' --output text",
    )
    build = builds.put(document).run()
    assert build["buildStatus"] == "SUCCEEDED", builds.lines(build)
    assert "none yet" in builds.output(build)
    assert builds.output(build)[-1] == "1"
    details = cloud.client("ecr").describe_images(repositoryName=repository)["imageDetails"]
    assert sorted(tag for detail in details for tag in detail["imageTags"]) == ["1", "2"]
    known = cloud.images()
    assert known[f"{image}:1"]["environment"]["SAID"] == "hello"
    assert (known[f"{image}:2"]["entrypoint"], known[f"{image}:2"]["command"]) == (["python"], ["-V"])
    assert f"{image}@{details[0]['imageDigest']}" in known


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        (["docker build -t x ."], "Dockerfile cannot be read"),
        ([dockerfile("FROM {image}:none\n"), LOGIN, "docker build -t x ."], "{image}:none: not found"),
        ([dockerfile("FROM {image}:none\n"), "docker build -t x ."], "no basic auth credentials"),
        ([dockerfile("FROM scratch\nCOPY gone /\n"), "docker build -t x ."], '"/gone": not found'),
        ([dockerfile("FROM scratch\n"), "docker build --target two -t x ."], "has no stage two"),
        ([dockerfile(DOCKERFILE), "docker build -t {image}:1 --push ."], "no basic auth credentials"),
        ([dockerfile(DOCKERFILE), LOGIN, "docker build -t {image}0:1 --push ."], "RepositoryNotFoundException"),
        (["docker push {image}:1"], "does not exist locally"),
        (["true | docker login -u AWS --password-stdin {image}"], "no password"),
    ],
)  # fmt: skip
def test_a_build_fails_as_with_docker(builds: Project, repository: str, commands: list[str], reason: str) -> None:
    image = f"{REGISTRY}/{repository}"
    build = builds.put(spec(*(command.replace("{image}", image) for command in commands))).run()
    assert build["buildStatus"] == "FAILED"
    assert reason.replace("{image}", image) in "\n".join(builds.output(build))


def test_the_stages_after_the_target_are_not_built(builds: Project) -> None:
    text = dockerfile("FROM scratch AS base\nFROM base AS last\nCOPY gone /\n")
    build = builds.put(spec(text, "docker build --target base -t x .")).run()
    assert build["buildStatus"] == "SUCCEEDED", builds.lines(build)
    assert builds.put(spec(text, "docker build --target last -t x .")).run()["buildStatus"] == "FAILED"


def test_an_immutable_tag_is_not_overwritten(cloud: LocalCloud, builds: Project, repository: str) -> None:
    tag = f"{REGISTRY}/{repository}:1"
    one, two = DOCKERFILE, DOCKERFILE.replace("nothing", "two")
    build_one, build_two = (f"{dockerfile(text)}\ndocker build -t {tag} --push ." for text in (one, two))
    build = builds.put(spec(LOGIN, build_one, build_two)).run()
    assert build["buildStatus"] == "FAILED"
    assert "immutable" in builds.output(build)[-1]
    assert cloud.images()[tag]["environment"] == {"SAID": "nothing"}


def test_docker_needs_a_privileged_project(builds: Project) -> None:
    environment = project("")["Properties"]["Environment"]
    build = builds.put(spec("docker version"), Environment={**environment, "PrivilegedMode": False}).run()
    assert "Cannot connect to the Docker daemon" in "".join(builds.output(build))
    assert build["buildStatus"] == "FAILED"


# --- a stack that waits for a build ----------------------------------------------------------------------------------

# Starts a build for a request of CloudFormation, and answers when the event of its end arrives.
WAITING = """
import boto3, json, os, urllib.request
def handler(event, context):
    if "ResponseURL" in event:
        if event["RequestType"] == "Delete":
            return answer(event, "SUCCESS", "")
        token = {"name": "REQUEST", "value": json.dumps(event)}
        boto3.client("codebuild").start_build(
            projectName=event["ResourceProperties"]["Project"], environmentVariablesOverride=[token])
        return
    build_id = event["detail"]["build-id"].rpartition("/")[2]
    build = boto3.client("codebuild").batch_get_builds(ids=[build_id])["builds"][0]
    variables = {v["name"]: v["value"] for v in build["environment"]["environmentVariables"]}
    status = event["detail"]["build-status"]
    answer(json.loads(variables["REQUEST"]), "SUCCESS" if status == "SUCCEEDED" else "FAILED", "the build " + status)
def answer(request, status, reason):
    body = {name: request[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    body |= {"Status": status, "Reason": reason, "PhysicalResourceId": "build"}
    answer = urllib.request.Request(request["ResponseURL"], json.dumps(body).encode(), method="PUT")
    urllib.request.urlopen(answer)
"""


def waiting_stack(stack: Stack, *commands: str) -> dict[str, Any]:
    pattern = {
        "source": ["aws.codebuild"],
        "detail-type": ["CodeBuild Build State Change"],
        "detail": {"project-name": [{"Ref": "Project"}], "build-status": ["SUCCEEDED", "FAILED", "STOPPED"]},
    }
    rule = {"EventPattern": pattern, "Targets": [{"Id": "T", "Arn": get("F")}]}
    return {
        "Project": project(spec(*commands)),
        "F": stack.function(WAITING),
        "Rule": {"Type": "AWS::Events::Rule", "Properties": rule},
        "Built": {
            "Type": "Custom::Image",
            "Properties": {"ServiceToken": get("F"), "Project": {"Ref": "Project"}},
            "DependsOn": ["Rule"],
        },
    }


def test_a_stack_waits_for_a_build_and_fails_if_the_build_fails(cloud: LocalCloud, stack: Stack) -> None:
    stack.put(waiting_stack(stack, "sleep 0.2", "echo built"))
    stack.delete()
    with pytest.raises(Exception, match=r"Built .* could not be created: the build FAILED"):
        stack.put(waiting_stack(stack, "false"))


def test_the_error_of_an_unreadable_buildspec_has_the_reason() -> None:
    for text, reason in {
        "version: 0.1": "version 0.2",
        "a: [": "YAML_FILE_ERROR",
        "version: 0.2\nphases: {tests: {}}": "Unknown phase: tests",
        "version: 0.2\nphases: {build: {commands: [echo a: b]}}": "string type",
    }.items():
        with pytest.raises(buildspec.BuildspecError, match=reason):
            buildspec.parse(text)

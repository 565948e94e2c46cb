"""Batch jobs run the ENTRYPOINT of their image as a process, with the states, reasons and signals of AWS."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.local import processes, runtime
from cosmos_batch.local.cloud import LocalCloud
from tests.local.support import Inbox, Stack, wait_until

IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/worker:1"

# Acts on its first argument, and prints its arguments and environment.
PROGRAM = """
import json, os, signal, subprocess, sys, time
action, rest = sys.argv[1], sys.argv[2:]
def on_term(*_):
    print("got SIGTERM", flush=True)
    sys.exit(9)
if action == "stoppable": signal.signal(signal.SIGTERM, on_term)
if action == "deaf": signal.signal(signal.SIGTERM, signal.SIG_IGN)
if action == "child": subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
if action in ("stoppable", "deaf", "child"):
    print("ready", flush=True)
    time.sleep(float(rest[0]) if rest else 600)
if action == "write": open(rest[0] + "/kept", "a").write("x")
print(json.dumps({"argv": rest, "env": dict(os.environ), "cwd": os.getcwd(), "python": sys.executable}))
sys.exit(int(rest[0]) if action == "exit" else 0)
"""


class Jobs:
    """A queue with two vCPUs and a job definition of one, created by CloudFormation."""

    def __init__(self, cloud: LocalCloud, stack: Stack) -> None:
        self.cloud, self.batch, self.stack = cloud, cloud.client("batch"), stack
        self.outputs = {"Queue": {"Ref": "Queue"}, "Definition": {"Ref": "Definition"}, "Role": {"Ref": "Role"}}
        self.put()

    def put(self, retention: dict[str, bool] | None = None, **container: Any) -> None:
        compute = {
            "Type": "EC2",
            "MaxvCpus": 2,
            "MinvCpus": 0,
            "InstanceTypes": ["g6e.12xlarge"],
            "InstanceRole": "instance",
            "Subnets": [],
            "SecurityGroupIds": [],
        }
        properties = {
            "Image": IMAGE,
            "Command": ["print", "Ref::word"],
            "JobRoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
            "Environment": [{"Name": "A", "Value": "definition"}, {"Name": "MODELS", "Value": "/models/hub"}],
            "ResourceRequirements": [{"Type": "VCPU", "Value": "1"}, {"Type": "MEMORY", "Value": "512"}],
            "MountPoints": [{"ContainerPath": "/models", "SourceVolume": "models"}],
            "Volumes": [
                {
                    "Name": "models",
                    "EfsVolumeConfiguration": {
                        "FileSystemId": {"Ref": "Files"},
                        "AuthorizationConfig": {"AccessPointId": {"Ref": "Point"}, "Iam": "ENABLED"},
                        "TransitEncryption": "ENABLED",
                    },
                }
            ],
            **container,
        }
        resources = {
            "Files": {
                "Type": "AWS::EFS::FileSystem",
                "Properties": {"FileSystemTags": [{"Key": "Name", "Value": "shared-models"}]},
            },
            "Point": {
                "Type": "AWS::EFS::AccessPoint",
                "Properties": {"FileSystemId": {"Ref": "Files"}, "RootDirectory": {"Path": "/store"}},
            },
            "Environment": {
                "Type": "AWS::Batch::ComputeEnvironment",
                "Properties": {"Type": "managed", "ComputeResources": compute},
            },
            "Queue": {
                "Type": "AWS::Batch::JobQueue",
                "Properties": {
                    "Priority": 1,
                    "ComputeEnvironmentOrder": [
                        {"Order": 1, "ComputeEnvironment": {"Fn::GetAtt": ["Environment", "ComputeEnvironmentArn"]}}
                    ],
                },
            },
            "Definition": {
                "Type": "AWS::Batch::JobDefinition",
                "Properties": {
                    "Type": "container",
                    "Parameters": {"word": "hello"},
                    "ContainerProperties": properties,
                    "ResourceRetentionPolicy": retention or {},
                },
            },
        }
        outputs = self.stack.put(resources, self.outputs)
        self.queue, self.definition, self.role = outputs["Queue"], outputs["Definition"], outputs["Role"]

    def submit(self, *command: str, **options: Any) -> str:
        overrides = options.pop("containerOverrides", {}) | ({"command": list(command)} if command else {})
        definition = options.pop("jobDefinition", self.definition)
        submitted = self.batch.submit_job(
            jobName="clip", jobQueue=self.queue, jobDefinition=definition, containerOverrides=overrides, **options
        )
        return submitted["jobId"]

    def describe(self, job_id: str) -> dict[str, Any]:
        return self.batch.describe_jobs(jobs=[job_id])["jobs"][0]

    def wait(self, job_id: str, *statuses: str) -> dict[str, Any]:
        wanted = statuses or ("SUCCEEDED", "FAILED")
        return wait_until(lambda: (job := self.describe(job_id))["status"] in wanted and job)

    def lines(self, job: dict[str, Any]) -> list[str]:
        stream = job["container"]["logStreamName"]
        events = self.cloud.client("logs").get_log_events(logGroupName="/aws/batch/job", logStreamName=stream)["events"]
        return [event["message"] for event in events]


@pytest.fixture(scope="module")
def jobs(cloud: LocalCloud, module_stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    program = tmp_path_factory.mktemp("image") / "program.py"
    program.write_text(PROGRAM)
    entrypoint = ["python", str(program)]
    environment = {"A": "image", "B": "image", "PATH": "/opt/venv/bin"}
    cloud.register_images({IMAGE: {"entrypoint": entrypoint, "environment": environment, "workdir": "/app"}})
    return Jobs(cloud, module_stack)


def test_a_job_runs_its_entrypoint_with_the_environment_of_aws(jobs: Jobs) -> None:
    overrides = {"environment": [{"name": "C", "value": "job"}]}
    ended = jobs.wait(jobs.submit(containerOverrides=overrides, tags={"k": "v"}))
    assert (ended["status"], ended["container"]["exitCode"]) == ("SUCCEEDED", 0)
    assert ended["statusReason"] == "Essential container in task exited"
    assert ended["createdAt"] <= ended["startedAt"] <= ended["stoppedAt"]
    assert (ended["jobName"], ended["tags"]) == ("clip", {"k": "v"})
    seen = json.loads(jobs.lines(ended)[-1])
    env = seen["env"]
    assert seen["argv"] == ["hello"]
    assert seen["python"] == sys.executable
    assert (env["A"], env["B"], env["C"]) == ("definition", "image", "job")
    assert env["AWS_BATCH_JOB_ID"] == ended["jobId"]
    assert env["AWS_BATCH_JOB_ATTEMPT"] == "1"
    assert env["AWS_BATCH_JQ_NAME"] in jobs.queue
    assert env["AWS_BATCH_CE_NAME"]
    assert env["AWS_ENDPOINT_URL"] == jobs.cloud.endpoint
    assert env["AWS_ACCESS_KEY_ID"].startswith("ASIA")
    assert seen["cwd"].endswith("/app")


def test_the_output_of_a_job_is_in_a_file_too(jobs: Jobs) -> None:
    ended = jobs.wait(jobs.submit())
    (path,) = (jobs.cloud.log_path.parent / "batch").glob(f"*{ended['jobId']}.log")
    assert path.read_text().splitlines() == jobs.lines(ended)


def test_a_job_fails_with_its_exit_code(jobs: Jobs) -> None:
    ended = jobs.wait(jobs.submit("exit", "75"))
    assert (ended["status"], ended["container"]["exitCode"]) == ("FAILED", 75)
    assert ended["attempts"][0]["container"]["exitCode"] == 75


def test_a_terminated_job_gets_sigterm_and_keeps_the_reason(jobs: Jobs) -> None:
    job_id = jobs.submit("stoppable")
    wait_until(lambda: "ready" in jobs.lines(jobs.wait(job_id, "RUNNING")))
    jobs.batch.terminate_job(jobId=job_id, reason="draining")
    ended = jobs.wait(job_id)
    assert (ended["status"], ended["statusReason"], ended["container"]["exitCode"]) == ("FAILED", "draining", 9)
    assert "got SIGTERM" in jobs.lines(ended)


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace_period(jobs: Jobs) -> None:
    job_id = jobs.submit("deaf")
    wait_until(lambda: "ready" in jobs.lines(jobs.wait(job_id, "RUNNING")))
    started = time.monotonic()
    jobs.batch.terminate_job(jobId=job_id, reason="now")
    assert jobs.wait(job_id)["container"]["exitCode"] == 137
    assert time.monotonic() - started >= 1.0


def test_no_process_of_a_container_outlives_its_first_process(jobs: Jobs) -> None:
    ended = jobs.wait(jobs.submit("child", "0.1"))
    assert ended["status"] == "SUCCEEDED"
    assert processes.marked(runtime.MARK, f"{jobs.cloud.cloud_id}:batch-{ended['jobId']}") == []


def test_an_attempt_that_exceeds_its_timeout_fails(jobs: Jobs) -> None:
    ended = jobs.wait(jobs.submit("stoppable", timeout={"attemptDurationSeconds": 1}))
    assert (ended["status"], ended["statusReason"]) == ("FAILED", "Job attempt duration exceeded timeout")


def test_a_job_without_capacity_waits_and_lists_select_by_state(jobs: Jobs) -> None:
    running = [jobs.submit("stoppable") for _ in range(2)]
    for job_id in running:
        jobs.wait(job_id, "RUNNING")
    waiting, cancelled = jobs.submit("print"), jobs.submit("print")
    jobs.wait(waiting, "RUNNABLE")

    def listed(**status: str) -> set[str]:
        return {job["jobId"] for job in jobs.batch.list_jobs(jobQueue=jobs.queue, **status)["jobSummaryList"]}

    assert listed() == set(running)
    wait_until(lambda: listed(jobStatus="RUNNABLE") == {waiting, cancelled})
    jobs.batch.cancel_job(jobId=cancelled, reason="not needed")
    assert jobs.wait(cancelled)["statusReason"] == "not needed"
    jobs.batch.terminate_job(jobId=running[0], reason="room")
    assert jobs.wait(waiting)["status"] == "SUCCEEDED"
    jobs.batch.terminate_job(jobId=running[1], reason="done")
    assert waiting in listed(jobStatus="SUCCEEDED")
    jobs.wait(running[1])


def test_a_mount_is_a_directory_of_the_home(jobs: Jobs) -> None:
    ended = jobs.wait(jobs.submit("write", "/models"))
    directory = jobs.cloud.home / "efs" / "shared-models" / "store"
    assert (directory / "kept").read_text() == "x"
    seen = json.loads(jobs.lines(ended)[-1])
    assert seen["env"]["MODELS"] == str(directory / "hub")
    assert seen["argv"] == [str(directory)]


def test_each_change_of_state_is_an_event(cloud: LocalCloud, jobs: Jobs, inbox: Inbox) -> None:
    events = cloud.client("events")
    pattern = {"source": ["aws.batch"], "detail-type": ["Batch Job State Change"]}
    events.put_rule(Name="batch-states", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="batch-states", Targets=[{"Id": "T", "Arn": inbox.arn}])
    job_id = jobs.submit("exit", "3")
    seen = {event["detail"]["status"]: event["detail"] for event in inbox.all(5)}
    events.remove_targets(Rule="batch-states", Ids=["T"])
    assert set(seen) == {"SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "FAILED"}
    failed = seen["FAILED"]
    assert (failed["jobId"], failed["jobQueue"], failed["jobDefinition"]) == (job_id, jobs.queue, jobs.definition)
    assert failed["container"]["exitCode"] == 3
    assert len(failed["attempts"]) == 1


def test_an_unknown_image_fails_with_the_reason(cloud: LocalCloud, jobs: Jobs) -> None:
    properties = {
        "image": "nowhere/none:1",
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "512"}],
    }
    definition = jobs.batch.register_job_definition(
        jobDefinitionName="none", type="container", containerProperties=properties
    )["jobDefinitionArn"]
    ended = jobs.wait(jobs.submit(jobDefinition=definition))
    assert ended["status"] == "FAILED"
    assert ended["statusReason"].startswith("CannotPullContainerError: nowhere/none:1")


@pytest.mark.parametrize(("policy", "kept"), [({}, False), ({"SkipDeregisterOnUpdate": True}, True)])
def test_the_previous_revision_is_deregistered_unless_the_template_keeps_it(
    cloud: LocalCloud, stack: Stack, policy: dict[str, bool], kept: bool
) -> None:
    jobs = Jobs(cloud, stack)
    jobs.put(retention=policy)
    before = jobs.definition
    jobs.put(retention=policy, Command=["other"])
    [described] = cloud.client("batch").describe_job_definitions(jobDefinitions=[before])["jobDefinitions"]
    assert jobs.definition != before
    assert described["status"] == ("ACTIVE" if kept else "INACTIVE")


def test_a_changed_definition_is_the_next_revision(jobs: Jobs) -> None:
    first = jobs.definition
    jobs.put(Command=["print", "changed"])
    assert jobs.definition.rsplit(":", 1) == [first.rsplit(":", 1)[0], "2"]
    ended = jobs.wait(jobs.submit())
    assert json.loads(jobs.lines(ended)[-1])["argv"] == ["changed"]


def test_calls_are_recorded_by_role(jobs: Jobs, tmp_path: Path) -> None:
    uri = "worker:calls"
    script = "from boto3 import client; client('sqs', 'us-east-1').list_queues(); client('s3').list_buckets()"
    jobs.cloud.register_images({uri: {"entrypoint": ["python", "-c", script]}})
    role = "arn:aws:iam::123456789012:role/worker-role"
    properties = {
        "image": uri,
        "jobRoleArn": role,
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "512"}],
    }
    definition = jobs.batch.register_job_definition(
        jobDefinitionName="calls", type="container", containerProperties=properties
    )["jobDefinitionArn"]
    assert jobs.wait(jobs.submit(jobDefinition=definition))["status"] == "SUCCEEDED"
    calls = {(call["service"], call["operation"]) for call in jobs.cloud.calls() if call["role"] == "worker-role"}
    assert ("sqs", "ListQueues") in calls

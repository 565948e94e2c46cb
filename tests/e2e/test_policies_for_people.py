"""The policies of the viewer and of the operator allow what the commands on runs and the console call, and no more."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.console.deployed_runs import DeployedRuns
from cosmos_batch.cli.console.run_collection import RunCollection
from cosmos_batch.cli.console.s3_media import S3MediaFinder
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.runs.run_snapshot import read_run_snapshot
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.cli.stopped_clouds.lookup import RunDeployments
from cosmos_batch.console.collection import Entry, Progress
from cosmos_batch.console.new_run_records import NewRun
from cosmos_batch.store.backup import Backup
from tests.support.deployed_app import App, wait_for

ACCOUNT = "us-east-1:123456789012"
SERVICES = {"stepfunctions": "states", "service-quotas": "servicequotas"}
ACTIONS = {
    "s3:HeadObject": "s3:GetObject",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:CreateMultipartUpload": "s3:PutObject",
    "s3:UploadPart": "s3:PutObject",
    "s3:CompleteMultipartUpload": "s3:PutObject",
}
RESOURCES: dict[str, Callable[[dict[str, Any]], str]] = {
    "dynamodb": lambda call: f"arn:aws:dynamodb:{ACCOUNT}:table/{call['TableName']}",
    "ssm": lambda call: f"arn:aws:ssm:{ACCOUNT}:parameter/{call['Name'].removeprefix('/')}",
    "states": lambda call: str(call.get("executionArn") or call.get("stateMachineArn")),
    "secretsmanager": lambda call: str(call["SecretId"]),
    "logs": lambda call: f"arn:aws:logs:{ACCOUNT}:log-group:{call['logGroupName']}",
}
TOKEN = "secretsmanager:GetSecretValue"  # workers alone read it; `doctor` then takes the person's own token


class Use(NamedTuple):
    """A call: its action, its resource, and the prefix if it lists a bucket."""

    action: str
    resource: str
    prefix: str


class Grant(NamedTuple):
    """An allowed action on resources; `prefix` is the pattern of its condition, if it has one."""

    action: str
    resource: str
    prefix: str

    def covers(self, use: Use) -> bool:
        """Return whether it allows a call."""
        return self.action == use.action and fnmatchcase(use.resource, self.resource) and self._fits(use.prefix)

    def _fits(self, prefix: str) -> bool:
        return fnmatchcase(prefix, self.prefix)


@dataclass
class Recorder:
    """Records the calls of every client that the commands make."""

    uses: set[Use] = field(default_factory=set)

    def note(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        """Note one call, as a handler of botocore's events."""
        service = SERVICES.get(model.service_model.service_name, model.service_model.service_name)
        action = f"{service}:{model.name}"
        action = ACTIONS.get(action, action)
        if "VersionId" in params and action == "s3:GetObject":
            action = "s3:GetObjectVersion"
        if service == "s3":
            key = "" if action == "s3:ListBucket" else f"/{params['Key']}"
            self.uses.add(Use(action, f"arn:aws:s3:::{params['Bucket']}{key}", params.get("Prefix", "")))
        else:
            self.uses.add(Use(action, RESOURCES.get(service, lambda _: "*")(params), ""))


@pytest.fixture(scope="module")
def recorders(app: App, picture: Path) -> Iterator[tuple[Recorder, Recorder]]:
    """Provide the calls of a viewer and of an operator, each of whom has used all of their commands."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**app.cloud.environment, "COSMOS_BATCH_HOME": str(app.folder / "home")}.items():
            patch.setenv(name, value)
        operator, viewer = Recorder(), Recorder()
        real = deployments.environment_clients

        def recording(recorder: Recorder) -> None:
            clients = real()

            def client(service: str) -> Any:
                made = clients(service)
                made.meta.events.register("before-parameter-build", recorder.note, unique_id="recorder")
                return made

            patch.setattr(deployments, "environment_clients", lambda: client)

        recording(operator)
        operate(app, picture)
        recording(viewer)
        view(app, viewer)
        yield viewer, operator


def operate(app: App, picture: Path) -> None:
    """Use every command of an operator."""
    clips = app.folder / "clips"
    clips.mkdir()
    for name in ("a.png", "b.png"):
        (clips / name).write_bytes(picture.read_bytes())
    app.upload("clips/c.png", picture)
    go = app.folder / "go"
    question = ["--prompt", json.dumps({"until": str(go), "text": "At last."})]
    main(["doctor"])
    deployment = deployments.find()
    assert Backup(deployment.model_bucket, deployment.clients("s3")).manifest("nvidia/Cosmos-Reason2-2B", "c") is None
    assert Backup(deployment.model_bucket, deployment.clients("s3")).newest("nvidia/Cosmos-Reason2-2B") is None
    assert main(["runs", "plan", f"s3://{app.assets}/clips/", *question]) == 0
    assert main(["runs", "start", f"{clips}/", *question, "--name", "one", "--yes"]) == 0
    wait_for(lambda: read_run_snapshot(deployment, "one").counts.in_flight == 2, 120, "the run's items were not fed")
    assert main(["runs", "cancel", "one"]) == 0
    assert main(["runs", "watch", "one"]) == 1
    go.touch()
    assert main(["runs", "retry", "one", "--failed", "--name", "two", "--watch"]) == 0
    assert main(["runs", "resume", "one", "--watch"]) == 0
    assert main(["submit", f"s3://{app.assets}/clips/", "--prompt", "What is it?"]) == 0
    slow = ["--prompt", json.dumps({"until": str(app.folder / "seen"), "text": "At last."})]
    assert main(["runs", "start", f"s3://{app.assets}/clips/", *slow, "--name", "slow", "--yes"]) == 0
    operate_page(app, deployments.find())


def operate_page(app: App, deployment: Deployment) -> None:
    """Plan and start a run on the console's page. It stops runs and asks again by the functions of the commands."""
    page = DeployedRuns(RunDeployments(deployment))
    assert page.form().pipelines
    asked = NewRun(sources=[f"s3://{app.assets}/clips/"], prompt="What is it?", pipeline="cosmos-reason2-2b")
    started = page.start(page.plan(asked, None, {}).id)
    wait_for(lambda: page.overview(started.run).run.state == "SUCCEEDED", 120, "the page's run has not ended")


def view(app: App, recorder: Recorder) -> None:
    """Use every command of a viewer; the run that is watched goes on until its execution was looked at."""

    def end_when_seen() -> None:
        seen = "states:DescribeExecution"
        wait_for(lambda: any(use.action == seen for use in set(recorder.uses)), 120, "nobody looked at the execution")
        (app.folder / "seen").touch()

    ending = Thread(target=end_when_seen)
    ending.start()
    assert main(["runs", "watch", "slow"]) == 0
    ending.join()
    for arguments in (["list"], ["show", "one"], ["watch", "one"], ["diff", "one", "two"]):
        assert main(["runs", *arguments]) == 0
    for form, ending in (("jsonl", ".jsonl"), ("fiftyone", "")):
        assert main(["runs", "export", "one", "--format", form, "--output", str(app.folder / f"out{ending}")]) == 0
    view_pages(deployments.find())


def view_pages(deployment: Deployment) -> None:
    """Look at every kind of page of the console: all runs, one, its items and files, a log, two runs side by side."""
    page = DeployedRuns(RunDeployments(deployment))
    assert {run.id for run in page.runs(10).runs} >= {"one", "two", "slow"}
    assert page.overview("one").run.id == "one" and page.compare("one", "two", "id").counts
    items = RunCollection(deployment, "two", S3MediaFinder(deployment.clients("s3")).find)
    entry = next(entry for entry in items.changes(Progress(), Event()) if isinstance(entry, Entry))
    assert items.document(entry.path) is not None
    [media] = [items.media(key) for key in entry.media if key is not None]
    assert media is not None and b"".join(media.part(0, 8))
    line = next(stored_run(deployment, "two").lines())
    assert page.log("two", line.job_id)


def grants_of(app: App, name: str) -> set[Grant]:
    """Return what a deployed policy allows."""
    iam = app.client("iam")
    arn = app.outputs[name]
    version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    document = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]
    return {
        Grant(action, resource, statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix", "*"))
        for statement in document["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


@pytest.mark.parametrize("name", ["Viewer", "Operator"])
def test_a_policy_allows_the_calls_of_its_commands_and_nothing_else(
    name: str, app: App, recorders: tuple[Recorder, Recorder]
) -> None:
    viewer, operator = recorders
    grants = grants_of(app, f"{name}PolicyArn")
    made = {use for use in (viewer if name == "Viewer" else operator).uses if use.action != TOKEN}
    refused = sorted(use for use in made if not any(grant.covers(use) for grant in grants))
    assert not refused, f"calls that AWS would refuse: {refused}"
    # An operator is a viewer too.
    used = viewer.uses | (operator.uses if name == "Operator" else set())
    needless = sorted(grant for grant in grants if not any(grant.covers(use) for use in used))
    assert not needless, f"grants that no command uses: {needless}"


def test_an_operator_may_do_all_that_a_viewer_may(app: App) -> None:
    assert grants_of(app, "ViewerPolicyArn") < grants_of(app, "OperatorPolicyArn")

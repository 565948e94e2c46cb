"""Adopted buckets, which existed before the deployment: one whose uploads start runs, one whose uploads do not."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.main import main
from cosmos_batch.contract.metadata import PROMPT
from cosmos_batch.local.cloud import LocalCloud
from tests.support.deployed_app import TWO_B, App, configuration, error_of, running_app
from tests.support.media_files import video

VIDEOS, ARCHIVE = "their-videos", "their-archive"


def make_buckets(cloud: LocalCloud) -> None:
    """Create the owner's buckets, each with a notification to a queue of the owner."""
    sqs, s3 = cloud.client("sqs"), cloud.client("s3")
    queue = sqs.create_queue(QueueName="theirs")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    for name in (VIDEOS, ARCHIVE):
        s3.create_bucket(Bucket=name)
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        s3.put_bucket_notification_configuration(
            Bucket=name,
            NotificationConfiguration={
                "QueueConfigurations": [{"Id": "theirs", "QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]
            },
        )


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("adopted")
    storage = {
        "createAssetBucket": False,
        "assetBuckets": [{"name": VIDEOS, "prefix": "inbox/", "triggerOnUpload": True}, {"name": ARCHIVE}],
    }
    with running_app(folder, configuration(folder, storage=storage), make_buckets) as running:
        yield running


def put(app: App, bucket: str, key: str, clip: Path) -> str:
    app.client("s3").put_object(Bucket=bucket, Key=key, Body=clip.read_bytes(), Metadata={PROMPT: "What happens?"})
    return f"s3://{bucket}/{key}"


def test_an_upload_below_the_prefix_returns_its_document_beside_it(app: App, clip: Path) -> None:
    put(app, VIDEOS, "inbox/robots/clip.mp4", clip)
    execution = app.execution_of("inbox/robots/clip.mp4")
    assert execution["status"] == "SUCCEEDED"
    place = app.row(execution["executionArn"]).document
    assert place.startswith(f"s3://{VIDEOS}/inbox/robots/clip_CosmosReason_")


def test_an_upload_elsewhere_starts_nothing(app: App, clip: Path) -> None:
    put(app, VIDEOS, "outbox/clip.mp4", clip)
    put(app, ARCHIVE, "inbox/clip.mp4", clip)
    put(app, VIDEOS, "inbox/last.mp4", clip)
    app.execution_of("inbox/last.mp4")  # events are delivered in order: the others have been looked at by now
    inputs = [json.loads(app.ended(execution["executionArn"])["input"])["input"] for execution in app.executions()]
    assert not [file for file in inputs if "outbox" in file or ARCHIVE in file]


def test_a_request_may_name_a_file_of_any_adopted_bucket(app: App, clip: Path) -> None:
    uri = put(app, ARCHIVE, "2026/clip.mp4", clip)
    execution = app.ended(app.start({"pipeline": TWO_B, "input": uri, "output": f"s3://{VIDEOS}/inbox/answers/"}))
    assert execution["status"] == "SUCCEEDED"
    assert app.row(execution["executionArn"]).document.startswith(f"s3://{VIDEOS}/inbox/answers/clip_CosmosReason_")


def test_submit_uploads_below_the_prefix_and_starts_one_job(
    app: App, tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The upload would trigger the 8B by its extension; it is marked, so only the submitted job starts."""
    deployment = deployments.find(app.client)
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["submit", str(video(tmp_path / "c.webm")), "--prompt", "What happens?"]) == 0
    [job] = capsys.readouterr().out.splitlines()
    assert app.ended(deployment.execution_arn(job))["status"] == "SUCCEEDED"
    row = app.jobs.get(job)
    assert row is not None and row.input is not None
    assert row.input.startswith(f"s3://{VIDEOS}/inbox/uploads/")
    put(app, VIDEOS, "inbox/after.mp4", clip)
    app.execution_of("inbox/after.mp4")  # events are delivered in order: that of the upload has been looked at by now
    inputs = [json.loads(app.ended(execution["executionArn"])["input"])["input"] for execution in app.executions()]
    assert inputs.count(row.input) == 1


@pytest.mark.parametrize("field", ["input", "output"])
def test_nothing_outside_of_a_prefix_is_read_or_written(app: App, clip: Path, field: str) -> None:
    request = {"pipeline": TWO_B, "input": put(app, ARCHIVE, "clip.mp4", clip)}
    request[field] = f"s3://{VIDEOS}/private/clip.mp4"
    error = error_of(app.ended(app.start(request)))
    assert error["code"] == "InvalidInput"
    assert f"{VIDEOS}/inbox/" in error["remedy"]


def test_the_notifications_of_adopted_buckets_stay(app: App) -> None:
    for bucket in (VIDEOS, ARCHIVE):
        notifications = app.client("s3").get_bucket_notification_configuration(Bucket=bucket)
        assert [notification["Id"] for notification in notifications["QueueConfigurations"]] == ["theirs"]

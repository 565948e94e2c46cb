"""A sidecar sets its file's metadata, whether it is uploaded before the file or after it."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.contract.environment import UploadEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.planning.executions import execution_name
from cosmos_batch.planning.requests import read_request
from cosmos_batch.state import Attempt, Jobs, ReservedKeys
from lambdas.handlers.upload import handler
from lambdas.reporting.error_document import write_error_document
from tests.lambdas.cloud import SMALL, Cloud, sqs_batch
from tests.lambdas.intake.test_uploads import NOTHING_FAILED, created
from tests.support.jobs import make_job

SIDECAR = "clip.mp4.metadata.json"


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(UploadEnvironment, auto_trigger=".mp4", grace_seconds=0)


def put_sidecar(cloud: Cloud, prompt: str = "from the sidecar") -> dict[str, Any]:
    """Write the sidecar; returns its event."""
    return created(SIDECAR, cloud.put(SIDECAR, json.dumps({"COSMOS_REASON_PROMPT": prompt}).encode()))


def start_without(cloud: Cloud) -> str:
    """Upload the file and start its job before there is a sidecar; returns the name of the job's execution."""
    version = cloud.put("clip.mp4")
    handler(sqs_batch(created("clip.mp4", version)), None)
    return execution_name(SMALL, "assets", "clip.mp4", str(version))


def plan(cloud: Cloud, name: str) -> Jobs:
    """Create the job's row, as if it had been planned and put into its queue."""
    jobs = Jobs(cloud.table)
    jobs.create(make_job(name))
    return jobs


def test_before_the_file_it_starts_nothing_and_then_gives_the_prompt(cloud: Cloud) -> None:
    early = put_sidecar(cloud)
    handler(sqs_batch(early), None)
    assert cloud.executions() == []
    name = start_without(cloud)
    [execution] = cloud.executions()
    assert execution["name"] == name
    assert execution["input"]["prompt"] == "from the sidecar"
    assert execution["input"]["sidecar"] == early["detail"]["object"]["version-id"]


def test_the_sidecars_event_and_the_files_event_start_one_run(cloud: Cloud) -> None:
    version = cloud.put("clip.mp4")
    late = put_sidecar(cloud)
    handler(sqs_batch(late, created("clip.mp4", version), late), None)
    assert len(cloud.executions()) == 1


def test_after_the_file_it_takes_the_place_of_a_run_that_has_not_begun(cloud: Cloud) -> None:
    plan(cloud, start_without(cloud))
    late = put_sidecar(cloud)
    handler(sqs_batch(late), None)
    handler(sqs_batch(late), None)
    first, second = cloud.executions()
    assert (first["status"], second["status"]) == ("ABORTED", "RUNNING")
    assert second["input"]["prompt"] == "from the sidecar"


def test_a_run_that_is_not_even_planned_is_stopped_too(cloud: Cloud) -> None:
    start_without(cloud)
    handler(sqs_batch(put_sidecar(cloud)), None)
    assert [execution["status"] for execution in cloud.executions()] == ["ABORTED", "RUNNING"]


def test_a_run_that_an_engine_has_begun_is_let_finish(cloud: Cloud) -> None:
    name = start_without(cloud)
    plan(cloud, name).open_attempt(name, Attempt(id="a", worker="w", solo=False))
    handler(sqs_batch(put_sidecar(cloud)), None)
    assert [execution["status"] for execution in cloud.executions()] == ["RUNNING", "RUNNING"]


def test_a_run_that_was_given_back_after_an_attempt_has_begun(cloud: Cloud) -> None:
    name = start_without(cloud)
    jobs = plan(cloud, name)
    row = jobs.open_attempt(name, Attempt(id="a", worker="w", solo=True))
    jobs.close_lost_attempt(row)
    handler(sqs_batch(put_sidecar(cloud)), None)
    assert cloud.executions()[0]["status"] == "RUNNING"


def states_of_runs(cloud: Cloud) -> list[tuple[str | None, str]]:
    return [(execution["input"].get("prompt"), execution["status"]) for execution in cloud.executions()]


def test_each_late_sidecar_replaces_all_earlier_runs(cloud: Cloud) -> None:
    cloud.put(SIDECAR + ".old", b"{}")  # of another file
    start_without(cloud)
    for prompt in ("one", "two", "three"):
        handler(sqs_batch(put_sidecar(cloud, prompt)), None)
    assert states_of_runs(cloud) == [(None, "ABORTED"), ("one", "ABORTED"), ("two", "ABORTED"), ("three", "RUNNING")]


def test_a_late_sidecar_lets_a_run_that_has_begun_finish(cloud: Cloud) -> None:
    start_without(cloud)
    handler(sqs_batch(put_sidecar(cloud, "one")), None)
    begun = cloud.executions()[1]["name"]
    plan(cloud, begun).open_attempt(begun, Attempt(id="a", worker="w", solo=False))
    handler(sqs_batch(put_sidecar(cloud, "two")), None)
    assert states_of_runs(cloud) == [(None, "ABORTED"), ("one", "RUNNING"), ("two", "RUNNING")]


def test_an_overwritten_sidecar_starts_no_run(cloud: Cloud) -> None:
    start_without(cloud)
    early = put_sidecar(cloud, "one")
    handler(sqs_batch(put_sidecar(cloud, "two"), early), None)
    assert states_of_runs(cloud) == [(None, "ABORTED"), ("two", "RUNNING")]


def test_without_versions_each_late_sidecar_is_answered(cloud: Cloud) -> None:
    cloud.put("clip.mp4", bucket="plain")
    handler(sqs_batch(created("clip.mp4", None, bucket="plain")), None)
    for prompt in ("one", "two"):
        cloud.put(SIDECAR, json.dumps({"COSMOS_REASON_PROMPT": prompt}).encode(), bucket="plain")
        handler(sqs_batch(created(SIDECAR, None, bucket="plain")), None)
    assert states_of_runs(cloud) == [(None, "ABORTED"), ("one", "RUNNING"), ("two", "RUNNING")]


def test_the_files_event_again_after_a_late_sidecar_changes_nothing(cloud: Cloud) -> None:
    version = cloud.put("clip.mp4")
    handler(sqs_batch(created("clip.mp4", version)), None)
    handler(sqs_batch(put_sidecar(cloud)), None)
    handler(sqs_batch(created("clip.mp4", version)), None)
    assert len(cloud.executions()) == 2


def test_a_sidecar_without_our_keys_changes_nothing(cloud: Cloud) -> None:
    start_without(cloud)
    handler(sqs_batch(created(SIDECAR, cloud.put(SIDECAR, b'{"other": "tool"}'))), None)
    [execution] = cloud.executions()
    assert execution["status"] == "RUNNING"


FAULTS = {
    b"{": "is no JSON: Expecting property name",
    b"COSMOS_REASON_PROMPT=What?": "is no JSON: Expecting value",
    b"[" * 100_000: "is no JSON",
    b"[]": "is no JSON object",
    b'"text"': "is no JSON object",
    b"\xff": "is no text in UTF-8",
    b" " * (1024 * 1024 + 1): "has more than 1,048,576 bytes",
}


@pytest.mark.parametrize("content", FAULTS, ids=FAULTS.values())
def test_an_unreadable_sidecar_is_reported_and_its_file_does_not_run_without_it(cloud: Cloud, content: bytes) -> None:
    start_without(cloud)
    version = cloud.put(SIDECAR, content)
    handler(sqs_batch(created(SIDECAR, version)), None)
    without, replacement = cloud.executions()
    assert (without["status"], replacement["input"]["sidecar"]) == ("ABORTED", version)
    [fault] = replacement["input"]["faults"]
    assert fault.startswith(f"{SIDECAR}: {FAULTS[content]}")


def test_an_unreadable_sidecar_is_reported_even_if_nothing_else_starts_a_run(
    cloud: Cloud, configure: Callable[..., None]
) -> None:
    configure(UploadEnvironment, grace_seconds=0)
    version = cloud.put("clip.mp4")
    assert version is not None
    broken = created(SIDECAR, cloud.put(SIDECAR, b"{"))
    handler(sqs_batch(created("clip.mp4", version), broken, broken), None)
    [execution] = cloud.executions()
    assert execution["input"]["faults"] and execution["input"]["pipeline"] == SMALL


Refuse = Callable[..., None]


@pytest.fixture
def refuse(cloud: Cloud) -> Iterator[Refuse]:
    """Return a function that makes S3 refuse an operation on the object whose key ends so, with a status and a code."""
    hooks: list[tuple[str, Callable[..., None]]] = []

    def refuse_from_now_on(operation: str, ending: str, status: int = 403, code: str = "AccessDenied") -> None:
        def hook(params: dict[str, Any], **_: Any) -> None:
            if params["url_path"].partition("?")[0].endswith(ending):
                answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
                raise ClientError(answer, operation)

        hooks.append((f"before-call.s3.{operation}", hook))
        cloud.s3.meta.events.register(*hooks[-1])

    yield refuse_from_now_on
    for hook in hooks:
        cloud.s3.meta.events.unregister(*hook)


def documents_beside(cloud: Cloud, bucket: str, execution: dict[str, Any]) -> list[dict[str, Any]]:
    """Let `plan` refuse an execution's request and `report` write the error; return the documents of errors."""
    with pytest.raises(Failure) as refused:
        read_request(execution["input"])
    keys = ReservedKeys(cloud.table)
    write_error_document(execution["name"], refused.value.error, execution["input"], datetime.now(UTC), keys)
    listed = cloud.s3.list_objects_v2(Bucket=bucket, Prefix="clip_CosmosError_")["Contents"]
    return [json.load(cloud.s3.get_object(Bucket=bucket, Key=one["Key"])["Body"]) for one in listed]


@pytest.mark.parametrize("bucket", ["assets", "plain"])
@pytest.mark.parametrize(
    ("status", "code"), [(403, "AccessDenied"), (400, "KMS.DisabledException"), (400, "InvalidRequest")]
)
def test_a_sidecar_that_s3_refuses_is_told_beside_its_file_once(
    cloud: Cloud, refuse: Refuse, bucket: str, status: int, code: str
) -> None:
    """Its key or its owner is another one: no later attempt could read it."""
    refuse("GetObject", SIDECAR, status, code)
    file = created("clip.mp4", cloud.put("clip.mp4", bucket=bucket), bucket)
    sidecar = created(SIDECAR, cloud.put(SIDECAR, b"{}", bucket=bucket), bucket)
    assert handler(sqs_batch(file, sidecar, file), None) == NOTHING_FAILED
    [execution] = cloud.executions()
    [document] = documents_beside(cloud, bucket, execution)
    message = document["error"]["message"]
    assert message.startswith(f"{SIDECAR}: S3 refuses to let Cosmos Batch read it (HTTP {status}, {code}).")
    assert "key's policy" in message and "own it" in message and "sidecar" in document["error"]["remedy"]


@pytest.mark.parametrize("bucket", ["assets", "plain"])
def test_a_late_sidecar_that_s3_refuses_replaces_the_run_without_it(cloud: Cloud, refuse: Refuse, bucket: str) -> None:
    handler(sqs_batch(created("clip.mp4", cloud.put("clip.mp4", bucket=bucket), bucket)), None)
    refuse("GetObject", SIDECAR)
    handler(sqs_batch(created(SIDECAR, cloud.put(SIDECAR, b"{}", bucket=bucket), bucket)), None)
    without, replacement = cloud.executions()
    assert (without["status"], replacement["status"]) == ("ABORTED", "RUNNING")
    assert replacement["input"]["faults"] and "faults" not in without["input"]


def test_tags_that_s3_refuses_are_told_beside_their_file(cloud: Cloud, refuse: Refuse) -> None:
    refuse("GetObjectTagging", "clip.mp4")
    assert handler(sqs_batch(created("clip.mp4", cloud.put("clip.mp4"))), None) == NOTHING_FAILED
    [execution] = cloud.executions()
    [document] = documents_beside(cloud, "assets", execution)
    assert "clip.mp4: S3 refuses to let Cosmos Batch read its tags (HTTP 403" in document["error"]["message"]


def test_of_a_file_that_is_no_input_nothing_that_s3_refuses_is_told(cloud: Cloud, refuse: Refuse) -> None:
    refuse("GetObject", "notes.txt.metadata.json")
    refuse("GetObjectTagging", "notes.txt")
    cloud.put("notes.txt.metadata.json")
    assert handler(sqs_batch(created("notes.txt", cloud.put("notes.txt"))), None) == NOTHING_FAILED
    assert cloud.executions() == []


@pytest.mark.parametrize(("status", "code"), [(500, "InternalError"), (400, "RequestTimeout")])
@pytest.mark.parametrize(("operation", "ending"), [("GetObject", SIDECAR), ("GetObjectTagging", "clip.mp4")])
def test_a_fault_of_s3_that_passes_is_tried_again(
    cloud: Cloud, refuse: Refuse, operation: str, ending: str, status: int, code: str
) -> None:
    refuse(operation, ending, status, code)
    answer = handler(sqs_batch(created("clip.mp4", cloud.put("clip.mp4"))), None)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m0"}]} and cloud.executions() == []


def test_a_request_file_that_s3_refuses_is_refused_where_it_can_be_seen(cloud: Cloud, refuse: Refuse) -> None:
    refuse("GetObject", "drive.cosmos.json")
    version = cloud.put("drive.cosmos.json", b'{"prompt": "Rain."}')
    assert handler(sqs_batch(created("drive.cosmos.json", version)), None) == NOTHING_FAILED
    [execution] = cloud.executions()
    assert execution["input"]["requestFile"] == "s3://assets/drive.cosmos.json" and execution["input"]["uploaded"]


def test_a_corrected_sidecar_replaces_the_broken_sidecar(cloud: Cloud) -> None:
    handler(sqs_batch(created(SIDECAR, cloud.put(SIDECAR, b"{"))), None)
    start_without(cloud)
    handler(sqs_batch(put_sidecar(cloud)), None)
    broken, right = cloud.executions()
    assert "faults" in broken["input"]
    assert (right["input"]["prompt"], right["status"]) == ("from the sidecar", "RUNNING")
    assert "faults" not in right["input"]


def test_another_tools_beside_a_file_that_is_no_input_is_left_alone(cloud: Cloud) -> None:
    cloud.put("notes.txt")
    handler(sqs_batch(created("notes.txt.metadata.json", cloud.put("notes.txt.metadata.json", b"[]"))), None)
    assert cloud.executions() == []


def test_a_file_that_we_wrote_is_not_run_by_a_sidecar(cloud: Cloud) -> None:
    cloud.put("clip.mp4", Metadata={"cosmos-batch-job": "job-1"})
    handler(sqs_batch(put_sidecar(cloud)), None)
    assert cloud.executions() == []


def test_its_event_after_the_run_has_ended_is_no_second_run(cloud: Cloud) -> None:
    late = put_sidecar(cloud)
    start_without(cloud)
    cloud.stepfunctions.stop_execution(executionArn=cloud.executions()[0]["executionArn"])
    handler(sqs_batch(late), None)
    assert len(cloud.executions()) == 1


def test_a_sidecar_that_exists_is_not_waited_for(cloud: Cloud, configure: Callable[..., None]) -> None:
    configure(UploadEnvironment, auto_trigger=".mp4", grace_seconds=10)
    cloud.put("clip.mp4")
    handler(sqs_batch(created(SIDECAR, cloud.put(SIDECAR, b"{}"))), None)
    assert len(cloud.executions()) == 1

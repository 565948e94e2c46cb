"""An error document is written beside an uploaded file that fails."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.contract.environment import PlanEnvironment, ReportEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.s3 import OBJECT_MARKER
from lambdas.handlers import plan
from lambdas.handlers.report import handler
from tests.lambdas.cloud import Cloud, event, sqs_batch

REQUEST = {
    "pipeline": "cosmos-reason2-2b",
    "input": "s3://assets/robots/clip.mp4",
    "inputVersionId": "v1",
    "uploaded": True,
}
CAUSE = Failure("InvalidInput", "fps: -1 is too few.", "Correct the file's metadata and upload it again.")


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(ReportEnvironment)


def failed(request: Any = REQUEST, job_id: str = "job-1", error: str = "Failure", cause: str = str(CAUSE)) -> None:
    execution = {"id": f"arn:{job_id}", "name": job_id, "startTime": "2026-11-12T20:00:00.5Z", "input": request}
    handler({"execution": execution, "error": {"Error": error, "Cause": json.dumps({"errorMessage": cause})}}, None)


def documents(cloud: Cloud, bucket: str = "assets") -> list[str]:
    return [item["Key"] for item in cloud.s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def test_the_error_document_lies_beside_the_file_and_is_marked_as_ours(cloud: Cloud) -> None:
    failed()
    failed()
    [key] = documents(cloud)
    assert key == "robots/clip_CosmosError_20261112-200000.json"
    answer = cloud.s3.get_object(Bucket="assets", Key=key)
    assert answer["Metadata"] == {OBJECT_MARKER: "job-1"}
    assert json.loads(answer["Body"].read()) == {
        "error": CAUSE.error.model_dump(mode="json"),
        "inputFile": "s3://assets/robots/clip.mp4",
        "inputVersionId": "v1",
        "pipeline": "cosmos-reason2-2b",
        "jobId": "job-1",
        "timestamp": "20261112-200000",
    }


def test_an_execution_that_could_not_report_is_reported_by_its_change_of_status(cloud: Cloud) -> None:
    status = event("step_functions_timed_out")
    status["detail"]["input"] = json.dumps(REQUEST)
    handler(sqs_batch(status), None)
    [key] = documents(cloud)
    assert json.loads(cloud.s3.get_object(Bucket="assets", Key=key)["Body"].read())["error"]["code"] == "TimedOut"


def test_a_request_file_has_its_error_beside_itself(cloud: Cloud) -> None:
    failed({"pipeline": "cosmos3-nano", "requestFile": "s3://assets/pour.cosmos.json", "uploaded": True})
    assert documents(cloud) == ["pour.cosmos_CosmosError_20261112-200000.json"]


def test_two_files_of_one_stem_have_a_document_each(cloud: Cloud) -> None:
    failed()
    failed({**REQUEST, "input": "s3://assets/robots/clip.png"}, job_id="job-2")
    assert documents(cloud) == [f"robots/clip_CosmosError_20261112-20000{second}.json" for second in (0, 1)]


@pytest.mark.parametrize(
    "request_",
    [
        {**REQUEST, "uploaded": False},
        {name: value for name, value in REQUEST.items() if name != "uploaded"},
        {**REQUEST, "input": "no URI"},
        {**REQUEST, "input": f"s3://assets/{'x' * 1020}/a"},
        "typed",
        None,
    ],
    ids=["started by a person", "of an older version", "no URI", "no room for a name", "no object", "unknown"],
)
def test_jobs_that_no_upload_started_have_no_error_document(cloud: Cloud, request_: Any) -> None:
    failed(request_)
    assert documents(cloud) == []
    assert len(cloud.events.entries) == 1, "the rest is told"


def test_a_run_that_was_stopped_has_none(cloud: Cloud) -> None:
    status = event("step_functions_aborted")
    status["detail"]["input"] = json.dumps(REQUEST)
    handler(sqs_batch(status), None)
    assert documents(cloud) == []


@pytest.fixture
def refused(cloud: Cloud, request: pytest.FixtureRequest) -> Any:
    """Make S3 answer PutObject with this HTTP status and error code, after all retries of its client."""
    status, code = request.param

    def refuse(**_: Any) -> None:
        answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(answer, "PutObject")

    cloud.s3.meta.events.register("before-call.s3.PutObject", refuse)
    yield
    cloud.s3.meta.events.unregister("before-call.s3.PutObject", refuse)


@pytest.mark.parametrize(
    "refused",
    [(400, "InvalidRequest"), (403, "AccessDenied"), (404, "NoSuchBucket"), (405, "MethodNotAllowed")],
    indirect=True,
)
def test_a_bucket_that_takes_no_document_stops_nothing(cloud: Cloud, refused: None) -> None:
    failed()
    failed()
    assert len(cloud.events.entries) == 1


@pytest.mark.parametrize(
    "refused",
    [
        (400, "RequestTimeout"),
        (400, "ThrottlingException"),
        (400, "KMS.ThrottlingException"),
        (400, "ExpiredToken"),
        (408, "RequestTimeout"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "SlowDown"),
    ],
    indirect=True,
)
def test_a_busy_bucket_is_called_again_before_the_end_is_published(cloud: Cloud, refused: None) -> None:
    for _ in range(2):
        with pytest.raises(ClientError):
            failed()
    assert cloud.events.entries == []


def test_an_end_whose_document_succeeds_at_the_second_call_is_published_once(cloud: Cloud) -> None:
    calls = 0

    def refuse_first(**_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            answer: Any = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
            raise ClientError(answer, "PutObject")

    cloud.s3.meta.events.register("before-call.s3.PutObject", refuse_first)
    try:
        with pytest.raises(ClientError):
            failed()
        failed()
    finally:
        cloud.s3.meta.events.unregister("before-call.s3.PutObject", refuse_first)
    assert len(cloud.events.entries) == len(documents(cloud)) == 1


def test_plan_refuses_the_faults_that_upload_found(cloud: Cloud, configure: Callable[..., None]) -> None:
    configure(PlanEnvironment)
    cloud.put("robots/clip.mp4")
    execution = {"id": "arn:execution:job-1", "name": "job-1", "startTime": "2026-11-12T20:00:00Z"}
    faults = ["COSMOS_REASON_FSP: there is no such setting; is COSMOS_REASON_FPS meant?"]
    with pytest.raises(Failure, match="is COSMOS_REASON_FPS meant") as failure:
        plan.handler({"request": {**REQUEST, "faults": faults}, "execution": execution}, None)
    assert failure.value.error.code == "InvalidInput"

"""`plan` turns a request into a job, the same one each time, or refuses it with a reason and a remedy."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.catalogue.limits import INPUT_SIZE_LIMIT, PROMPT_INLINE_LIMIT, PROMPT_LIMIT
from cosmos_batch.catalogue.pipelines import DEFAULT_PROMPT, DEFAULT_SYSTEM_PROMPT
from cosmos_batch.contract.environment import NUDGE_SECONDS, PlanEnvironment
from cosmos_batch.contract.error import Error, Failure, too_late
from cosmos_batch.contract.job import Job, OutputKey
from cosmos_batch.contract.settings import QUEUE_DAYS
from cosmos_batch.state import Callbacks, Jobs, ReservedKeys, Revisions
from infra.constructs.function_errors import PASSING
from lambdas.clients import Throttled
from lambdas.handlers.plan import handler
from lambdas.planning import plan as planning
from lambdas.scaling import nudges as nudge
from tests.lambdas.cloud import IDENTITY, LARGE, SMALL, STATE_BUCKET, Cloud

KEY = "xasset1/cameras/front/robot demo.mp4"


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(PlanEnvironment)


def plan(
    started: datetime | None = None, name: str = "job-1", schema_version: int | None = None, **request: Any
) -> dict[str, Any]:
    """Plan a request for an execution; the state machine of commit 0f4e7e0 sends no schema version."""
    version = {} if schema_version is None else {"schemaVersion": schema_version}
    started = started or datetime.now(UTC)
    execution = {"id": f"arn:execution:{name}", "name": name, "startTime": started.isoformat().replace("+00:00", "Z")}
    return handler(
        {"request": {"pipeline": SMALL, "input": f"s3://assets/{KEY}", **request}, "execution": execution, **version},
        None,
    )


def job(planned: dict[str, Any]) -> Job:
    """Return the planned job as a worker reads it."""
    return Job.model_validate_json(json.dumps(planned["job"]))


def refused(**request: Any) -> Error:
    with pytest.raises(Failure) as failure:
        plan(**request)
    assert Error.model_validate_json(str(failure.value)) == failure.value.error
    assert failure.value.error.remedy
    return failure.value.error


def test_a_request_becomes_a_job(cloud: Cloud) -> None:
    version = cloud.put(KEY)
    started = datetime.now(UTC).replace(microsecond=0)
    planned = plan(started, prompt="What happens?", parameters={"maxTokens": 9})
    result = job(planned)
    timestamp = f"{started:%Y%m%d-%H%M%S}"
    assert result.document == OutputKey(
        bucket="assets", key=f"xasset1/cameras/front/robot demo_CosmosReason_{timestamp}.json"
    )
    assert (result.job_id, result.execution_arn, result.timestamp) == ("job-1", "arn:execution:job-1", timestamp)
    assert (result.inputs[0].version_id, result.inputs[0].size, result.inputs[0].name) == (version, 5, "robot demo.mp4")
    assert result.inputs[0].etag.startswith('"')
    assert (result.prompt, result.prompt_uri, result.system_prompt) == ("What happens?", None, DEFAULT_SYSTEM_PROMPT)
    assert result.parameters.max_tokens == 9
    assert (result.created_at, result.deadline) == (started, started + timedelta(hours=1))
    assert planned["jobId"] == "job-1"
    assert planned["queueUrl"] == cloud.jobs_queue
    assert 3590 <= planned["timeoutSeconds"] <= 3600
    assert planned["heartbeatSeconds"] == planned["timeoutSeconds"] - 1


def test_planned_twice_it_is_the_same(cloud: Cloud) -> None:
    cloud.put(KEY)
    started = datetime.now(UTC)
    plan(started, name="other")
    assert plan(started)["job"] == plan(started)["job"]
    row = Jobs(cloud.table).get("job-1")
    assert row is not None and row.state == "PLANNED"


def test_a_taken_name_moves_to_the_next_free_second(cloud: Cloud) -> None:
    cloud.put("folder/clip.mp4")
    cloud.put("folder/clip.mov")
    started = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
    deadline = (datetime.now(UTC) + timedelta(days=9)).isoformat()
    first = plan(started, "a", input="s3://assets/folder/clip.mp4", deadline=deadline)
    second = plan(started, "b", input="s3://assets/folder/clip.mov", deadline=deadline)
    assert job(first).document.key == "folder/clip_CosmosReason_20261231-235959.json"
    assert job(second).document.key == "folder/clip_CosmosReason_20270101-000000.json"
    assert job(second).timestamp == "20270101-000000"
    assert ReservedKeys(cloud.table).owner("assets", job(second).document.key) == "b"


@pytest.mark.parametrize(
    ("request_", "directory"),
    [
        ({"output": "s3://assets/out/", "asset_id": "xasset1"}, "out/cameras/front/"),
        ({"output": "s3://assets/out", "asset_id": "xasset1"}, "out/cameras/front/"),
        ({"output": "s3://assets/out/"}, "out/"),
        ({"output": "s3://assets", "asset_id": "xasset1"}, "cameras/front/"),
        ({"output": "s3://plain/inbox"}, "inbox/"),
        ({"output": "s3://assets/out/", "asset_id": "elsewhere"}, "out/"),
    ],
)
def test_the_relative_directory_is_kept(cloud: Cloud, request_: dict[str, str], directory: str) -> None:
    cloud.put(KEY)
    camel = {"assetId" if name == "asset_id" else name: value for name, value in request_.items()}
    assert job(plan(**camel)).document.key.startswith(f"{directory}robot demo_CosmosReason_")


def test_dots_in_a_key_do_not_leave_the_prefix(cloud: Cloud) -> None:
    cloud.put("xasset1/../../secret/clip.mp4")
    planned = plan(input="s3://assets/xasset1/../../secret/clip.mp4", output="s3://assets/out/", assetId="xasset1")
    assert job(planned).document.key.startswith("out/%2E%2E/%2E%2E/secret/clip_CosmosReason_")


@pytest.mark.parametrize("blank", [None, "", " \n"])
def test_a_blank_prompt_is_the_default(cloud: Cloud, blank: str | None) -> None:
    cloud.put(KEY)
    assert job(plan(prompt=blank)).prompt == DEFAULT_PROMPT


def test_a_long_prompt_is_sent_as_an_s3_uri(cloud: Cloud) -> None:
    cloud.put(KEY)
    result = job(plan(prompt="é" * PROMPT_INLINE_LIMIT))
    assert (result.prompt, result.prompt_uri) == (None, f"s3://{STATE_BUCKET}/requests/job-1/question.txt")
    text = cloud.s3.get_object(Bucket=STATE_BUCKET, Key="requests/job-1/question.txt")["Body"].read().decode()
    assert text == "é" * PROMPT_INLINE_LIMIT


def test_a_prompt_may_lie_in_s3(cloud: Cloud) -> None:
    cloud.put(KEY)
    cloud.put("prompts/mine.txt", "Qué?".encode())
    cloud.put("inbox/mine.txt", "Qué?".encode(), bucket="plain")
    cloud.put("requests/job-1/prompt.txt", "Qué?".encode(), bucket=STATE_BUCKET)
    for place in ("assets/prompts/mine.txt", "plain/inbox/mine.txt", f"{STATE_BUCKET}/requests/job-1/prompt.txt"):
        result = job(plan(promptUri=f"s3://{place}"))
        assert (result.prompt, result.prompt_uri) == ("Qué?", None)
    assert job(plan(prompt=" ", promptUri="s3://assets/prompts/mine.txt")).prompt == "Qué?"


def test_a_long_prompt_in_s3_is_kept_as_it_was_when_planned(cloud: Cloud) -> None:
    cloud.put(KEY)
    cloud.put("long.txt", b"x" * PROMPT_LIMIT)
    result = job(plan(promptUri="s3://assets/long.txt"))
    assert (result.prompt, result.prompt_uri) == (None, f"s3://{STATE_BUCKET}/requests/job-1/question.txt")
    kept = cloud.s3.get_object(Bucket=STATE_BUCKET, Key="requests/job-1/question.txt")["Body"].read()
    assert kept == b"x" * PROMPT_LIMIT


@pytest.mark.parametrize(
    ("content", "message"), [("é".encode("latin-1"), "UTF-8"), ("é".encode("utf-16"), "UTF-8"), (b" \n", "empty")]
)
def test_a_prompt_in_s3_is_text(cloud: Cloud, content: bytes, message: str) -> None:
    cloud.put(KEY)
    cloud.put("p.txt", content)
    error = refused(promptUri="s3://assets/p.txt")
    assert error.code == "InvalidInput" and message in error.message


@pytest.mark.parametrize(("size", "fits"), [(INPUT_SIZE_LIMIT, True), (INPUT_SIZE_LIMIT + 1, False)])
def test_an_input_must_fit_on_a_workers_disk(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, size: int, fits: bool
) -> None:
    cloud.put(KEY)
    real = cloud.s3.head_object
    monkeypatch.setattr(cloud.s3, "head_object", lambda **arguments: {**real(**arguments), "ContentLength": size})
    if fits:
        assert job(plan()).input.size == size
    else:
        error = refused()
        assert error.code == "InvalidInput" and "20 GiB" in error.remedy


@pytest.mark.parametrize("request_", [{"input": "s3://elsewhere/clip.mp4"}, {"output": "s3://elsewhere/out/"}])
def test_a_place_elsewhere_is_refused_with_the_allowed_ones(cloud: Cloud, request_: dict[str, str]) -> None:
    cloud.put(KEY)
    assert refused(**request_).remedy.endswith("below one of: assets, plain/inbox/.")


@pytest.mark.parametrize("key", ["requests/job-2/prompt.txt", "jobs/job-1/a/document.json"])
def test_a_pointer_into_our_bucket_is_refused_unless_it_is_the_jobs_own(cloud: Cloud, key: str) -> None:
    cloud.put(KEY)
    cloud.put(key, b"of another", bucket=STATE_BUCKET)
    assert "promptUri" in refused(promptUri=f"s3://{STATE_BUCKET}/{key}").message


@pytest.mark.parametrize("size", [0, PROMPT_LIMIT + 1])
def test_a_prompt_in_s3_has_a_size(cloud: Cloud, size: int) -> None:
    cloud.put(KEY)
    cloud.put("p.txt", b"x" * size)
    assert "prompt" in refused(promptUri="s3://assets/p.txt").message


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"pipeline": "no-such"}, SMALL),
        ({"pipeline": LARGE}, "not enabled"),
        ({"input": None}, "is missing"),
        ({"input": "clip.mp4"}, "must be an S3 URI"),
        ({"input": "s3://assets/missing.mp4"}, "does not exist"),
        ({"input": "s3://assets/folder/"}, "folder"),
        ({"input": "s3://assets"}, "folder"),
        ({"input": "s3://assets/notes.txt"}, "'.txt' or .txt"),
        ({"input": "s3://assets/noextension"}, "no extension"),
        ({"input": "s3://assets/empty.mp4"}, "is empty"),
        ({"input": "s3://elsewhere/clip.mp4"}, "outside"),
        ({"input": "s3://plain/outbox/clip.mp4"}, "outside"),
        ({"input": "s3://assets/" + "x" * 1025 + ".mp4"}, "1024 bytes"),
        ({"output": "s3://elsewhere/out/"}, "outside"),
        ({"output": "s3://plain/inboxes/"}, "outside"),
        ({"output": "s3://assets/" + "x" * 1010}, "no room"),
        ({"prompt": "x" * (PROMPT_LIMIT + 1)}, "32,769 bytes"),
        ({"promptt": "typed wrong"}, "unknown field"),
        ({"parameters": {"maxTokens": 0}}, "parameters.maxTokens"),
        ({"inputVersionId": "no-such-version"}, "version no-such-version"),
    ],
)
def test_what_cannot_be_done_is_refused(cloud: Cloud, request_: dict[str, Any], message: str) -> None:
    cloud.put(KEY)
    cloud.put("empty.mp4", b"")
    error = refused(**request_)
    assert error.code == "InvalidInput"
    assert any(part in error.message + error.remedy for part in message.split(" or "))
    assert cloud.messages(cloud.nudges) == []


@pytest.mark.parametrize("request_", ["a string", None, ["list"]])
def test_an_input_that_is_no_object_is_explained(cloud: Cloud, request_: object) -> None:
    execution = {"id": "arn", "name": "job-1", "startTime": "2026-11-12T00:00:00Z"}
    with pytest.raises(Failure, match="not a JSON object"):
        handler({"request": request_, "execution": execution}, None)


def test_a_deleted_file_is_distinguished_from_a_missing_file(cloud: Cloud) -> None:
    version = cloud.put(KEY)
    cloud.s3.delete_object(Bucket="assets", Key=KEY)
    assert "was deleted" in refused().message
    assert "was deleted" in refused(inputVersionId=version).message


def test_a_file_that_may_not_be_read_is_distinguished_from_a_missing_file(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"Error": {"Code": "403"}, "ResponseMetadata": {"HTTPStatusCode": 403, "HTTPHeaders": {}}}

    def forbidden(**_: str) -> None:
        raise cloud.s3.exceptions.ClientError(answer, "HeadObject")

    monkeypatch.setattr(cloud.s3, "head_object", forbidden)
    assert "has no permission to read" in refused().message


def test_an_older_version_can_be_asked_for(cloud: Cloud) -> None:
    old = cloud.put(KEY, b"old one")
    cloud.put(KEY, b"new")
    assert job(plan(inputVersionId=old)).input.size == 7


def test_a_deadline_in_the_past_has_timed_out(cloud: Cloud) -> None:
    cloud.put(KEY)
    assert refused(deadline="2020-01-01T00:00:00Z") == too_late(datetime(2020, 1, 1, tzinfo=UTC))


def test_a_deadline_that_is_later_than_its_queue_keeps_the_job_is_refused(cloud: Cloud) -> None:
    cloud.put(KEY)
    kept = datetime.now(UTC) + timedelta(days=QUEUE_DAYS)
    error = refused(deadline=(kept + timedelta(hours=1)).isoformat())
    assert error.code == "InvalidInput" and "10 days" in error.message and "earlier deadline" in error.remedy
    assert plan(deadline=(kept - timedelta(hours=1)).isoformat())["timeoutSeconds"] > 9 * 86_400


def test_a_close_deadline_still_has_a_heartbeat(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    assert planning.SHORTEST_WAIT - 1 >= 1
    # The deadline is 900 s away, so this floor applies however slow the machine is.
    monkeypatch.setattr(planning, "SHORTEST_WAIT", 1000)
    cloud.put(KEY)
    planned = plan(deadline=(datetime.now(UTC) + timedelta(seconds=900)).isoformat())
    assert (planned["timeoutSeconds"], planned["heartbeatSeconds"]) == (1000, 999)


def test_a_typed_callback_is_kept_even_where_the_request_is_refused(cloud: Cloud) -> None:
    assert "typed-token" not in refused(callback="typed-token", unknown=1).model_dump_json()
    assert Callbacks(cloud.table).waiting("job-1") == "typed-token"


def test_many_plans_in_a_moment_are_one_nudge(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.put(KEY)
    clock = [1000 * NUDGE_SECONDS + 0.1]
    monkeypatch.setattr(nudge.time, "time", lambda: clock[0])
    for number in range(5):
        plan(name=f"job-{number}")
    assert cloud.messages(cloud.nudges) == [{"pipeline": SMALL}]
    clock[0] += NUDGE_SECONDS
    plan(name="later")
    assert len(cloud.messages(cloud.nudges)) == 2


def test_message_groups_distinguish_callers_without_naming_them(cloud: Cloud) -> None:
    cloud.put(KEY)
    groups = {caller: plan(name=f"job-{n}", caller=caller)["messageGroup"] for n, caller in enumerate(["ann", "bob"])}
    assert groups["ann"] != groups["bob"]
    assert plan(name="job-2", caller="ann")["messageGroup"] == groups["ann"]
    assert plan(name="job-3")["messageGroup"] == plan(name="job-4")["messageGroup"]
    assert all(re.fullmatch(r"[0-9a-f]{32}", group) for group in groups.values())


def plan_for(schema_version: int | None, **request: Any) -> dict[str, Any]:
    """Return the job that `plan` makes for a state machine with this schema version, or with none."""
    version = {} if schema_version is None else {"schemaVersion": schema_version}
    execution = {"id": "arn:execution:job-1", "name": "job-1", "startTime": datetime.now(UTC).isoformat()}
    content = {"pipeline": SMALL, "input": f"s3://assets/{KEY}", **request}
    planned = handler({"request": content, "execution": execution, **version}, None)
    body: dict[str, Any] = planned["job"]
    return body


def test_a_job_names_the_identity_that_it_was_planned_for(cloud: Cloud) -> None:
    cloud.put(KEY)
    assert plan_for(4)["plannedFor"] == IDENTITY.model_dump(mode="json")


def test_a_job_of_an_older_execution_has_only_the_older_fields(cloud: Cloud) -> None:
    """Workers of commit 0f4e7e0 fail a job that has a field that they do not know."""
    cloud.put(KEY)
    body = plan_for(None)
    assert set(body) <= {
        *("jobId", "executionArn", "pipeline", "input", "moreInputs", "prompt", "promptUri", "systemPrompt"),
        *("parameters", "generation", "origin", "document", "timestamp", "createdAt", "deadline", "invalidateModel"),
    }
    assert {"input", "prompt", "promptUri", "parameters"} <= set(body), "these had no default"
    assert Job.model_validate_json(json.dumps(body)).planned_for is None


def test_a_job_is_planned_for_the_commit_that_is_recorded(cloud: Cloud) -> None:
    cloud.put(KEY)
    assert plan_for(4)["plannedFor"]["revision"] is None, "no worker has resolved it yet"
    Revisions(cloud.table, SMALL).record(IDENTITY.model, "main", "1" * 40)
    Revisions(cloud.table, LARGE).record(IDENTITY.model, "main", "2" * 40)
    assert plan_for(4)["plannedFor"]["revision"] == "1" * 40


def test_a_job_that_asks_for_a_new_copy_names_no_commit(cloud: Cloud) -> None:
    """Such a job replaces the recorded commit."""
    cloud.put(KEY)
    Revisions(cloud.table, SMALL).record(IDENTITY.model, "main", "1" * 40)
    assert plan_for(4, invalidateModel=True)["plannedFor"]["revision"] is None


@pytest.mark.parametrize(
    ("service", "operation", "status", "code"),
    [
        ("s3", "HeadObject", 503, "503"),
        ("s3", "GetObject", 503, "SlowDown"),
        ("sqs", "SendMessage", 403, "RequestThrottled"),
        ("ssm", "GetParameters", 400, "ThrottlingException"),
        ("dynamodb", "PutItem", 400, "RequestLimitExceeded"),
    ],
)
def test_a_throttled_call_is_tried_again_until_the_deadline(
    cloud: Cloud, service: str, operation: str, status: int, code: str
) -> None:
    cloud.put(KEY)
    cloud.put("prompt.txt", b"What happens?")

    def throttle(**_: object) -> None:
        answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(answer, operation)

    events, hook = getattr(cloud, service).meta.events, f"before-call.{service}.{operation}"
    events.register(hook, throttle)
    try:
        with pytest.raises(Throttled):
            plan(promptUri="s3://assets/prompt.txt")
    finally:
        events.unregister(hook, throttle)
    assert Throttled.__name__ in PASSING, "the state machine knows it by the name of its class"
    assert job(plan(promptUri="s3://assets/prompt.txt")).prompt == "What happens?"

"""`plan` settles a generation and finds each file that it names; `upload` starts what COSMOS3 keys and requests ask."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from cosmos_batch.catalogue.limits import PROMPT_LIMIT
from cosmos_batch.contract.environment import PlanEnvironment, UploadEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.s3 import OBJECT_MARKER
from cosmos_batch.planning.generation.actions import INLINE_LIMIT
from cosmos_batch.state import Jobs, ReservedKeys
from lambdas.handlers import upload
from lambdas.handlers.plan import handler
from tests.lambdas.cloud import LARGE, NANO, SMALL, STATE_BUCKET, Cloud, event, sqs_batch

SERVING = Serving(engine="my.module:Engine", guardrails=True, max_resolution="720p", plans={})
STARTED = datetime(2126, 4, 10, 16, 50, 29, tzinfo=UTC)
STAMP = "21260410-165029"


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(UploadEnvironment, generator=SERVING, grace_seconds=0)
    configure(PlanEnvironment, generator=SERVING)


def plan(name: str = "job-1", **request: Any) -> Job:
    """Plan a request and return the job as a worker reads it."""
    execution = {"id": f"arn:execution:{name}", "name": name, "startTime": STARTED.isoformat()}
    planned = handler({"request": {"pipeline": NANO, **request}, "execution": execution}, None)
    return Job.model_validate_json(json.dumps(planned["job"]))


def made(job: Job) -> Generation:
    assert job.generation is not None
    return job.generation


def refused(**request: Any) -> Error:
    with pytest.raises(Failure) as failure:
        plan(**request)
    assert failure.value.error.code == "InvalidInput" and failure.value.error.remedy
    return failure.value.error


def uploaded(cloud: Cloud, key: str, body: bytes = b"hello", **arguments: Any) -> list[dict[str, Any]]:
    """Return the requests that an uploaded file starts, as `plan` receives them."""
    version = cloud.put(key, body, **arguments)
    created = event("s3_object_created")
    created["detail"]["bucket"]["name"] = "assets"
    created["detail"]["object"] |= {"key": key, "version-id": version}
    assert upload.handler(sqs_batch(created), None) == {"batchItemFailures": []}
    return [execution["input"] for execution in cloud.executions()]


def test_text_becomes_a_video(cloud: Cloud) -> None:
    request = {"prompt": "A robot.", "output": "s3://assets/out/", "parameters": {"mode": "text2video", "seed": "7"}}
    job = plan(**request)
    assert (made(job).mode, made(job).prompt, made(job).seed, made(job).num_frames) == ("t2v", "A robot.", 7, 189)
    assert (job.document.key, job.input, job.inputs, job.prompt) == (f"out/cosmos3-nano-{STAMP}.json", None, [], None)
    assert ReservedKeys(cloud.table).owner("assets", job.document.key) == "job-1"
    row = Jobs(cloud.table).get("job-1")
    assert row is not None and row.input is None
    assert plan(**request) == job
    assert plan("job-2", **request).document.key == "out/cosmos3-nano-21260410-165030.json"


def test_the_largest_job_passes_through_step_functions(cloud: Cloud) -> None:
    """Its prompts are as long as accepted, six bytes per character as JSON, and it has the most actions."""
    cloud.put("car.png")
    text = "é" * (PROMPT_LIMIT // 2)
    action = [[-0.1234567890123] * 9] * 196
    assert len(json.dumps(action)) > INLINE_LIMIT - 1024
    parameters = {"mode": "forward_dynamics", "domainName": "av", "action": action, "negativePrompt": text}
    request = {"pipeline": NANO, "prompt": text, "input": "s3://assets/car.png", "parameters": parameters}
    execution = {"id": "arn:execution:large", "name": "large", "startTime": STARTED.isoformat()}
    planned = handler({"request": request, "execution": execution}, None)
    for state in (request, planned):
        assert len(json.dumps(state)) < 256 * 1024 - 4096, (
            "which keeps 256 KiB of a state; the task's token comes to it"
        )


def test_the_same_prompt_has_another_seed_in_another_job() -> None:
    request = {"prompt": "A robot.", "output": "s3://assets/"}
    assert made(plan("a", **request)).seed == made(plan("a", **request)).seed != made(plan("b", **request)).seed


def test_a_structured_prompt_is_written_as_json(cloud: Cloud) -> None:
    job = plan(prompt={"duration": "7s"}, output="s3://assets/out/")
    assert (made(job).prompt, made(job).use_duration_template) == ('{"duration": "7s"}', False)


@pytest.mark.parametrize(("name", "mode"), [("car.png", "i2v"), ("car.mp4", "v2v")])
def test_a_file_becomes_a_video(cloud: Cloud, name: str, mode: str) -> None:
    version = cloud.put(f"shots/{name}")
    job = plan(prompt="It drives.", input=f"s3://assets/shots/{name}")
    assert (made(job).mode, job.document.key) == (mode, f"shots/car_Cosmos3_nano_{STAMP}.json")
    assert job.input is not None and job.input.version_id == version


def test_control_videos_are_found_beside_the_input_or_by_uri(cloud: Cloud) -> None:
    for key in ("in/car.mp4", "in/depth.mp4", "seg.mp4"):
        cloud.put(key)
    controls = {"seg": "s3://assets/seg.mp4", "edge": True, "depth": {"control_path": "depth.mp4"}}
    job = plan(prompt="x", input="s3://assets/in/car.mp4", parameters={"mode": "transfer", **controls})
    assert [file.key for file in job.inputs] == ["in/car.mp4", "in/depth.mp4", "seg.mp4"]
    alone = plan("b", prompt="x", output="s3://assets/", parameters={"mode": "transfer", "seg": "s3://assets/seg.mp4"})
    assert (alone.input, [file.key for file in alone.more_inputs]) == (None, ["seg.mp4"])


def test_actions_are_found_beside_the_input(cloud: Cloud) -> None:
    cloud.put("in/car.png")
    cloud.put("in/moves.json", b"[]")
    parameters = {"action_mode": "forward_dynamics", "domain_name": "av", "action_path": "moves.json"}
    assert [
        file.key for file in plan(prompt="x", input="s3://assets/in/car.png", parameters=parameters).more_inputs
    ] == ["in/moves.json"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"maxTokens": 9}, "maxTokens"),
        ({"mode": "transfer", "seg": "seg.mp4"}, "not an S3 URI"),
        ({"mode": "transfer", "seg": "s3://elsewhere/seg.mp4"}, "outside"),
        ({"mode": "transfer", "seg": "s3://assets/seg.pdf"}, ".pdf"),
        ({"mode": "transfer", "seg": "s3://assets/none.mp4"}, "does not exist"),
    ],
)
def test_invalid_parameters_are_named_in_the_error(parameters: dict[str, Any], message: str) -> None:
    assert message in refused(prompt="x", output="s3://assets/out/", parameters=parameters).message


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"prompt": "x"}, "output: is missing"),
        ({"output": "s3://assets/"}, "prompt: is missing"),
        ({"prompt": "x", "output": "s3://elsewhere/"}, "outside"),
        ({"prompt": "x", "parameters": [], "output": "s3://assets/"}, "parameters"),
        (
            {"prompt": "x", "parameters": {}, "generation": {}, "output": "s3://assets/"},
            "`parameters` and `generation`",
        ),
    ],
)
def test_missing_files_and_other_buckets_are_named_in_the_error(request_: dict[str, Any], message: str) -> None:
    assert message in refused(**request_).message


@pytest.mark.parametrize(("name", "mode"), [("car.png", "i2v"), ("car.mp4", "v2v")])
def test_a_prompt_in_the_metadata_of_a_file_starts_a_generator(cloud: Cloud, name: str, mode: str) -> None:
    keys = {"cosmos3_prompt": "It drives.", "cosmos3-seed": "7", "cosmos3_num_frames": "93"}
    [request] = uploaded(cloud, name, Metadata=keys)
    job = plan(**request)
    assert (made(job).mode, made(job).prompt, made(job).seed, made(job).num_frames) == (mode, "It drives.", 7, 93)


def test_metadata_of_the_file_replaces_parameters_of_the_request(cloud: Cloud) -> None:
    cloud.put("car.png")
    request = {"prompt": "x", "input": "s3://assets/car.png", "parameters": {"seed": 3, "steps": 9}}
    job = plan(**request, metadata={"COSMOS3_SEED": "7"})
    assert (made(job).seed, made(job).steps) == (7, 9)


def test_both_kinds_of_prompt_start_both(cloud: Cloud) -> None:
    keys = {"cosmos3_prompt": "It drives.", "cosmos_reason_prompt": "What is it?", "cosmos_pipeline": LARGE}
    requests = uploaded(cloud, "car.png", Metadata=keys)
    assert {(request["pipeline"], request["prompt"]) for request in requests} == {
        (LARGE, "What is it?"),
        (NANO, "It drives."),
    }


def test_a_question_alone_starts_no_generator(cloud: Cloud) -> None:
    [request] = uploaded(cloud, "car.png", Metadata={"cosmos_reason_prompt": "What is it?"})
    assert request["pipeline"] == SMALL


def test_plan_reports_invalid_metadata(cloud: Cloud) -> None:
    [request] = uploaded(cloud, "car.png", Metadata={"cosmos3_prompt": "x", "cosmos3_control_path": "a.mp4"})
    assert "COSMOS3_CONTROL_TYPE" in refused(**request).message


def test_an_uploaded_request_file_is_a_complete_request(cloud: Cloud) -> None:
    cloud.put("in/car.png")
    content = {"prompt": " ".join(["It drives."] * 2000), "input": "car.png", "num_steps": 40, "seed": 3}
    [request] = uploaded(cloud, "in/drive.cosmos.json", json.dumps(content).encode())
    assert len(json.dumps(request)) < 1000, "an execution's input is small"
    job = plan(**request)
    assert (made(job).mode, made(job).steps, made(job).seed) == ("i2v", 40, 3)
    assert made(job).prompt == content["prompt"] and job.document.key == f"in/car_Cosmos3_nano_{STAMP}.json"


@pytest.mark.parametrize(
    ("body", "message"), [(b"{", "not JSON"), (b'{"prompt": "a", "fps": 0}', "fps"), (b" " * 2**21, "bytes")]
)
def test_plan_reports_a_broken_request_file(cloud: Cloud, body: bytes, message: str) -> None:
    [request] = uploaded(cloud, "broken.cosmos.json", body)
    assert request["pipeline"] == NANO and message in refused(**request).message


def test_fields_of_a_request_replace_those_of_its_file(cloud: Cloud) -> None:
    for name in ("car.png", "bus.png"):
        cloud.put(name)
    content = {"prompt": "It drives.", "input": "car.png", "seed": 3, "steps": 9, "maxSequenceLength": 777}
    [request] = uploaded(cloud, "drive.cosmos.json", json.dumps(content).encode())
    job = plan(**request, prompt="It stops.", input="s3://assets/bus.png", parameters={"seed": 7})
    assert job.input is not None and job.input.name == "bus.png"
    assert (made(job).prompt, made(job).seed, made(job).steps) == ("It stops.", 7, 9)
    assert made(job).max_sequence_length == 777


_PIXELS, _PRESET = {"width": 832, "height": 480}, {"resolution": "480p", "aspectRatio": "1:1"}


@pytest.mark.parametrize(
    ("theirs", "own", "size"), [(_PIXELS, {"resolution": "256p"}, (320, 192)), (_PRESET, _PIXELS, (832, 480))]
)
def test_a_size_beside_a_request_file_replaces_its_own(
    cloud: Cloud, theirs: dict[str, Any], own: dict[str, Any], size: tuple[int, int]
) -> None:
    [request] = uploaded(cloud, "rain.cosmos.json", json.dumps({"prompt": "Rain.", **theirs}).encode())
    generation = made(plan(**request, parameters=own))
    assert (generation.width, generation.height) == size


def test_a_request_file_lies_within_the_buckets() -> None:
    place = f"s3://{STATE_BUCKET}/a.cosmos.json"
    assert "lies outside" in refused(requestFile=place).message


def test_an_uploaded_document_is_generated_again_from_the_same_versions_of_its_files(cloud: Cloud) -> None:
    """Its name is that of a document we wrote, and newer versions of its files exist."""
    versions = [cloud.put(key) for key in ("in/car.mp4", "in/depth.mp4")]
    parameters = {"mode": "transfer", "edge": True, "depth": "depth.mp4", "seed": 3}
    before = plan(prompt="x", input="s3://assets/in/car.mp4", parameters=parameters)
    files = [
        {"uri": f"s3://assets/in/{name}.mp4", "versionId": one}
        for name, one in zip(("car", "depth"), versions, strict=True)
    ]
    document = {
        "pipeline": NANO, "model": "m", "revision": "r", "engine": "e", "input": files[0], "moreInputs": files[1:],
        "generation": json.loads(made(before).model_dump_json()),
    }  # fmt: skip
    for key in ("in/car.mp4", "in/depth.mp4"):
        cloud.put(key, b"newer")
    name = f"car_Cosmos3_nano_{STAMP}.cosmos.json"
    [request] = uploaded(cloud, f"again/{name}", json.dumps(document).encode(), Metadata={OBJECT_MARKER: "job-1"})
    job = plan("job-2", **request)
    assert [file.version_id for file in job.inputs] == versions
    assert (made(job).seed, job.document.key) == (3, f"again/car_Cosmos3_nano_{STAMP}.json")
    assert job.origin is not None and job.origin.engine == "e"
    cloud.client("s3").delete_object(Bucket="assets", Key="in/car.mp4")
    assert "s3://assets/in/car.mp4 was deleted" in refused(**request).message


def test_generating_again_keeps_the_upsampled_prompt_and_the_original(cloud: Cloud) -> None:
    """If the caller sends another prompt, the earlier caller's prompt is dropped."""
    before = made(plan(prompt='{"subjects": ["a robot"]}', output="s3://assets/out/", parameters={"seed": 3}))
    written = before.model_copy(update={"given_prompt": "A robot."})
    document = {
        "pipeline": NANO, "model": "m", "revision": "r", "engine": "e", "input": None, "moreInputs": [],
        "generation": json.loads(written.model_dump_json()),
    }  # fmt: skip
    [request] = uploaded(cloud, "again/robot.cosmos.json", json.dumps(document).encode())
    assert made(plan("job-2", **request)) == written
    other = made(plan("job-3", **request, prompt="A cube."))
    assert (other.prompt, other.given_prompt) == ("A cube.", None)


@pytest.mark.parametrize(
    "name",
    [
        f"car_Cosmos3_nano_{STAMP}.mp4",
        f"car_Cosmos3_super-image2video_{STAMP}.mp4.previewFile.gif",
        f"cosmos3-nano-{STAMP}.png",
        f"cosmos3-super-text2image-{STAMP}.contactSheet.jpg",
    ],
)
def test_a_generated_file_starts_nothing(cloud: Cloud, name: str) -> None:
    assert uploaded(cloud, f"in/{name}", Metadata={"cosmos3_prompt": "x"}) == []

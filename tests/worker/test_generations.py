"""A generation from its message to its files in S3, on moto and with a generator engine without a model."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.generation.document import DocumentedGuardrails, GeneratorDocument
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.origin import Origin
from cosmos_batch.contract.generation.serving import ParallelPlan, Serving
from cosmos_batch.contract.job import InputFile, Job, OutputKey
from cosmos_batch.engines.protocol import GuardrailEngine
from cosmos_batch.media import VideoInfo, probe
from cosmos_batch.worker import costs
from cosmos_batch.worker.assembly import engine_for
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.documents import UNGUARDED
from tests.support import media_files
from tests.support.generations import settled
from tests.support.scripted_generator import ScriptedGenerator
from tests.worker.conftest import ASSETS, InProcessWorker, WorkerFixture

SMALL = {"width": 64, "height": 64, "num_frames": 5, "fps": 29.97}
SERVING = Serving(engine="my.module:Engine", guardrails=True, max_resolution="720p", plans={"L40S": ParallelPlan(tp=2)})


def put(bench: WorkerFixture, key: str, body: bytes) -> InputFile:
    """Upload a file of a job."""
    answer = bench.s3.put_object(Bucket=ASSETS, Key=key, Body=body)
    return InputFile(bucket=ASSETS, key=key, version_id=answer["VersionId"], etag=answer["ETag"], size=len(body))


def planned(bench: WorkerFixture, request: dict[str, Any], script: dict[str, Any] | None = None, **changes: Any) -> Job:
    """Plan and send a generation, from text unless `input` is among the changes."""
    input_file = changes.get("input")
    medium: Any = None if input_file is None else "image" if input_file.name.endswith("png") else "video"
    prompt = "A robot." if script is None else json.dumps(script)
    generation = settled(request, medium, prompt)
    job = bench.job(**{"input": None, "pipeline": "cosmos3-nano", "prompt": None, "generation": generation, **changes})
    bench.send(job)
    return job


def run(bench: WorkerFixture, engine: ScriptedGenerator | None = None, serving: Serving = SERVING) -> None:
    environment = bench.environment("worker-1").model_copy(update={"pipeline": "cosmos3-nano", "serving": serving})
    InProcessWorker(bench, environment, engine or ScriptedGenerator(), None).run()


def written(bench: WorkerFixture, folder: Path) -> dict[str, Path]:
    """Download the delivered files, and return their paths by ending."""
    paths = {}
    for item in bench.s3.list_objects_v2(Bucket=ASSETS, Prefix="out/").get("Contents", []):
        ending = item["Key"].removeprefix("out/one")
        paths[ending] = folder / f"final{ending}"
        paths[ending].write_bytes(bench.s3.get_object(Bucket=ASSETS, Key=item["Key"])["Body"].read())
    return paths


def failure(bench: WorkerFixture) -> dict[str, Any]:
    [call] = bench.stepfunctions.calls_of("failure")
    assert bench.s3.list_objects_v2(Bucket=ASSETS, Prefix="out/")["KeyCount"] == 0
    error: dict[str, Any] = call
    return error


def test_a_video_is_generated_from_text(bench: WorkerFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "gpus_here", lambda: 2)
    planned(bench, {"mode": "t2v", "sound": True, "contact_sheet": True, "seed": 7, **SMALL})
    run(bench)
    files = written(bench, tmp_path)
    assert sorted(files) == [".contactSheet.jpg", ".json", ".mp4", ".mp4.previewFile.gif"]
    video = probe(files[".mp4"])
    assert isinstance(video, VideoInfo) and (video.width, video.height, len(video.timeline.times)) == (64, 64, 5)
    document = GeneratorDocument.model_validate_json(files[".json"].read_text())
    assert (document.generation.seed, document.generation.prompt, document.input) == (7, "A robot.", None)
    assert [(one.file, one.role, one.size) for one in document.files] == [
        ("one.mp4", "video", files[".mp4"].stat().st_size),
        ("one.mp4.previewFile.gif", "preview", files[".mp4.previewFile.gif"].stat().st_size),
        ("one.contactSheet.jpg", "contactSheet", files[".contactSheet.jpg"].stat().st_size),
    ]
    assert document.attribution == "Built on NVIDIA Cosmos" and "Nothing in it is real." in document.notes
    assert document.gpus == 2 and document.gpu_seconds == pytest.approx(2 * document.timings["infer"], abs=0.002)
    assert "scripted generator is ready" in document.job_logs and "made one" in document.job_logs
    [call] = bench.stepfunctions.calls_of("success")
    outputs = json.loads(call["output"])["outputs"]
    assert [one["uri"] for one in outputs] == [
        f"s3://{ASSETS}/out/one{ending}" for ending in (".json", ".mp4", ".mp4.previewFile.gif", ".contactSheet.jpg")
    ]
    made = hashlib.sha256(files[".mp4"].read_bytes()).hexdigest()
    assert [one.get("sha256") for one in outputs[:2]] == [None, made]
    for one in outputs:
        head = bench.s3.head_object(Bucket=ASSETS, Key=one["uri"].removeprefix(f"s3://{ASSETS}/"))
        assert head["ContentType"] == one["contentType"] and head["Metadata"] == {"cosmos-batch-job": "one"}
    assert [one["contentType"] for one in outputs] == ["application/json", "video/mp4", "image/gif", "image/jpeg"]


def test_notes_of_request_and_output_are_in_the_document(bench: WorkerFixture, tmp_path: Path) -> None:
    """A video that only looks wrong, such as one of a single color, is delivered with a note."""
    planned(bench, {"mode": "t2v", **SMALL, "num_frames": 6, "preview": False}, {"black": True})
    run(bench)
    notes = GeneratorDocument.model_validate_json(written(bench, tmp_path)[".json"].read_text()).notes
    assert "6 frames became 9: the model generates 4k+1 frames." in notes
    assert "All 9 frames of the video are alike: black." in notes


def test_the_cost_is_that_of_the_generation_alone(
    bench: WorkerFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's own time counts, because fetching inputs and storing files need no GPU."""
    monkeypatch.setattr(costs, "gpus_here", lambda: 2)
    planned(bench, {"mode": "t2i", "width": 64, "height": 64}, {"timings": {"generate": 0.25}})
    run(bench)
    assert GeneratorDocument.model_validate_json(written(bench, tmp_path)[".json"].read_text()).gpu_seconds == 0.5


def test_an_image_is_generated_from_text(bench: WorkerFixture, tmp_path: Path) -> None:
    planned(bench, {"mode": "t2i", "width": 64, "height": 64, "guardrails": False})
    run(bench)
    files = written(bench, tmp_path)
    assert sorted(files) == [".json", ".png"]
    assert "The guardrails were off" in files[".json"].read_text()


def test_a_video_from_an_image_has_its_aspect_ratio(bench: WorkerFixture, tmp_path: Path) -> None:
    picture = media_files.image(tmp_path / "wide.png", 128, 72).read_bytes()
    planned(bench, {"resolution": "256p", "num_frames": 5, "preview": False}, input=put(bench, "in/wide.png", picture))
    run(bench)
    files = written(bench, tmp_path)
    document = GeneratorDocument.model_validate_json(files[".json"].read_text())
    assert sorted(files) == [".json", ".mp4"]
    assert document.input is not None and document.input.uri == f"s3://{ASSETS}/in/wide.png"
    assert (document.generation.width, document.generation.height) == (320, 192)


def test_a_control_video_is_followed(bench: WorkerFixture, tmp_path: Path) -> None:
    depth = put(bench, "in/depth.mp4", media_files.video(tmp_path / "depth.mp4").read_bytes())
    request = {"mode": "transfer", "controls": {"depth": {"path": "depth.mp4"}}, "resolution": "256p", "preview": False}
    origin = Origin(model="nvidia/Cosmos3-Nano", revision="1234", engine="diffusers 0.38.0", files=[])
    planned(bench, request, more_inputs=[depth], origin=origin)
    run(bench)
    document = GeneratorDocument.model_validate_json(written(bench, tmp_path)[".json"].read_text())
    assert document.generation.fps == 10 and [one.uri for one in document.more_inputs] == [
        f"s3://{ASSETS}/in/depth.mp4"
    ]
    [difference] = [note for note in document.notes if "not the same" in note]
    assert (
        "the original, by diffusers 0.38.0 with nvidia/Cosmos3-Nano at 1234" in difference
        and "Made by scripted" in difference
    )


def test_a_control_video_whose_length_is_not_4k_plus_1_is_followed_as_far_as_the_model_can(
    bench: WorkerFixture, tmp_path: Path
) -> None:
    """40 frames are requested and rounded up to 41. The control video has 40, of which the model follows 37."""
    edge = put(bench, "in/edge.mp4", media_files.video(tmp_path / "edge.mp4", frames=40).read_bytes())
    request = {"mode": "transfer", "controls": {"edge": {"path": "edge.mp4"}}, "resolution": "256p", "num_frames": 40}
    planned(bench, {**request, "preview": False}, more_inputs=[edge])
    run(bench)
    files = written(bench, tmp_path)
    video = probe(files[".mp4"])
    assert isinstance(video, VideoInfo) and len(video.timeline.times) == 37
    document = GeneratorDocument.model_validate_json(files[".json"].read_text())
    assert document.generation.num_frames == 37
    assert "41 frames became 37: the control videos have 40, and the model generates 4k+1." in document.notes


@pytest.mark.parametrize(
    ("rows", "message"), [([[0.0] * 9] * 4, None), ([[0.0] * 9] * 8, "has 8 rows"), ([[0.0] * 8] * 4, "row 0 has 8")]
)
def test_actions_are_read_from_a_file(
    bench: WorkerFixture, tmp_path: Path, rows: list[list[float]], message: str | None
) -> None:
    picture = put(bench, "in/first.png", media_files.image(tmp_path / "first.png").read_bytes())
    actions = put(bench, "in/moves.json", json.dumps(rows).encode())
    request = {"mode": "forward_dynamics", "domain_name": "av", "action_path": "moves.json", "action_chunk_size": 4}
    planned(bench, request, input=picture, more_inputs=[actions])
    run(bench)
    if message is not None:
        assert message in failure(bench)["cause"]
        return
    document = GeneratorDocument.model_validate_json(written(bench, tmp_path)[".json"].read_text())
    assert document.generation.action is not None and document.generation.action.actions == rows


def test_a_policy_also_writes_actions(bench: WorkerFixture, tmp_path: Path) -> None:
    picture = put(bench, "in/first.png", media_files.image(tmp_path / "first.png").read_bytes())
    request = {"mode": "policy", "domain_name": "av", "action_chunk_size": 4, "preview": False}
    planned(bench, request, input=picture)
    run(bench)
    files = written(bench, tmp_path)
    assert sorted(files) == [".actions.json", ".json", ".mp4"]
    assert json.loads(files[".actions.json"].read_text()) == [[0.0] * 9] * 4


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ({"frames": 1}, "EngineFailed", "1 instead of 5 frames"),
        ({"frames": 1, "claims": {"num_frames": 1}}, "EngineFailed", "num_frames is 1 instead of 5"),
        ({"claims": {"seed": 3}}, "EngineFailed", "seed is 3 instead of 7"),
        ({"claims": {"guardrails": False}}, "EngineFailed", "guardrails is False instead of True"),
        ({"claims": {"negative_prompt": "Rain."}}, "EngineFailed", "negative_prompt is Rain. instead of"),
        ({"leaves": ["video"]}, "EngineFailed", "no made.mp4"),
        ({"blocked": "prompt"}, "Blocked", "refused the prompt"),
        ({"blocked": "output"}, "Blocked", "refused the output"),
        ({"checks": {}}, "EngineFailed", "no verdict on the prompt and the output"),
        ({"checks": {"prompt": "passed"}}, "EngineFailed", "no verdict on the output"),
        ({"checks": {"output": "facesBlurred"}}, "EngineFailed", "no verdict on the prompt"),
    ],
)
def test_an_output_that_differs_from_the_request_is_not_delivered(
    bench: WorkerFixture, script: dict[str, Any], code: str, message: str
) -> None:
    planned(bench, {"mode": "t2v", "seed": 7, **SMALL}, script)
    run(bench)
    assert failure(bench)["error"] == code and message in failure(bench)["cause"]


def test_a_job_that_wants_guardrails_fails_on_an_engine_without_them(bench: WorkerFixture) -> None:
    engine = ScriptedGenerator()
    engine.guardrails = False
    planned(bench, {"mode": "t2v", **SMALL})
    run(bench, engine)
    assert "scripted generator 1 has no guardrails here" in failure(bench)["cause"]


def documented(bench: WorkerFixture, folder: Path) -> DocumentedGuardrails:
    text = written(bench, folder)[".json"].read_text()
    found = GeneratorDocument.model_validate_json(text).guardrails
    assert found is not None
    earlier = {name: value for name, value in json.loads(text).items() if name != "guardrails"}
    assert GeneratorDocument.model_validate_json(json.dumps(earlier)).guardrails is None, "as 0f4e7e0 wrote them"
    return found


@pytest.mark.parametrize("requested", [True, False])
def test_the_verdicts_of_guardrails_are_in_the_document(bench: WorkerFixture, tmp_path: Path, requested: bool) -> None:
    planned(bench, {"mode": "t2i", "width": 64, "height": 64, "guardrails": requested})
    run(bench)
    verdicts = Checks(by="scripted guardrails", **{"prompt": "passed", "output": "facesBlurred"} if requested else {})
    assert documented(bench, tmp_path) == DocumentedGuardrails(requested=requested, required=False, verdicts=verdicts)


def test_actions_alone_need_no_verdict_on_the_output(bench: WorkerFixture, tmp_path: Path) -> None:
    video = put(bench, "in/moves.mp4", media_files.video(tmp_path / "moves.mp4").read_bytes())
    request = {"mode": "inverse_dynamics", "domain_name": "av", "action_chunk_size": 4}
    planned(bench, request, {"checks": {"prompt": "passed"}}, input=video)
    run(bench)
    assert documented(bench, tmp_path).verdicts.output == "notEvaluated"


NOT_VERIFIED = {"prompt": "notVerified", "output": "notVerified"}


def test_checks_of_a_remote_server_are_noted_as_unverified(bench: WorkerFixture, tmp_path: Path) -> None:
    planned(bench, {"mode": "t2i", "width": 64, "height": 64}, {"checks": NOT_VERIFIED})
    run(bench)
    assert "does not report whether it did" in written(bench, tmp_path)[".json"].read_text()


def test_guardrails_of_a_remote_server_that_a_request_cannot_switch_off_are_not_noted_as_off(
    bench: WorkerFixture, tmp_path: Path
) -> None:
    planned(bench, {"mode": "t2i", "width": 64, "height": 64, "guardrails": False}, {"checks": NOT_VERIFIED})
    run(bench)
    document = written(bench, tmp_path)[".json"].read_text()
    assert "does not report whether it did" in document and UNGUARDED not in document


def test_required_guardrails_need_a_verdict(bench: WorkerFixture) -> None:
    required = SERVING.model_copy(update={"guardrails_required": True})
    planned(bench, {"mode": "t2i", "width": 64, "height": 64}, {"checks": NOT_VERIFIED})
    run(bench, serving=required)
    assert "no verdict on the prompt and the output" in failure(bench)["cause"]


def test_a_job_planned_without_required_guardrails_is_refused(bench: WorkerFixture) -> None:
    """The job was planned before guardrails became required."""
    planned(bench, {"mode": "t2i", "width": 64, "height": 64, "guardrails": False})
    run(bench, serving=SERVING.model_copy(update={"guardrails_required": True}))
    assert failure(bench)["error"] == "InvalidInput" and "requires guardrails" in failure(bench)["cause"]


class Shortened(ScriptedGenerator):
    lossy: Sequence[LossyMode] = ()


def test_lossy_modes_are_documented_and_a_repetition_without_them_is_noted(
    bench: WorkerFixture, tmp_path: Path
) -> None:
    def made(job_id: str, lossy: Sequence[LossyMode], origin: Origin | None) -> GeneratorDocument:
        engine, key = Shortened(), OutputKey(bucket=ASSETS, key=f"out/{job_id}.json")
        engine.lossy = lossy
        planned(bench, {"mode": "t2i", "width": 64, "height": 64}, job_id=job_id, document=key, origin=origin)
        run(bench, engine)
        body = bench.s3.get_object(Bucket=ASSETS, Key=key.key)["Body"].read()
        return GeneratorDocument.model_validate_json(body)

    first = made("one", ["stepCache", "fp8"], None)
    assert first.lossy == ["stepCache", "fp8"] and any("has not been evaluated" in note for note in first.notes)
    assert "not the same" not in " ".join(made("two", ["fp8", "stepCache"], first.origin).notes)
    exact = made("three", [], first.origin)
    assert exact.lossy == [] and "the original, by scripted generator 1 (fp8, stepCache) with" in " ".join(exact.notes)
    assert "has not been evaluated" not in " ".join(exact.notes)
    assert "not the same" in " ".join(made("four", ["fp8"], exact.origin).notes)


def test_lossy_modes_are_those_of_the_configuration(bench: WorkerFixture) -> None:
    serving = SERVING.model_copy(update={"lossy": ["stepCache"]})
    environment = bench.environment("worker-1", "tests.worker.test_generations:Shortened")
    environment = environment.model_copy(update={"serving": serving})
    assert WorkerEnvironment.read(environment.variables()) == environment, "as the container is given it"
    engine = engine_for(environment, Clients())
    assert isinstance(engine, Shortened) and engine.lossy == ["stepCache"]


def test_guardrails_are_those_of_the_configuration(bench: WorkerFixture) -> None:
    for configured in (True, False):
        serving = SERVING.model_copy(update={"guardrails": configured})
        environment = bench.environment("worker-1", "tests.support.scripted_generator:ScriptedGenerator")
        engine = engine_for(environment.model_copy(update={"serving": serving}), Clients())
        assert isinstance(engine, GuardrailEngine) and engine.guardrails is configured

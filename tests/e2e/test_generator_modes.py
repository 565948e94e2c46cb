"""Every mode of the generator with the real Diffusers engine, from a request to the probed files at their keys.

One cloud and one resident worker with a tiny random checkpoint serve all of it: the requests are sent at once.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.catalogue.generation import MODES
from cosmos_batch.catalogue.generator_abilities import COSMOS_GUARDRAIL
from cosmos_batch.catalogue.pipelines import ATTRIBUTION
from cosmos_batch.cli.commands import demo_generate
from cosmos_batch.cli.main import main
from cosmos_batch.contract.config import Config
from cosmos_batch.contract.generation.document import GeneratorDocument
from cosmos_batch.contract.s3 import OBJECT_MARKER, parse_uri
from cosmos_batch.demo.generator import GENERATOR_NAME, build_random_generator
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.planning.generation.prompts import nvidia_negative_prompt
from cosmos_batch.worker.documents import NOISE, UNGUARDED
from infra.constructs.hugging_face_token import OUTPUT as SECRET
from tests.e2e.test_generator import requested
from tests.support import media_files
from tests.support.deployed_app import App, configuration_text, error_of, running_app, wait_for
from tests.support.deployed_generations import CHECKS, ExpectedGeneration
from tests.support.guardrail_files import write_block_list, write_prompt_checker
from tests.support.model_hub import Hub
from tests.support.mp4 import pictures

NANO, SUPER = "cosmos3-nano", "cosmos3-super"
# NVIDIA's own negative prompt is 10,000 tokens to the tiny tokenizer, and seconds to a CPU: one request sends it.
SHORT = {"negativePrompt": "Blur.", "steps": 2}
SMALL = {"width": 64, "height": 48, **SHORT}
FEW = {**SMALL, "numFrames": 9}
ARM = {"domain_name": "bridge", "resolution": "256p", "action_chunk_size": 4, **SHORT}
CHECKED = {"mode": "t2v", "preview": False, **FEW}
MOVES = [[0.1] * 10] * 4
NTSC = Fraction(30000, 1001)
GUARDRAIL, PROMPT_CHECKER = COSMOS_GUARDRAIL
TOKEN = "hf_of_one_who_accepted"


def transfer(*videos: str, **controls: Any) -> dict[str, Any]:
    """Return the parameters of a transfer whose controls are computed, except those `given` as videos."""
    paths = {hint: {"path": f"{hint}.mp4"} for hint in videos}
    return {"mode": "transfer", "controls": {**controls, **paths}, **FEW}


OF_ARM: dict[str, Any] = {"video": (320, 240, 5, Fraction(5))}
GENERATIONS = {
    "t2i": ExpectedGeneration({"mode": "t2i", **SMALL}, video=None),
    "t2i-jpeg": ExpectedGeneration({"mode": "t2i", "imageFormat": "jpeg", **SMALL}, video=None),
    "t2v": ExpectedGeneration({"mode": "t2v", "contactSheet": True, **FEW}, others=("preview", "contactSheet")),
    "t2v-sound": ExpectedGeneration({"mode": "t2v", "sound": True, "fps": 29.97, **FEW}, video=(64, 48, 9, NTSC)),
    "t2v-bare": ExpectedGeneration({"mode": "t2v", "preview": False, **FEW, "negativePrompt": None}, others=()),
    "i2v": ExpectedGeneration({"mode": "i2v", **FEW}, "picture.png"),
    "i2v-sound": ExpectedGeneration({"mode": "i2v", "sound": True, **FEW}, "picture.png"),
    "v2v": ExpectedGeneration({"mode": "v2v", **SMALL, "numFrames": 13}, "clip.mp4", video=(64, 48, 13, Fraction(24))),
    "v2v-sound": ExpectedGeneration({"mode": "v2v", "sound": True, "conditionFrames": [0], **FEW}, "clip.mp4"),
    "v2v-last": ExpectedGeneration({"mode": "v2v", "conditionKeep": "last", "conditionFrames": [0], **FEW}, "clip.mp4"),
    "edge": ExpectedGeneration(transfer(edge={}), "clip.mp4", video=(64, 48, 9, Fraction(12))),
    "blur": ExpectedGeneration(transfer(blur={"strength": "low"}), "clip.mp4", video=(64, 48, 9, Fraction(12))),
    "depth": ExpectedGeneration(transfer("depth"), "clip.mp4", video=(64, 48, 9, Fraction(12))),
    "edge-blur-seg-wsm": ExpectedGeneration(
        transfer("seg", "wsm", edge={}, blur={}), "clip.mp4", video=(64, 48, 9, Fraction(12))
    ),
    "transfer-in-chunks": ExpectedGeneration(
        {**transfer(edge={}), "numFrames": 13, "framesPerChunk": 9}, "clip.mp4", video=(64, 48, 13, Fraction(12))
    ),
    "forward": ExpectedGeneration({"mode": "forward_dynamics", "action": MOVES, **ARM}, "picture.png", **OF_ARM),
    "forward-of-a-file": ExpectedGeneration(
        {"mode": "forward_dynamics", "actionPath": "moves.json", **ARM}, "clip.mp4", **OF_ARM
    ),
    "inverse": ExpectedGeneration({"mode": "inverse_dynamics", **ARM}, "clip.mp4", actions=4, **OF_ARM),
    "policy": ExpectedGeneration({"mode": "policy", **ARM}, "picture.png", actions=4, **OF_ARM),
}


@dataclass(frozen=True)
class Running:
    """The app, and the execution of each request."""

    app: App
    executions: dict[str, str]

    def document(self, name: str) -> GeneratorDocument:
        ended = self.app.ended(self.executions[name], 180)
        assert ended["status"] == "SUCCEEDED", ended.get("cause")
        return GeneratorDocument.model_validate(self.app.document(self.executions[name]))

    def outputs(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the outputs that Step Functions received, by the file's name."""
        outputs = json.loads(self.app.ended(self.executions[name])["output"])["outputs"]
        return {output["uri"].rpartition("/")[2]: output for output in outputs}


def config(folder: Path) -> Config:
    """Return a configuration with the tiny checkpoint on Diffusers: as Nano without guardrails, as Super with them."""
    text: dict[str, Any] = json.loads(configuration_text(folder))
    shared = {"enabled": True, "model": str(build_random_generator(folder))}
    models = {
        "nano16B": {**shared, "engine": "diffusers", "guardrails": False},
        "super64B": {**shared, "engine": "tests.e2e.guarded_diffusers:GuardedDiffusers"},
    }
    text["app"]["pipelines"] = {"useNvidiaCosmos3": {"enabled": True, "modelsOmni": models}}
    return parse_config(json.dumps(text))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, clip: Path, picture: Path) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("app")
    with Hub(gated={GUARDRAIL}, accepted={TOKEN}) as hub, pytest.MonkeyPatch.context() as environment:
        environment.setenv("HF_ENDPOINT", hub.url)
        hub.add(GUARDRAIL, write_block_list(folder / "words"))
        hub.add(PROMPT_CHECKER, write_prompt_checker(folder / "checker"))
        yield from deployed(folder, clip, picture)


def deployed(folder: Path, clip: Path, picture: Path) -> Iterator[Running]:
    with running_app(folder, config(folder)) as app:
        app.client("secretsmanager").put_secret_value(SecretId=app.outputs[SECRET], SecretString=TOKEN)
        s3 = app.client("s3")
        for name in ("clip", "depth", "seg", "wsm"):
            s3.upload_file(str(clip), app.assets, f"in/{name}.mp4")
        s3.upload_file(str(picture), app.assets, "in/picture.png")
        s3.put_object(Bucket=app.assets, Key="in/moves.json", Body=json.dumps(MOVES).encode())
        yield Running(app, {name: start(app, request, name) for name, request in GENERATIONS.items()})


def start(app: App, request: ExpectedGeneration, name: str) -> str:
    input_ = {} if request.input is None else {"input": f"s3://{app.assets}/in/{request.input}"}
    output = f"s3://{app.assets}/out/{name}/"
    return app.start(
        {"pipeline": NANO, "prompt": "A cube.", "output": output, "parameters": request.parameters, **input_}
    )


def test_every_mode_is_requested() -> None:
    assert {request.parameters["mode"] for request in GENERATIONS.values()} == set(MODES)
    with_sound = {request.parameters["mode"] for request in GENERATIONS.values() if request.sound}
    assert with_sound == {name for name, rules in MODES.items() if rules.sound}


@pytest.mark.parametrize("name", GENERATIONS)
def test_a_mode_makes_its_files(running: Running, name: str, tmp_path: Path) -> None:
    request, document = GENERATIONS[name], running.document(name)
    assert {one.role for one in document.files} == request.roles
    outputs, s3 = running.outputs(name), running.app.client("s3")
    assert len(outputs) == len(document.files) + 1, "the document itself is one"
    for file in document.files:
        place = parse_uri(outputs[file.file]["uri"])
        stored = s3.get_object(Bucket=place.bucket, Key=place.key)
        body = stored["Body"].read()
        assert len(body) == file.size == outputs[file.file]["size"] > 0
        assert OBJECT_MARKER in stored["Metadata"], "an upload of ours starts nothing"
        (tmp_path / file.file).write_bytes(body)
        CHECKS[file.role](tmp_path / file.file, request, document)


@pytest.mark.parametrize("name", GENERATIONS)
def test_a_document_has_all_that_generating_again_needs(running: Running, name: str) -> None:
    request, document = GENERATIONS[name], running.document(name)
    generation = document.generation
    assert (generation.mode, generation.prompt, generation.steps, generation.sound) == (
        request.parameters["mode"],
        "A cube.",
        2,
        request.sound,
    )
    assert (
        generation.size is not None and generation.num_frames and generation.fps and generation.max_sequence_length
    ), "nothing is open"
    assert generation.negative_prompt == (request.parameters["negativePrompt"] or nvidia_negative_prompt())
    assert (document.input and document.input.uri.rpartition("/")[2]) == request.input
    assert (document.model, document.engine.split()[0]) == (GENERATOR_NAME, "diffusers")
    assert {NOISE, UNGUARDED} <= set(document.notes)
    assert document.attribution == ATTRIBUTION
    assert {"total", "prepare", "firstStep", "generate", "write"} <= document.timings.keys()
    assert (document.gpu_seconds is None) == (gpus_here() == 0) and document.job_logs


def made_video(app: App, arn: str, folder: Path) -> Path:
    """Download the video of an execution to a folder of its own, and return its path."""
    place = parse_uri(app.row(arn).document)
    folder.mkdir()
    key = place.key.removesuffix(".json") + ".mp4"
    app.client("s3").download_file(place.bucket, key, str(folder / "video.mp4"))
    return folder / "video.mp4"


@pytest.mark.parametrize("name", ["t2v-sound", "i2v", "edge-blur-seg-wsm", "forward-of-a-file"])
def test_an_uploaded_document_generates_the_same_again(running: Running, name: str, tmp_path: Path) -> None:
    """The document is copied within S3, so it keeps the metadata of an object that we wrote."""
    app, before = running.app, running.document(name)
    place = parse_uri(app.row(running.executions[name]).document)
    key = f"again/{name}/{Path(place.key).stem}.cosmos.json"
    app.client("s3").copy_object(Bucket=app.assets, Key=key, CopySource={"Bucket": place.bucket, "Key": place.key})
    [described] = wait_for(lambda: requested(app, key), 180, "no execution for the document")
    arn = described["executionArn"]
    assert app.ended(arn, 180)["status"] == "SUCCEEDED", app.ended(arn).get("cause")
    document = GeneratorDocument.model_validate(app.document(arn))
    assert (document.input, document.more_inputs, document.notes) == (before.input, before.more_inputs, before.notes)
    assert document.generation.seed == before.generation.seed
    first, again = (
        made_video(app, execution, tmp_path / where)
        for execution, where in ((running.executions[name], "first"), (arn, "again"))
    )
    assert first.read_bytes() == again.read_bytes()


def test_the_demo_names_its_output_and_its_document_generates_it_again(
    running: Running, picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both commands use the cloud that runs and files of this machine."""
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(running.app.folder / "home"))
    # As if `local up` had started it, and no other command.
    monkeypatch.setattr(LocalCloud, "standing", property(lambda _: True, lambda *_: None), raising=False)
    monkeypatch.setenv("PROMPT", "何?")
    monkeypatch.setenv("FILE", str(picture))
    small = {"resolution": None, "width": 64, "height": 48, "num_frames": 5, "steps": 2}
    few = demo_generate.PARAMETERS.model_copy(update=small)
    monkeypatch.setattr(demo_generate, "PARAMETERS", few)
    assert main(["demo-generate"]) == 0
    printed = capsys.readouterr()
    assert "Making a video: 何?\nThe guardrails are OFF" in printed.err
    assert (
        f"Note: {NOISE}" in printed.err
        and f"Note: {UNGUARDED}" in printed.err
        and "Built on NVIDIA Cosmos" in printed.err
    )
    files = {line.split()[0]: Path(line.split()[1]) for line in printed.out.splitlines()}
    assert set(files) == {"video", "preview", "contactSheet", "document"}
    document = GeneratorDocument.model_validate_json(files["document"].read_text())
    assert document.input is not None and document.input.path == str(picture)
    assert main(["generate", str(files["document"]), "--output", str(tmp_path)]) == 0
    [again] = tmp_path.glob("*.mp4")
    assert again.read_bytes() == files["video"].read_bytes()


def test_a_single_worker_served_every_mode(running: Running) -> None:
    documents = [running.document(name) for name in GENERATIONS]
    assert len({document.batch_job_id for document in documents}) == 1, "the model was loaded once"
    seeds = [document.generation.seed for document in documents]
    assert len(set(seeds)) == len(seeds), "each was drawn for its job"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("fake.png", {"mode": "i2v", **FEW}, "PDF"),
        ("clip.mp4", transfer(edge={}, seg={"path": "short.mp4"}), "edge 48, seg 12"),
        ("picture.png", {"mode": "forward_dynamics", "actionPath": "narrow.json", **ARM}, "row 0 has 9 numbers"),
        ("picture.png", {"mode": "forward_dynamics", "actionPath": "nan.json", **ARM}, "no finite number"),
    ],
)
def test_a_worker_refuses_what_only_it_can_check(
    running: Running, tmp_path: Path, name: str, parameters: dict[str, Any], message: str
) -> None:
    app = running.app
    app.upload("in/fake.png", b"%PDF-1.7 and so on")
    app.upload("in/narrow.json", json.dumps([[0.1] * 9] * 4).encode())
    app.upload("in/nan.json", json.dumps([[float("nan")] * 10] * 4).encode())
    app.upload("in/short.mp4", media_files.video(tmp_path / "short.mp4", frames=12))
    arn = start(app, ExpectedGeneration(parameters, name), "refused")
    error = error_of(app.ended(arn, 180))
    assert error["code"] == "InvalidInput" and message in error["message"]


def guarded(app: App, prompt: str) -> dict[str, Any]:
    output = f"s3://{app.assets}/guarded/"
    return app.ended(app.start({"pipeline": SUPER, "prompt": prompt, "output": output, "parameters": CHECKED}), 180)


@pytest.mark.parametrize(("prompt", "what"), [("A forbidden cube.", "prompt"), ("An unseemly cube.", "output")])
def test_a_generation_that_a_guardrail_refuses_is_not_delivered(running: Running, prompt: str, what: str) -> None:
    error = error_of(guarded(running.app, prompt))
    assert error["code"] == "Blocked" and f"refused the {what}" in error["message"] and not error["retryable"]
    assert prompt not in json.dumps(error)
    assert not [key for key in running.app.keys("guarded/") if key.endswith(".mp4")]


def test_a_generation_without_a_verdict_is_not_delivered(running: Running) -> None:
    error = error_of(guarded(running.app, "An unlabelled cube."))
    assert error["code"] == "EngineFailed" and "guardrails gave no verdict" in error["message"]
    assert not [key for key in running.app.keys("guarded/") if key.endswith(".mp4")]


def test_the_guardrails_models_are_backed_up_like_the_model(running: Running) -> None:
    """They are downloaded with the token, which only the worker reads, and backed up for the next worker."""
    guarded(running.app, "A forbidden cube.")
    bucket = running.app.outputs["ModelBucketName"]
    kept = running.app.client("s3").list_objects_v2(Bucket=bucket, Prefix="models/")["Contents"]
    models = {item["Key"].split("/")[1] for item in kept if item["Key"].endswith("manifest.json")}
    assert models == {name.replace("/", "--") for name in COSMOS_GUARDRAIL}


def test_the_video_with_blurred_faces_is_delivered(running: Running, tmp_path: Path) -> None:
    ended = guarded(running.app, "A cube.")
    assert ended["status"] == "SUCCEEDED", ended.get("cause")
    document = GeneratorDocument.model_validate(running.app.document(ended["executionArn"]))
    assert document.generation.guardrails and UNGUARDED not in document.notes
    assert document.guardrails is not None and document.guardrails.requested
    assert document.guardrails.verdicts.prompt == "passed" and document.guardrails.verdicts.output == "facesBlurred"
    [key] = [key for key in running.app.keys("guarded/") if key.endswith(".mp4")]
    running.app.client("s3").download_file(running.app.assets, key, str(tmp_path / "a.mp4"))
    corner = pictures(tmp_path / "a.mp4")[:, :12, :12].astype(int)
    assert abs(corner - 90).max() <= 8, "where the real one would blur a face"

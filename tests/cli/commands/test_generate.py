"""`generate` turns options and request files into one request of the state machine, and saves the job's files."""

import json
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.catalogue import generation
from cosmos_batch.cli import configuration, generation_checks
from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import input_checks as cli_files
from cosmos_batch.cli.commands import demo_generate, generate
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.generation_request import GenerationRequest
from cosmos_batch.cli.job_result import JobResult, save_files
from cosmos_batch.cli.main import main
from cosmos_batch.cli.options import COMPUTED, GENERATION_OPTIONS, GENERATION_SWITCHES, HINTS, MODES
from cosmos_batch.cli.output import OutputTarget
from cosmos_batch.contract.environment import DeployedCompute, DeployedPipeline, DeployedQueue
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.s3 import OBJECT_MARKER, parse_uri
from cosmos_batch.planning.configuration import load_config
from cosmos_batch.planning.deployment import EnabledPipeline, enabled_pipelines
from cosmos_batch.planning.requests import read_request
from tests.cli.conftest import PIPELINE, FakeStepFunctions
from tests.support import media_files
from tests.support.generations import document_of, settled

NANO, TO_IMAGE = "cosmos3-nano", "cosmos3-super-text2image"


def video_bytes(folder: Path, frames: int) -> bytes:
    return media_files.video(folder / "video.mp4", frames=frames, width=64, height=48).read_bytes()


@pytest.fixture
def omni(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Deployment:
    """Provide a deployment with generators beside the reasoner."""
    changes = {"pipelines": [PIPELINE, NANO, TO_IMAGE], "asset_roots": ["assets", "my-bucket"]}
    with_generators = Deployment(**{**vars(deployment), **changes})
    s3 = deployment.clients("s3")
    s3.create_bucket(Bucket="my-bucket")
    for bucket, key in (("assets", "seg.mp4"), ("my-bucket", "depth.mp4")):
        s3.put_object(Bucket=bucket, Key=key, Body=video_bytes(tmp_path_factory.mktemp("objects"), 40))
    monkeypatch.setattr(deployments, "find", lambda: with_generators)
    return with_generators


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Provide a folder with a file of each kind. Of these, the content of videos alone is read before an upload."""
    for name in ("first.png", "moves.json", "notes.txt"):
        (tmp_path / name).write_bytes(b"content")
    (tmp_path / "fake.mp4").write_bytes(b"%PDF-1.7 and so on")
    for name, frames in {"clip.mp4": 40, "depth.mp4": 40, "short.mp4": 3, "seg.mp4": 12}.items():
        media_files.video(tmp_path / name, frames=frames, width=64, height=48)
    return tmp_path


def submitted(stepfunctions: FakeStepFunctions, *options: str) -> dict[str, Any]:
    """Return the input of the execution that a command starts, which `plan` reads."""
    assert main(["generate", "--submit", *options]) == 0
    sent: dict[str, Any] = json.loads(stepfunctions.started[-1]["input"])
    read_request(sent)
    return sent


def test_options_are_the_parameters_by_their_names() -> None:
    named = {name for name, *_ in GENERATION_OPTIONS} | {name for name, _ in GENERATION_SWITCHES}
    assert named | {"condition_frames", "controls", "action"} == set(GenerationParameters.model_fields)
    assert (HINTS, COMPUTED) == (generation.HINTS, generation.COMPUTED_HINTS)
    assert tuple(generation.MODES) == MODES


def test_a_prompt_alone_is_made_in_a_folder_of_its_own(
    omni: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = submitted(stepfunctions, "--prompt", "何が?", "--seed", "7", "--fps", "29.97", "--sound", "--no-guardrails")
    assert (sent["pipeline"], sent["prompt"], "input" in sent) == (NANO, "何が?", False)
    assert sent["generation"] == {"seed": 7, "fps": 29.97, "sound": True, "guardrails": False}
    assert sent["output"].startswith("s3://assets/uploads/") and sent["output"].endswith("/")
    assert capsys.readouterr().out.strip() == stepfunctions.started[0]["name"]


def test_files_of_this_machine_are_uploaded_and_start_nothing_by_themselves(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path
) -> None:
    sent = submitted(
        stepfunctions,
        *(str(files / "clip.mp4"), "--prompt", "At night.", "--edge", "--depth", str(files / "depth.mp4")),
        *("--seg", "s3://assets/seg.mp4", "--seg-weight", "0.5", "--blur-strength", "high"),
    )
    assert sent["generation"]["mode"] == "transfer"
    assert sent["generation"]["controls"]["edge"] == {}
    assert sent["generation"]["controls"]["seg"] == {"path": "s3://assets/seg.mp4", "weight": 0.5}
    assert sent["generation"]["controls"]["blur"] == {"strength": "high"}, "which is made from the input"
    for uri in (sent["input"], sent["generation"]["controls"]["depth"]["path"]):
        bucket, key = parse_uri(uri)
        assert OBJECT_MARKER in omni.clients("s3").head_object(Bucket=bucket, Key=key)["Metadata"]
    assert "output" not in sent, "beside the input"


def test_actions_come_from_a_file(omni: Deployment, stepfunctions: FakeStepFunctions, files: Path) -> None:
    options = ("--mode", "forward_dynamics", "--domain-name", "av", "--action-path", str(files / "moves.json"))
    sent = submitted(stepfunctions, str(files / "first.png"), "--prompt", "x", *options)
    assert sent["generation"]["actionPath"].endswith("/moves.json")


def test_one_option_takes_several_numbers(omni: Deployment, stepfunctions: FakeStepFunctions, files: Path) -> None:
    sent = submitted(stepfunctions, str(files / "clip.mp4"), "--prompt", "x", "--condition-frames", "0", "2")
    assert sent["generation"]["conditionFrames"] == [0, 2]


def test_a_request_names_files_beside_it_and_options_go_before_it(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path
) -> None:
    request = {"prompt": {"duration": "4s"}, "input": "first.png", "num_steps": 20, "seed": 1, "fps": 12}
    (files / "rain.cosmos.json").write_text(json.dumps(request))
    sent = submitted(stepfunctions, str(files / "rain.cosmos.json"), "--seed", "2")
    assert (sent["prompt"], sent["generation"]) == ('{"duration": "4s"}', {"steps": 20, "seed": 2, "fps": 12})
    assert sent["input"].endswith("/first.png")


@pytest.fixture
def document(files: Path) -> Path:
    """Provide the document of a transfer whose input lies on this machine and whose depth map lies in S3."""
    generation = settled({"edge": {}, "depth": "d.mp4", "mode": "transfer", "seed": 7}, "video")
    content = document_of(generation.model_copy(update={"given_prompt": "Water."}), "mp4", ["depth.mp4"])
    clip = files / "clip.mp4"
    content["input"] |= {"path": str(clip), "sha256": cli_files.digest(clip)}
    (files / "made.json").write_text(json.dumps(content))
    return files / "made.json"


def test_a_document_is_generated_again(omni: Deployment, stepfunctions: FakeStepFunctions, document: Path) -> None:
    sent = submitted(stepfunctions, str(document), "--steps", "9")
    assert (sent["pipeline"], sent["prompt"]) == (NANO, "A robot pours water.")
    assert (sent["generation"]["seed"], sent["generation"]["steps"]) == (7, 9)
    assert sent["input"].startswith("s3://assets/uploads/") and sent["input"].endswith("/clip.mp4")
    assert sent["generation"]["controls"]["depth"] == {"path": "s3://my-bucket/depth.mp4"}
    assert sent["origin"]["files"] == [{"uri": "s3://my-bucket/depth.mp4", "versionId": "depth.mp4"}]
    assert sent["origin"]["givenPrompt"] == "Water."
    assert str(document.parent) not in json.dumps(sent)


def test_a_video_that_was_replaced_since_does_not_keep_a_document_from_being_generated_again(
    omni: Deployment, stepfunctions: FakeStepFunctions, document: Path
) -> None:
    """The job reads the version that the document names."""
    short = (document.parent / "short.mp4").read_bytes()
    omni.clients("s3").put_object(Bucket="my-bucket", Key="depth.mp4", Body=short)
    submitted(stepfunctions, str(document))


def test_another_prompt_beside_a_document_is_the_callers_own(
    omni: Deployment, stepfunctions: FakeStepFunctions, document: Path
) -> None:
    sent = submitted(stepfunctions, str(document), "--prompt", "Rain.")
    assert sent["prompt"] == "Rain." and "givenPrompt" not in sent["origin"]


@pytest.mark.parametrize(
    ("settings", "options", "size"),
    [
        ({"width": 832, "height": 480}, ("--resolution", "256p"), {"resolution": "256p"}),
        ({"width": 832, "height": 480}, ("--aspect-ratio", "1:1"), {"aspectRatio": "1:1"}),
        ({"width": 832, "height": 480}, ("--height", "448"), {"width": 832, "height": 448}),
        (
            {"resolution": "480p", "aspectRatio": "1:1"},
            ("--width", "320", "--height", "192"),
            {"width": 320, "height": 192},
        ),
        (
            {"resolution": "480p", "aspectRatio": "1:1"},
            ("--resolution", "256p"),
            {"resolution": "256p", "aspectRatio": "1:1"},
        ),
    ],
)
def test_a_size_beside_a_request_replaces_its_own(
    omni: Deployment,
    stepfunctions: FakeStepFunctions,
    files: Path,
    settings: dict[str, Any],
    options: tuple[str, ...],
    size: dict[str, Any],
) -> None:
    (files / "rain.cosmos.json").write_text(json.dumps({"prompt": "Rain.", **settings}))
    sent = submitted(stepfunctions, str(files / "rain.cosmos.json"), *options)["generation"]
    assert {name: value for name, value in sent.items() if value is not None} == size


@pytest.mark.parametrize(("content", "message"), [(None, "is not there any more"), (b"changed", "is another file")])
def test_a_document_whose_input_is_gone_or_has_changed_is_refused(
    files: Path, document: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, message: str
) -> None:
    (files / "clip.mp4").unlink()
    if content is not None:
        (files / "clip.mp4").write_bytes(content)
    assert main(["generate", str(document)]) == 2
    assert message in capsys.readouterr().err


def test_a_request_in_s3_is_read_by_plan(omni: Deployment, stepfunctions: FakeStepFunctions) -> None:
    body = json.dumps({"prompt": "Rain.", "pipeline": TO_IMAGE}).encode()
    omni.clients("s3").put_object(Bucket="assets", Key="rain.cosmos.json", Body=body)
    sent = submitted(stepfunctions, "s3://assets/rain.cosmos.json", "--steps", "20")
    assert (sent["requestFile"], sent["generation"]) == ("s3://assets/rain.cosmos.json", {"steps": 20})
    assert sent["pipeline"] == TO_IMAGE


def test_the_smallest_pipeline_for_the_mode_is_taken_or_the_named_pipeline(
    omni: Deployment, stepfunctions: FakeStepFunctions
) -> None:
    assert submitted(stepfunctions, "--prompt", "x", "--mode", "t2i")["pipeline"] == NANO
    assert submitted(stepfunctions, "--prompt", "x", "--pipeline", TO_IMAGE)["pipeline"] == TO_IMAGE
    for named in (PIPELINE, "cosmos3-super"):
        assert main(["generate", "--submit", "--prompt", "x", "--pipeline", named]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "There is no prompt"),
        (["--prompt", " "], "The prompt is empty"),
        (["--prompt", "x", "--fps", "0"], "fps"),
        (["--prompt", "x", "--steps", "many"], "steps"),
        (["--prompt", "x" * 40_000], "40,000 bytes"),
        (["{}/none.png", "--prompt", "x"], "does not exist"),
        (["{}/notes.txt", "--prompt", "x"], "no pipeline takes"),
        (["{}/clip.mp4", "--prompt", "x", "--depth", "{}/none.mp4"], "none.mp4 does not exist"),
        (["{}/clip.mp4", "--prompt", "x", "--depth", "{}/first.png"], "Allowed extensions: .mp4"),
        (["{}/none.cosmos.json"], "cannot be read"),
    ],
)
def test_errors_are_reported_before_anything_is_sent(
    files: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", *(option.replace("{}", str(files)) for option in options)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--mode", "i2v"], "i2v"), (["--num-frames", "1000"], "numFrames"), (["--resolution", "768p"], "768p")],
)
def test_what_is_wrong_with_a_request_is_said_before_guardrails_that_are_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setattr(generate, "find_spec", lambda _: None)
    assert main(["generate", "--prompt", "x"]) == 2
    assert "Guardrails are on" in capsys.readouterr().err
    assert main(["generate", "--prompt", "x", *options]) == 2
    printed = capsys.readouterr().err
    assert message in printed and "Guardrails" not in printed


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--prompt", "x", "--fps", "0"], ["fps: '0'", "cosmos-batch generate --help"]),
        (["{}/clip.mp4", "--prompt", "x", "--edge-strength", "strong"], ["strength", "cosmos-batch generate --help"]),
        (["--prompt", "x", "--negative-prompt", "@{}/typo.json"], ["typo.json is not one of", "name a file of text"]),
        (["--prompt", "@{}/typo.json"], ["typo.json is not one of", "name a file of text"]),
        (["--prompt", "@{}/asks.json"], ["asks.json is not one of", "cosmos-batch generate {}/asks.json"]),
        (["{}/asks.json", "--fps", "0"], ["fps: '0'", "cosmos-batch generate --help"]),
        (["{}/asks.json"], ["fps: 0", "A request looks like"]),
    ],
)
def test_a_remedy_fits_the_place_of_what_is_wrong(
    files: Path, options: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "typo.json").write_text('{"subjcts": ["a robot"]}')
    (files / "asks.json").write_text('{"prompt": "Rain.", "fps": 0}')
    assert main(["generate", *(option.replace("{}", str(files)) for option in options)]) == 2
    printed = capsys.readouterr().err
    assert all(part.replace("{}", str(files)) in printed for part in parts), printed
    assert ("A request looks like" in printed) == ("A request looks like" in parts)


def test_files_are_saved_with_the_document_last(omni: Deployment, tmp_path: Path) -> None:
    names = ["a.json", "a.mp4", "a.mp4.previewFile.gif"]
    for name in names:
        omni.clients("s3").put_object(Bucket="assets", Key=f"out/{name}", Body=name.encode())
    result = JobResult(document_uri="s3://assets/out/a.json", file_uris=[f"s3://assets/out/{name}" for name in names])
    paths = save_files(omni, result, OutputTarget(tmp_path / "made", is_folder=True, force=False))
    assert [path.name for path in paths] == [*names[1:], names[0]]
    assert [path.read_text() for path in paths] == [path.name for path in paths]


@pytest.mark.parametrize("changes", [{}, {"model": "org/name"}])
def test_on_this_machine_the_generator_is_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    request = GenerationRequest("x", None, GenerationParameters(guardrails=False))
    config = load_config(generate.config_file(request, changes))
    [nano] = [entry for entry in enabled_pipelines(config) if entry.pipeline.id == NANO]
    assert (nano.engine, nano.model) == ("diffusers", changes.get("model", "nvidia/Cosmos3-Nano"))
    assert nano.models == [nano.model], "guardrails that nobody asks for are not loaded"
    assert PIPELINE in [entry.pipeline.id for entry in enabled_pipelines(config)], "what was there stays"


@pytest.mark.parametrize(("settings", "engine"), [({}, "diffusers"), ({"engine": "phyai"}, "phyai")])
def test_on_this_machine_auto_is_an_engine_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], engine: str
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    entry = {"enabled": True, "guardrails": False, **settings}
    nvidia = {"enabled": True, "modelsOmni": {"nano16B": entry}}
    configured = tmp_path / "config.json"
    configured.write_text(json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": nvidia}}}))
    monkeypatch.setattr(configuration, "CONFIG", configured)
    config = load_config(generate.config_file(GenerationRequest("x", None, GenerationParameters(guardrails=False)), {}))
    assert [entry.engine for entry in enabled_pipelines(config)] == [engine]


def on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, **parameters: Any) -> EnabledPipeline:
    """Return the pipeline of a request where only this variable is set."""
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setenv(variable, "http://localhost:8000/")
    request, changes = generate.on_a_server(GenerationRequest("x", None, GenerationParameters(**parameters)))
    config = load_config(generate.config_file(request, changes))
    [enabled] = [entry for entry in enabled_pipelines(config) if entry.pipeline.id == request.pipeline]
    return enabled


@pytest.mark.parametrize(
    ("variable", "named"),
    [
        ("COSMOS3_VLLM_NANO_BASE_URL", NANO),
        ("COSMOS3_VLLM_BASE_URL", NANO),
        ("COSMOS3_VLLM_SUPER_BASE_URL", "cosmos3-super"),
    ],
)
@pytest.mark.parametrize("guardrails", [True, False])
def test_each_of_nvidias_variables_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, named: str, guardrails: bool
) -> None:
    enabled = on_a_server(tmp_path, monkeypatch, variable, guardrails=guardrails)
    assert (enabled.pipeline.id, enabled.engine) == (named, "endpoint")
    assert enabled.endpoint is not None and enabled.endpoint.url == "http://localhost:8000/v1"
    assert enabled.serving is not None and enabled.serving.guardrails is guardrails


def test_no_job_is_sent_to_a_server_with_unknown_guardrails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CliError, match="does not tell") as raised:
        on_a_server(tmp_path, monkeypatch, "COSMOS3_VLLM_SUPER_BASE_URL")
    assert "--no-guardrails" in raised.value.remedy


def test_requests_that_no_server_can_do_and_named_pipelines_use_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSMOS3_VLLM_SUPER_BASE_URL", "http://localhost:8001")
    for request in (
        GenerationRequest("x", None, GenerationParameters(mode="transfer")),
        GenerationRequest("x", None, GenerationParameters(), pipeline=NANO),
    ):
        assert generate.on_a_server(request) == (request, {})


def test_guardrails_that_are_not_installed_are_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment of the tests has no guardrails installed."""
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setattr(
        "cosmos_batch.cli.local_deployment._own_deployment", lambda *_: pytest.fail("something started")
    )
    assert main(["generate", "--prompt", "x", "--model", "nvidia/Cosmos3-Nano"]) == 2
    printed = capsys.readouterr().err
    assert "cosmos_guardrail is not installed" in printed and "--no-guardrails" in printed and "pip install" in printed


@pytest.mark.parametrize("name", ["there", "asked without"])
def test_guardrails_that_are_installed_or_not_wanted_are_not_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    if name == "there":
        monkeypatch.setattr(generate, "find_spec", lambda _: "found")
    request = GenerationRequest("x", None, GenerationParameters(guardrails=False if name == "asked without" else None))
    assert generate.config_file(request, {}) != configuration.CONFIG


def test_the_demo_brings_a_model_with_random_weights_and_no_guardrails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    checkpoints: list[Any] = []
    with ThreadPool(1) as pool:
        config = load_config(
            demo_generate._config_file(GenerationRequest("x", None, demo_generate.PARAMETERS), pool, checkpoints)
        )
        built = [checkpoint.get() for checkpoint in checkpoints]
    assert capsys.readouterr().err.splitlines() == [
        "nvidia/Cosmos3-Nano is not on this machine: a tiny model with RANDOM weights takes its place, so the video is "
        "noise.",
        "NVIDIA's: cosmos-batch generate --model nvidia/Cosmos3-Nano --prompt TEXT",
    ]
    [nano] = [entry for entry in enabled_pipelines(config) if entry.pipeline.id == NANO]
    assert nano.serving is not None and not nano.serving.guardrails
    assert built == [Path(nano.model)] and (built[0] / "model_index.json").is_file()


@pytest.mark.parametrize("on_a_server", [False, True])
def test_guardrails_that_the_configuration_requires_are_not_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_a_server: bool
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    entry = {"enabled": True, "guardrails": "required", "maxResolution": "480p"}
    models = {"useNvidiaCosmos3": {"enabled": True, "modelsOmni": {"nano16B": entry}}}
    (tmp_path / "config.json").write_text(json.dumps({"app": {"pipelines": models}}))
    monkeypatch.setattr(configuration, "CONFIG", tmp_path / "config.json")
    request = GenerationRequest("x", None, GenerationParameters(guardrails=False))
    changes = {"engine": "endpoint", "endpoint": {"url": "http://h:1/v1"}, "guardrails": False} if on_a_server else {}
    with pytest.raises(CliError, match=f"config.json requires guardrails of {NANO}"):
        generate.config_file(request, changes)


REFUSED_BY_PLAN = [
    (["{}/clip.mp4", "--mode", "i2v"], "input: is a video, and mode i2v starts from an image."),
    (["{}/first.png", "--mode", "v2v"], "input: is an image, and mode v2v starts from a video."),
    (["--num-frames", "1000"], "numFrames: 1,000"),
    (["--mode", "transfer"], "controls: transfer needs at least one."),
    (["--depth", ""], "controls.depth: has no path."),
    (["{}/first.png", "--condition-frames", "0"], "conditionFrames: has no meaning in mode i2v"),
    (["--width", "61", "--height", "61"], "61x61 are not multiples of 16"),
    (["{}/first.png", "--mode", "policy"], "domainName: is missing."),
    (["--depth", "{}/short.mp4"], "controls: their numbers of frames are depth 3; 5 or more are needed."),
    (["{}/clip.mp4", "--edge", "--seg", "{}/seg.mp4"], "the videos differ in their frames: edge 40, seg 12"),
    (["--depth", "{}/clip.mp4", "--num-frames", "93"], "frames are depth 40; 93 are needed."),
    (["--depth", "{}/fake.mp4"], "controls.depth: The content is"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED_BY_PLAN)
def test_what_the_plan_would_refuse_is_refused_before_a_cloud_is_started(
    files: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(files))
    monkeypatch.setattr("cosmos_batch.cli.local_deployment._own_deployment", lambda *_: pytest.fail("it was started"))
    line = [option.replace("{}", str(files)) for option in options]
    assert main(["generate", *line, "--prompt", "x", "--no-guardrails"]) == 2
    printed = capsys.readouterr().err
    assert "InvalidInput" in printed and message in printed


@pytest.mark.parametrize(
    "names",
    [
        ["s3://assets/clip.mp4", "--depth", "s3://assets/depth.mp4"],
        ["s3://assets/first.png", "--mode", "policy", "--domain-name", "av", "--action-path", "s3://assets/moves.json"],
        ["s3://assets/rain.cosmos.json"],
    ],
)
def test_files_in_s3_are_refused_before_a_cloud_of_its_own_is_started(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setattr("cosmos_batch.cli.local_deployment._own_deployment", lambda *_: pytest.fail("it was started"))
    assert main(["generate", *names, "--prompt", "x", "--no-guardrails"]) == 2
    printed = capsys.readouterr().err
    assert all(f"{name} lies in S3" in printed for name in names if name.startswith("s3://")), printed
    assert "cosmos-batch generate --submit" in printed


@pytest.mark.parametrize(("options", "message"), REFUSED_BY_PLAN)
def test_what_the_plan_would_refuse_is_refused_before_anything_is_uploaded(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path, options: list[str], message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    line = [option.replace("{}", str(files)) for option in options]
    assert main(["generate", "--submit", *line, "--prompt", "x"]) == 2
    assert message in capsys.readouterr().err
    assert stepfunctions.started == []
    assert "Contents" not in omni.clients("s3").list_objects_v2(Bucket="assets", Prefix="uploads/")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--depth", "s3://assets/short.mp4"], "controls: their numbers of frames are depth 3; 5 or more are needed."),
        (["{}/clip.mp4", "--edge", "--seg", "s3://assets/short.mp4"], "differ in their frames: edge 40, seg 3"),
        (["s3://assets/short.mp4", "--edge", "--blur"], "frames are edge 3, blur 3; 5 or more are needed."),
        (["--depth", "s3://assets/fake.mp4"], "controls.depth: The content is"),
    ],
)
def test_control_videos_in_s3_are_checked_before_a_job_is_started(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path, options: list[str], message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in ("short.mp4", "fake.mp4"):
        omni.clients("s3").put_object(Bucket="assets", Key=name, Body=(files / name).read_bytes())
    line = [option.replace("{}", str(files)) for option in options]
    assert main(["generate", "--submit", *line, "--prompt", "x"]) == 2
    printed = capsys.readouterr().err
    assert "InvalidInput" in printed and message in printed
    assert stepfunctions.started == []


def test_control_videos_in_s3_that_are_large_are_left_to_the_worker(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (files / "short.mp4").read_bytes()
    omni.clients("s3").put_object(Bucket="assets", Key="short.mp4", Body=content)
    monkeypatch.setattr(generation_checks, "COPY_LIMIT", len(content) - 1)
    submitted(stepfunctions, "--depth", "s3://assets/short.mp4", "--prompt", "x")


def deployed_as(omni: Deployment, monkeypatch: pytest.MonkeyPatch, model: str, **serving: Any) -> None:
    """Store the SSM parameter of Nano's pipeline, as `npx cdk deploy` does, and let the deployment name it."""
    settings = {"engine": "diffusers", "guardrails": True, "max_resolution": "480p", "plans": {}, **serving}
    pipeline = DeployedPipeline(
        queue=DeployedQueue(
            id=NANO,
            queue_url="https://queue",
            identity=Identity(model=model, engine="diffusers", configuration="digest"),
            serving=Serving.model_validate(settings),
        ),
        compute=DeployedCompute(
            id=NANO, queue_url="https://queue", job_queue="arn:queue", job_definition="arn:definition", max_workers=1,
            vcpus=4, max_life_hours=12,
        ),
    )  # fmt: skip
    omni.clients("ssm").put_parameter(Name="/nano", Value=pipeline.model_dump_json(), Type="String")
    found = replace(omni, parameters={NANO: "/nano"})
    monkeypatch.setattr(deployments, "find", lambda: found)


@pytest.mark.parametrize(
    ("model", "serving", "options", "message"),
    [
        ("nvidia/Cosmos3-Nano", {}, ["--resolution", "720p"], "720p"),
        ("nvidia/Cosmos3-Nano", {"engine": "vllm-omni"}, ["--fps", "0.5"], "requires an fps of at least 1"),
        (
            "nvidia/Cosmos3-Nano",
            {"guardrails_required": True},
            ["--no-guardrails"],
            "guardrails: cosmos3-nano requires",
        ),
        ("nvidia/Cosmos3-Nano", {}, ["--upsample-prompt"], "no model that rewrites prompts is configured"),
        ("me/Cosmos3-Nano-Distilled", {}, [], "its name does not say to how many steps"),
    ],
)
def test_what_the_deployed_pipeline_cannot_do_is_refused_before_anything_is_uploaded(
    omni: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], model: str, serving: dict[str, Any], options: list[str], message: str,
) -> None:  # fmt: skip
    deployed_as(omni, monkeypatch, model, **serving)
    assert main(["generate", "--submit", "--prompt", "x", *options]) != 0
    assert message in capsys.readouterr().err
    assert stepfunctions.started == []
    assert main(["generate", "--submit", "--prompt", "x", "--resolution", "256p"]) == (0 if "me/" not in model else 1)


def test_all_wrong_files_of_a_generation_are_named_at_once(
    omni: Deployment, stepfunctions: FakeStepFunctions, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = [str(files / "none.mp4"), "--depth", str(files / "notes.txt"), "--seg", "s3://assets/folder/"]
    assert main(["generate", "--submit", "--prompt", "x", *line]) == 2
    printed = capsys.readouterr().err
    assert all(words in printed for words in ("none.mp4 does not exist", "notes.txt is of a kind", "is a folder"))
    line = ["s3://assets/none.mp4", "--depth", "s3://assets/none2.mp4", "--seg", "s3://elsewhere/seg.mp4"]
    assert main(["generate", "--submit", "--prompt", "x", *line]) == 2
    printed = capsys.readouterr().err
    assert all(words in printed for words in ("none.mp4 does not exist", "none2.mp4 does not", "outside of the conf"))
    assert main(["generate", "--submit", "s3://assets/none.cosmos.json"]) == 2
    assert "none.cosmos.json does not exist" in capsys.readouterr().err
    assert stepfunctions.started == []

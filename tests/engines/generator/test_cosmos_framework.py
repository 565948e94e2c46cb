"""The engine `cosmos-framework`: our driver in a real torchrun group of two, on a stand-in for the framework."""

import asyncio
import json
import threading
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.engines.cosmos_framework.driver import VAE, _parallelism
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.generator.cosmos_framework.engine import FrameworkGenerator
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.protocol import GuardrailEngine, HubGuardrailEngine, ParallelEngine, StepReportingEngine
from cosmos_batch.media import ImageInfo, probe
from tests.support.generations import settled
from tests.support.generator_jobs import ACTIONS
from tests.support.guardrail_files import write_block_list, write_prompt_checker
from tests.support.torchrun_generators import FEW, ROWS, SMALL, Make, checkpoint_in, loaded, maker, video

PATIENCE = 60  # seconds until a test fails that waits for what never comes
STANDIN = Path(__file__).parents[1] / "framework_standin"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint_in(tmp_path_factory.mktemp("Cosmos3-Nano"))


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return copies of the guardrails' models as the model store has them."""
    folder, (words, checker) = (
        tmp_path_factory.mktemp("store"),
        GENERATOR_ABILITIES["cosmos-framework"].guardrail_models,
    )
    return {words: write_block_list(folder / "words"), checker: write_prompt_checker(folder / "checker")}


@pytest.fixture(scope="module")
def engine(checkpoint: Path, copies: dict[str, Path]) -> Iterator[FrameworkGenerator]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VAE, "/opt/wan/Wan2.2_VAE.pth")
        guarded = FrameworkGenerator()
        guarded.guardrail_models = copies
        with loaded(guarded, checkpoint, STANDIN) as engine:
            yield engine


@pytest.fixture
def make(engine: FrameworkGenerator, tmp_path: Path) -> Make:
    return maker(engine, tmp_path)


@pytest.mark.parametrize(("image_format", "suffix"), [("png", ".png"), ("jpeg", ".jpg")])
def test_text_becomes_an_image(make: Make, tmp_path: Path, image_format: str, suffix: str) -> None:
    [file] = make({"mode": "t2i", "imageFormat": image_format, **SMALL}).files
    assert file.role == "image" and probe(tmp_path / f"output{suffix}") == ImageInfo(320, 192)


def test_checkpoint_stays_unchanged_and_vae_comes_from_the_image(engine: FrameworkGenerator, checkpoint: Path) -> None:
    assert [path.name for path in (checkpoint / "sound_tokenizer").iterdir()] == ["config.json"]
    assert any("vae_path=/opt/wan/Wan2.2_VAE.pth" in line for line in engine.startup_logs)


@pytest.mark.parametrize("sound", [False, True])
def test_text_becomes_a_video(make: Make, tmp_path: Path, sound: bool) -> None:
    result = make({"mode": "t2v", "sound": sound, **SMALL, **FEW})
    assert video(tmp_path) == (320, 192, 9, 24, sound)
    assert result.timings.keys() == {"prepare", "generate", "write"} and result.facts["plan"] == "cfg 2"
    assert result.generation.max_sequence_length is not None
    if sound:  # the framework generates more sound than video
        with av.open(str(tmp_path / "output.mp4")) as container:
            assert float(container.streams.audio[0].duration * container.streams.audio[0].time_base) < 0.5


def test_an_image_becomes_a_video_with_sound(make: Make, tmp_path: Path, picture: Path) -> None:
    make({"sound": True, **SMALL, **FEW}, picture)
    assert video(tmp_path) == (320, 192, 9, 24, True)


@pytest.mark.parametrize("keep", ["first", "last"])
def test_video_is_continued(make: Make, tmp_path: Path, clip: Path, keep: str) -> None:
    make({"conditionKeep": keep, **SMALL, "numFrames": 13}, clip)
    assert video(tmp_path) == (320, 192, 13, 24, False)


def test_actions_become_a_video(make: Make, tmp_path: Path, picture: Path) -> None:
    result = make({"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, picture)
    assert [file.role for file in result.files] == ["video"]
    assert video(tmp_path)[2:] == (5, 5, False)


@pytest.mark.parametrize("mode", ["inverse_dynamics", "policy"])
def test_a_video_becomes_actions(make: Make, tmp_path: Path, clip: Path, mode: str) -> None:
    result = make({"mode": mode, **ACTIONS}, clip)
    assert [file.role for file in result.files] == ["video", "actions"]
    assert np.array(json.loads((tmp_path / "actions.json").read_text())).shape == (4, 10)


def test_controls_become_a_video(make: Make, tmp_path: Path, clip: Path) -> None:
    controls = {"edge": {"weight": 2}, "blur": {}}
    make({"mode": "transfer", "controls": controls, "fps": 12, **SMALL, **FEW}, clip)
    assert video(tmp_path) == (320, 192, 9, 12, False)


def test_fractional_frame_rate_of_a_control_is_refused(make: Make, clip: Path) -> None:
    with pytest.raises(Failure, match="requires a whole number as fps") as raised:
        make({"mode": "transfer", "controls": {"edge": {}}, "fps": 23.5, **SMALL, **FEW}, clip)
    assert raised.value.error.code == "InvalidInput"


def test_wrong_frame_count_is_kept_for_the_worker_to_check(make: Make, tmp_path: Path) -> None:
    make({"mode": "t2v", **SMALL, **FEW}, prompt="one frame")
    assert video(tmp_path)[2] == 1  # the worker's check of the file refuses it


def test_notes_tell_the_frameworks_own_lossy_encoding(make: Make) -> None:
    [note] = make({"mode": "t2v", **SMALL, **FEW}).notes
    assert "encoded once more for this file: detail was lost twice" in note
    for image_format in ("png", "jpeg"):
        [note] = make({"mode": "t2i", "imageFormat": image_format, **SMALL}).notes
        assert "writes its image as JPEG (quality 100), from which this file was made" in note


def test_note_tells_that_a_negative_prompt_had_no_effect(make: Make, picture: Path) -> None:
    parameters = {"mode": "policy", "negativePrompt": "Blur.", **ACTIONS}
    unguided = make(parameters, picture).notes
    assert not any("negativePrompt" in note for note in unguided), "no model reads a negative prompt without guidance"
    assert "negativePrompt had no effect" in make({**parameters, "guidanceScale": 3}, picture).notes[0]


def test_prompt_longer_than_max_sequence_length_is_refused(make: Make) -> None:
    with pytest.raises(Failure, match="maxSequenceLength"):
        make({"mode": "t2v", "maxSequenceLength": 1, **SMALL, **FEW})


def test_out_of_memory_is_not_retryable(make: Make) -> None:
    with pytest.raises(Failure, match="Memory ran out on this job") as raised:
        make({"mode": "t2v", **SMALL, **FEW}, prompt="starve")
    assert not raised.value.error.retryable and "more memory" in raised.value.error.remedy


def test_failed_job_does_not_affect_the_next(make: Make, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="failed at this job") as raised:
        make({"mode": "t2v", **SMALL, **FEW}, prompt="fail")
    assert raised.value.error.retryable
    make({"mode": "t2v", **SMALL, **FEW})
    assert video(tmp_path)[2] == 9


def test_next_job_is_generated_while_the_last_one_is_written(
    engine: FrameworkGenerator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are encoded in the worker for seconds, in which the group is not to wait."""
    served, write, requests, second_began = engine._served, engine.write, list[Any](), threading.Event()
    assert served is not None
    request = served.request

    def write_late(*arguments: Any) -> Any:
        assert second_began.wait(PATIENCE), "the second job waits until the first is written"
        return write(*arguments)

    async def counted(send: Any) -> Any:
        requests.append(send)
        if len(requests) == 2:
            second_began.set()
        return await request(send)

    monkeypatch.setattr(engine, "write", write_late)
    monkeypatch.setattr(served, "request", counted)

    async def both() -> list[GeneratorOutput]:
        engine._turn = asyncio.Lock()  # a lock belongs to one event loop
        generation = settled({"mode": "t2v", **SMALL, **FEW}, None, guardrails=False)
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
        jobs = [
            engine.generate(generation, GenerationFiles(None, {}), tmp_path / name, name)
            for name in ("first", "second")
        ]
        return await asyncio.gather(*jobs)

    assert all(output.files for output in asyncio.run(both()))


def test_steps_are_counted_once_although_guidance_has_two_passes(make: Make, engine: FrameworkGenerator) -> None:
    make({"mode": "t2v", **SMALL, **FEW, "steps": 3})
    assert isinstance(engine, StepReportingEngine) and engine.steps("") == (3, 3)


def test_group_restarts_after_one_of_its_processes_died(make: Make, tmp_path: Path) -> None:
    with pytest.raises(EngineDied):
        make({"mode": "t2v", **SMALL, **FEW}, prompt="die")
    make({"mode": "t2v", **SMALL, **FEW})
    assert video(tmp_path)[2] == 9


def test_guardrails_refuse_prompts_and_outputs(make: Make, engine: FrameworkGenerator) -> None:
    assert any("guardrails True" in line for line in engine.startup_logs)
    for prompt, what in (("forbidden", "the prompt"), ("an unsafe picture", "the output")):
        with pytest.raises(Failure, match=what) as raised:
            make({"mode": "t2v", **SMALL, **FEW}, prompt=prompt, guardrails=True)
        assert raised.value.error.code == "Blocked" and prompt not in raised.value.error.message
        assert make({"mode": "t2v", **SMALL, **FEW}, prompt=prompt).checks == Checks()


def test_checks_hold_the_verdicts_of_this_job_alone(make: Make, engine: FrameworkGenerator) -> None:
    result = make({"mode": "t2v", **SMALL, **FEW}, guardrails=True)
    assert result.checks == Checks(by=engine.name, prompt="passed", output="facesBlurred")
    result = make({"mode": "t2v", **SMALL, **FEW}, prompt="never looked", guardrails=True)
    assert result.checks.output == "notEvaluated", "verdicts of the job before must not count"


@pytest.mark.parametrize(("prompt", "what"), [("unlabelled", "the prompt"), ("broken", "the output")])
def test_guardrail_without_verdict_fails_the_job_and_not_the_next(make: Make, prompt: str, what: str) -> None:
    """Without `make_strict`, the framework's guardrails treat an answer without a label as safe."""
    with pytest.raises(Failure, match=f"could not judge {what}") as raised:
        make({"mode": "t2v", **SMALL, **FEW}, prompt=prompt, guardrails=True)
    assert raised.value.error.code == "EngineFailed" and "Nothing was delivered" in raised.value.error.message
    assert make({"mode": "t2v", **SMALL, **FEW}, guardrails=True).checks.prompt == "passed"


@pytest.mark.parametrize(
    ("plan", "shared"),
    [
        (ParallelPlan(), "'parallelism_preset': 'throughput', 'dp_shard_size': 1, 'cfgp_size': 1, 'cp_size': 1"),
        (ParallelPlan(cfg=2, ulysses=4), "'dp_shard_size': 1, 'cfgp_size': 2, 'cp_size': 4"),
        (ParallelPlan(tp=4), "{'parallelism_preset': 'latency'}"),
    ],
    ids=str,
)
def test_plan_of_gpus_becomes_options_of_the_framework(
    checkpoint: Path, plan: ParallelPlan, shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):  # another engine in this process may have set it
        monkeypatch.delenv(name, raising=False)
    engine = FrameworkGenerator()
    engine.plan, engine.guardrails = plan, False
    command = engine.group_plan().command(checkpoint, Path("folder"))
    assert command[command.index("--nproc-per-node") + 1] == str(plan.gpus)
    variables = engine.group_plan().environment(None, Path("folder"))
    assert variables["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True", "as NVIDIA recommends"
    assert "--guardrails" not in command
    options = command[command.index("--generator") + 1 :]
    degrees = {flag.removeprefix("--"): int(degree) for flag, degree in zip(options[::2], options[1::2], strict=True)}
    assert shared.strip("{}") in str(_parallelism(Namespace(**degrees)))


def test_guardrails_that_do_not_load_are_named_in_the_error(
    checkpoint: Path, copies: dict[str, Path], tmp_path: Path
) -> None:
    engine = FrameworkGenerator()
    engine.guardrail_models = dict.fromkeys(copies, tmp_path)
    with (
        pytest.raises(Failure, match="guardrails could not be loaded") as raised,
        loaded(engine, checkpoint, STANDIN),
    ):
        pass
    assert raised.value.error.code == "EngineFailed" and "blocklist" in raised.value.error.message


def test_engine_is_created_by_its_name() -> None:
    engine = create_engine("cosmos-framework")
    assert isinstance(engine, FrameworkGenerator) and isinstance(engine, HubGuardrailEngine)
    assert isinstance(engine, GuardrailEngine) and isinstance(engine, ParallelEngine)


def test_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no checkpoint"):
        FrameworkGenerator().load(tmp_path)

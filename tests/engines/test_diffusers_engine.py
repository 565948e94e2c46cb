"""Diffusers' real pipelines on the tiny checkpoint: every mode makes a file that is probed."""

import asyncio
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.generation.sizes import Size
from cosmos_batch.contract.result import Made
from cosmos_batch.contract.tasks import Medium
from cosmos_batch.demo.generator import build_random_generator
from cosmos_batch.engines import GenerationFiles
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.generator.inputs import action_size
from cosmos_batch.media import ImageInfo, VideoInfo, probe
from tests.contract.generations import settled

SMALL = {"width": 64, "height": 48, "steps": 2}
FEW = {"num_frames": 9}
ACTIONS = {"domain_name": "bridge", "resolution": "256p", "action_chunk_size": 4, "steps": 2}
PROMPT = "A red cube rolls."
ROWS = [[0.1] * 10] * 4


@dataclass(frozen=True)
class Files:
    """What was made, and where it lies."""

    made: Made
    folder: Path

    def file(self, role: str) -> Path:
        return next(self.folder / one.name for one in self.made.files if one.role == role)


Make = Callable[..., Files]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_generator(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Iterator[DiffusersEngine]:
    engine = DiffusersEngine()
    engine.guardrails = False
    engine.load(checkpoint)
    yield engine
    engine.close()


@pytest.fixture
def make(engine: DiffusersEngine, tmp_path: Path) -> Make:
    def make(said: dict[str, Any], medium: Path | None = None, *, guardrails: bool = False, **how: Any) -> Files:
        kind: Medium | None = None if medium is None else "image" if medium.suffix == ".png" else "video"
        controls, progress = how.pop("controls", {}), how.pop("progress", lambda *_: None)
        asked = settled(said, kind, guardrails=guardrails, **how)
        folder = tmp_path / "out"
        folder.mkdir(exist_ok=True)
        made = asyncio.run(engine.generate(asked, GenerationFiles(medium, controls), folder, progress))
        return Files(made, folder)

    return make


def refused(make: Make, *arguments: Any, **how: Any) -> Error:
    with pytest.raises(Failure) as raised:
        make(*arguments, **how)
    return raised.value.error


def video(made: Files) -> tuple[int, int, int, float, bool]:
    """Width, height, frames, rate and whether there is sound."""
    found = probe(made.file("video"))
    assert isinstance(found, VideoInfo) and found.codec == "h264"
    with av.open(str(made.file("video"))) as container:
        sound = bool(container.streams.audio)
    return found.width, found.height, len(found.timeline.times), round(found.timeline.fps, 3), sound


def frames(made: Files) -> np.ndarray:
    with av.open(str(made.file("video"))) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


@pytest.mark.parametrize(("image_format", "suffix"), [("png", ".png"), ("jpeg", ".jpg")])
def test_text_becomes_an_image(make: Make, image_format: str, suffix: str) -> None:
    made = make({"mode": "t2i", "image_format": image_format, **SMALL})
    assert made.file("image").suffix == suffix
    assert probe(made.file("image")) == ImageInfo(64, 48)
    assert made.made.timings.keys() == {"prepare", "firstStep", "generate", "write"}


@pytest.mark.parametrize("sound", [False, True])
def test_text_becomes_a_video(make: Make, sound: bool) -> None:
    made = make({"mode": "t2v", "fps": 29.97, "sound": sound, **SMALL, **FEW})
    assert video(made) == (64, 48, 9, 29.97, sound)


@pytest.mark.parametrize("sound", [False, True])
def test_an_image_becomes_a_video_that_begins_with_it(make: Make, picture: Path, sound: bool) -> None:
    assert video(make({"sound": sound, **SMALL, **FEW}, picture)) == (64, 48, 9, 24, sound)


@pytest.mark.parametrize("sound", [False, True])
@pytest.mark.parametrize("keep", ["first", "last"])
def test_a_video_goes_on(make: Make, clip: Path, keep: str, sound: bool) -> None:
    said = {"condition_keep": keep, "sound": sound, **SMALL, "num_frames": 13}
    assert video(make(said, clip)) == (64, 48, 13, 24, sound)


def test_actions_become_a_video(make: Make, picture: Path) -> None:
    made = make({"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, picture)
    assert video(made) == (320, 240, 5, 5, False)
    assert [one.role for one in made.made.files] == ["video"]
    assert made.made.generation.size == Size(320, 240)


@pytest.mark.parametrize("mode", ["inverse_dynamics", "policy"])
def test_a_video_becomes_actions(make: Make, clip: Path, mode: str) -> None:
    made = make({"mode": mode, **ACTIONS}, clip)
    assert video(made) == (320, 240, 5, 5, False)
    assert np.array(json.loads(made.file("actions").read_text())).shape == (4, 10)


def test_the_size_of_actions_fits_one_canvas() -> None:
    for width in range(16, 2000, 37):
        for height in range(16, 1200, 41):
            for tier in ("256p", "480p", "720p"):
                size = action_size(tier, width, height)
                assert action_size(tier, *size) == size
                assert not (size.width % 16 or size.height % 16)


def test_controls_become_a_video_chunk_by_chunk(make: Make, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int]] = []
    said = {"mode": "transfer", "controls": {"edge": {}, "blur": {}}, "frames_per_chunk": 9, **SMALL, "num_frames": 13}
    made = make(said, clip, progress=lambda *step: told.append(step))
    assert video(made)[:3] == (64, 48, 13)
    assert told == [(done, 4) for done in range(5)]  # two chunks of two steps
    assert "%|" not in capsys.readouterr().err


def test_a_control_that_was_given_is_taken_as_it_is(make: Make, clip: Path) -> None:
    said = {"mode": "transfer", "controls": {"depth": {"path": "s3://my-bucket/depth.mp4"}}, **SMALL, **FEW}
    assert video(make(said, controls={"depth": clip}))[:3] == (64, 48, 9)
    error = refused(make, said)
    assert error.code == "InvalidInput" and "controls.depth" in error.message


def test_a_control_that_is_an_image_is_refused(make: Make, picture: Path) -> None:
    said = {"mode": "transfer", "controls": {"depth": {"path": "s3://my-bucket/depth.mp4"}}, **SMALL, **FEW}
    assert "is an image" in refused(make, said, controls={"depth": picture}).message


def test_the_seed_decides(make: Make) -> None:
    said = {"mode": "t2v", **SMALL, "num_frames": 5}
    first, again, other = (frames(make({**said, "seed": seed})) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_jobs_leave_nothing_behind(make: Make, clip: Path) -> None:
    """The scheduler of one job, and the pipeline of transfer, say nothing about the next."""
    said = {"mode": "t2v", "seed": 1, **SMALL, "num_frames": 5}
    first = frames(make(said))
    make({"mode": "transfer", "controls": {"edge": {}}, "flow_shift": 3.0, **SMALL, "num_frames": 5}, clip)
    assert np.array_equal(first, frames(make(said)))
    assert not np.array_equal(first, frames(make({**said, "flow_shift": 2.0})))


def test_the_scheduler_is_the_one_of_the_job(make: Make, engine: DiffusersEngine) -> None:
    make({"mode": "t2v", "flow_shift": 5.0, **SMALL, "num_frames": 5})
    assert engine._checkpoint is not None
    config = engine._checkpoint.omni.scheduler.config
    assert config.flow_shift == 5.0 and not config.use_karras_sigmas and config.use_flow_sigmas


def test_progress_is_told_step_by_step(make: Make) -> None:
    told: list[tuple[int, int]] = []
    make({"mode": "t2v", **SMALL, "num_frames": 5, "steps": 3}, progress=lambda *step: told.append(step))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("said", [{"mode": "t2v"}, {"mode": "transfer", "controls": {"edge": {}}}])
def test_cancelling_stops_between_steps(
    engine: DiffusersEngine, clip: Path, tmp_path: Path, said: dict[str, Any]
) -> None:
    async def cancel() -> list[int]:
        told: list[int] = []
        loop = asyncio.get_running_loop()

        def stop(done: int, _total: int) -> None:
            told.append(done)
            if done == 1:
                loop.call_soon_threadsafe(job.cancel)
                # The step waits for its cancellation, as a longer one would.
                asyncio.run_coroutine_threadsafe(_gone(job), loop).result()

        medium = clip if said["mode"] == "transfer" else None
        asked = settled({**said, **SMALL, **FEW, "steps": 50}, "video" if medium else None, guardrails=False)
        job = asyncio.ensure_future(engine.generate(asked, GenerationFiles(medium, {}), tmp_path, stop))
        with pytest.raises(asyncio.CancelledError):
            await job
        await loop.run_in_executor(engine._generating, lambda: None)
        return told

    assert asyncio.run(cancel()) == [0, 1]
    assert list(tmp_path.iterdir()) == []


async def _gone(job: "asyncio.Future[Any]") -> None:
    while not job.done():
        await asyncio.sleep(0)


def test_no_prompt_is_cut(make: Make) -> None:
    said = {"mode": "t2i", **SMALL}
    made = make(said, prompt="A cube. " * 600)
    assert (made.made.generation.max_sequence_length or 0) > 1200
    assert make(said).made.generation.max_sequence_length == 512
    error = refused(make, {**said, "max_sequence_length": 600}, prompt="A cube. " * 600)
    assert error.code == "InvalidInput" and "would be cut" in error.message


def test_guardrails_that_are_not_here_refuse_before_work(make: Make) -> None:
    told: list[tuple[int, int]] = []
    error = refused(make, {"mode": "t2i", **SMALL}, guardrails=True, progress=lambda *step: told.append(step))
    assert error.code == "InvalidInput" and "guardrails" in error.message
    assert told == []


def test_memory_that_runs_out_has_a_remedy(
    make: Make, engine: DiffusersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    assert engine._checkpoint is not None
    monkeypatch.setattr(engine._checkpoint.omni.vae, "decode", full)
    error = refused(make, {"mode": "t2i", **SMALL})
    assert error.code == "EngineFailed" and error.retryable
    assert "numFrames" in error.remedy


class StandIn:
    """A classifier in place of the guardrails' models; all around it is Diffusers' own."""

    def __init__(self, prompt: bool = True, output: bool = True) -> None:
        self.prompt, self.output = prompt, output
        self.seen: list[tuple[Any, ...]] = []

    def to(self, _device: object) -> None:
        pass

    def check_text_safety(self, prompt: str) -> bool:
        self.seen.append((prompt,))
        return self.prompt

    def check_video_safety(self, pixels: np.ndarray) -> np.ndarray | None:
        self.seen.append(pixels.shape)
        return np.full_like(pixels, 90) if self.output else None


@pytest.fixture
def guard(engine: DiffusersEngine, monkeypatch: pytest.MonkeyPatch) -> Callable[[StandIn], StandIn]:
    """The engine as it is where guardrails were loaded."""
    from diffusers.pipelines.cosmos import pipeline_cosmos3_omni

    def guard(checker: StandIn) -> StandIn:
        assert engine._checkpoint is not None
        monkeypatch.setattr(pipeline_cosmos3_omni, "CosmosSafetyChecker", StandIn)
        monkeypatch.setattr(engine._checkpoint.omni, "safety_checker", checker)
        monkeypatch.setattr(engine._checkpoint.modular, "safety_checker", checker, raising=False)
        monkeypatch.setattr(engine, "_checkpoint", replace(engine._checkpoint, guardrails=True))
        return checker

    return guard


PLAIN = {"mode": "t2v", **SMALL, "num_frames": 5}
FOLLOWED = {"mode": "transfer", "controls": {"edge": {}}, **SMALL, "num_frames": 5}


@pytest.mark.parametrize("said", [PLAIN, FOLLOWED], ids=["t2v", "transfer"])
def test_guardrails_see_prompt_and_output(
    make: Make, guard: Callable[[StandIn], StandIn], clip: Path, said: dict[str, Any]
) -> None:
    medium = clip if said is FOLLOWED else None
    checker = guard(StandIn())
    made = make(said, medium, guardrails=True, prompt=PROMPT)
    assert checker.seen == [(PROMPT,), (5, 48, 64, 3)]
    assert np.abs(frames(made).astype(int) - 90).max() <= 2  # faces would be blurred: what comes back is delivered
    make(said, medium, guardrails=False)
    assert len(checker.seen) == 2


@pytest.mark.parametrize("said", [PLAIN, FOLLOWED], ids=["t2v", "transfer"])
@pytest.mark.parametrize("what", ["prompt", "output"])
def test_what_guardrails_block_is_said_without_the_prompt(
    make: Make,
    guard: Callable[[StandIn], StandIn],
    clip: Path,
    said: dict[str, Any],
    what: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard(StandIn(**{what: False}))
    logging.getLogger("diffusers").addHandler(caplog.handler)
    with pytest.raises(Failure) as raised:
        make(said, clip if said is FOLLOWED else None, guardrails=True, prompt=PROMPT)
    assert raised.value.error.code == "Blocked" and what in raised.value.error.message
    assert PROMPT not in "".join(traceback.format_exception(raised.value)) + caplog.text


@pytest.mark.parametrize("said", [PLAIN, FOLLOWED], ids=["t2v", "transfer"])
def test_layers_that_wait_in_the_hosts_memory_make_the_same(
    make: Make, checkpoint: Path, clip: Path, tmp_path: Path, said: dict[str, Any]
) -> None:
    medium = clip if said is FOLLOWED else None
    expected = frames(make({**said, "seed": 3}, medium))
    engine = DiffusersEngine()
    engine.guardrails, engine.plan = False, ParallelPlan(offload=True)
    engine.load(checkpoint)
    try:
        assert any("its layers offloaded" in line for line in engine.startup_logs)
        transformer = engine._loaded().omni.transformer
        assert all(hasattr(layer, "_diffusers_hook") for layer in transformer.layers)
        asked = settled({**said, "seed": 3}, "video" if medium else None, guardrails=False)
        made = asyncio.run(engine.generate(asked, GenerationFiles(medium, {}), tmp_path))
    finally:
        engine.close()
    assert np.array_equal(frames(Files(made, tmp_path)), expected)


def test_a_broken_checkpoint_is_named(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(Failure) as empty:
        DiffusersEngine().load(tmp_path)
    assert empty.value.error.code == "ModelUnavailable" and "model_index.json" in empty.value.error.message
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "model_index.json").write_bytes((checkpoint / "model_index.json").read_bytes())
    with pytest.raises(Failure) as damaged:
        DiffusersEngine().load(broken)
    assert damaged.value.error.code == "ModelUnavailable" and "broken" in damaged.value.error.message

"""The engine `phyai`: our driver in a real torchrun group of two, on a stand-in for PhyAI."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.generator.guardrails import refuse_unguarded
from cosmos_batch.engines.generator.phyai.driver import FLOW_SHIFT
from cosmos_batch.engines.generator.phyai.engine import PhyaiEngine
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.protocol import GuardrailEngine, ParallelEngine, StepReportingEngine
from cosmos_batch.media.writing import write_image
from tests.engines.conftest import make_job
from tests.support.generations import settled
from tests.support.generator_jobs import ACTIONS
from tests.support.torchrun_generators import FEW, ROWS, SMALL, Make, checkpoint_in, loaded, maker, video

STANDIN = Path(__file__).parents[1] / "phyai_standin"
NO_TEMPLATES = {"useResolutionTemplate": False, "useDurationTemplate": False}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhyaiEngine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSMOS_STANDIN_STEP_SECONDS", "0.02")
        yield from group(tmp_path_factory)


def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhyaiEngine]:
    with loaded(PhyaiEngine(), checkpoint_in(tmp_path_factory.mktemp("Cosmos3-Nano")), STANDIN) as engine:
        yield engine


@pytest.fixture
def make(engine: PhyaiEngine, tmp_path: Path) -> Make:
    return maker(engine, tmp_path)


def first_frame(folder: Path) -> np.ndarray:
    with av.open(str(folder / "output.mp4")) as container:
        return next(frame.to_ndarray(format="rgb24") for frame in container.decode(video=0))


@pytest.mark.parametrize("sound", [False, True])
def test_text_becomes_a_video(make: Make, tmp_path: Path, sound: bool) -> None:
    result = make({"mode": "t2v", "fps": 29.97, "sound": sound, **SMALL, **FEW})
    assert video(tmp_path) == (320, 192, 9, 29.97, sound)
    assert [file.role for file in result.files] == ["video"] and result.facts["plan"] == "cfg 2"
    if sound:  # PhyAI generates more sound than video
        with av.open(str(tmp_path / "output.mp4")) as container:
            assert float(container.streams.audio[0].duration * container.streams.audio[0].time_base) < 0.4


def test_an_image_becomes_a_video_that_begins_with_it(make: Make, tmp_path: Path) -> None:
    colours = []
    for level in (0, 250):
        write_image(tmp_path / "input.png", np.full((192, 320, 3), level, np.uint8))
        make({"sound": level > 0, **SMALL, **FEW}, tmp_path / "input.png")
        assert video(tmp_path) == (320, 192, 9, 24, level > 0)
        colours.append(first_frame(tmp_path)[:, 40:].mean())
    assert colours[1] - colours[0] > 40  # an eighth of what is between black and white, twice


@pytest.mark.parametrize("keep", ["first", "last"])
def test_video_is_continued(make: Make, tmp_path: Path, clip: Path, keep: str) -> None:
    make({"conditionKeep": keep, "conditionFrames": [0, 1, 2], **SMALL, "numFrames": 13}, clip)
    assert video(tmp_path) == (320, 192, 13, 24, False)


def test_actions_become_a_video(make: Make, tmp_path: Path, picture: Path) -> None:
    result = make({"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, picture)
    assert [file.role for file in result.files] == ["video"] and video(tmp_path)[2:] == (5, 5, False)


@pytest.mark.parametrize("mode", ["inverse_dynamics", "policy"])
def test_a_video_becomes_actions(make: Make, tmp_path: Path, clip: Path, mode: str) -> None:
    result = make({"mode": mode, **ACTIONS}, clip)
    assert [file.role for file in result.files] == ["video", "actions"]
    assert np.array(json.loads((tmp_path / "actions.json").read_text())).shape == (4, 10)


def test_refused_request_does_not_affect_the_next(make: Make, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="this prompt is no prompt") as raised:
        make({"mode": "t2v", **SMALL, **FEW}, prompt="refused")
    assert raised.value.error.code == "EngineFailed" and not raised.value.error.retryable
    make({"mode": "t2v", **SMALL, **FEW})
    assert video(tmp_path)[2] == 9


def test_steps_are_counted_once_although_guidance_has_two_passes(make: Make, engine: PhyaiEngine) -> None:
    make({"mode": "t2v", **SMALL, **FEW, "steps": 3})
    assert isinstance(engine, StepReportingEngine) and engine.steps("") == (3, 3)


@pytest.mark.slow  # that of Cosmos Framework, which is served alike, is restarted in make test
def test_group_restarts_after_one_of_its_processes_died(make: Make, tmp_path: Path) -> None:
    with pytest.raises(EngineDied):
        make({"mode": "t2v", **SMALL, **FEW, **NO_TEMPLATES}, prompt="word " * 13)
    make({"mode": "t2v", **SMALL, **FEW})
    assert video(tmp_path)[2] == 9


def test_a_cancelled_job_whose_folder_is_removed_leaves_the_group_to_the_next(
    make: Make, engine: PhyaiEngine, tmp_path: Path
) -> None:
    """The group works on a cancelled job to its end, which finds no folder to write into."""

    async def cancel_two() -> None:
        engine._turn = asyncio.Lock()
        for name, steps in (("begun", 100), ("waiting", 2)):
            (folder := tmp_path / name).mkdir()
            generation = settled({"mode": "t2v", **SMALL, **FEW, "steps": steps}, guardrails=False)
            job = asyncio.ensure_future(engine.generate(generation, GenerationFiles(None, {}), folder, name))
            while name == "begun" and not engine.steps(name):
                await asyncio.sleep(0.05)
            await asyncio.wait([job], timeout=0.2)
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            shutil.rmtree(folder)

    assert engine._served is not None
    server = engine._served._server
    asyncio.run(cancel_two())
    make({"mode": "t2v", **SMALL, **FEW})
    assert video(tmp_path)[2] == 9 and engine._served._server is server, "the group was not started again"


@pytest.mark.parametrize("parameters", [{**SMALL, **FEW}, {"mode": "policy", **ACTIONS}], ids=["video", "actions"])
def test_a_job_cancelled_before_its_frames_are_read_leaves_the_group_to_the_next(
    make: Make, engine: PhyaiEngine, tmp_path: Path, picture: Path, parameters: dict[str, Any]
) -> None:
    """The request was checked, but no process has loaded the frames from the job's folder when that is removed."""
    assert engine._served is not None
    server, tokenizer = engine._served._server, engine._served._checkpoint / "text_tokenizer"
    (folder := tmp_path / "cancelled").mkdir()

    async def cancel() -> None:
        engine._turn = asyncio.Lock()
        generation = settled(parameters, "image", guardrails=False)
        job = asyncio.ensure_future(engine.generate(generation, GenerationFiles(picture, {}), folder, "job"))
        while not (tokenizer / "held").exists():
            await asyncio.sleep(0.01)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job

    (tokenizer / "hold").touch()
    asyncio.run(cancel())
    shutil.rmtree(folder)
    (tokenizer / "held").unlink()
    (tokenizer / "hold").unlink()
    make({"mode": "t2v", **SMALL, **FEW})
    assert video(tmp_path)[2] == 9 and engine._served._server is server, "the group was not started again"


def test_unsupported_generations_are_refused_before_any_work(make: Make, picture: Path, clip: Path) -> None:
    for parameters, medium, why in (
        ({"mode": "t2i", **SMALL}, None, "does not do t2i"),
        ({"mode": "t2v", "flowShift": 5, **SMALL, **FEW}, None, "is started with a flowShift of 10"),
        ({"mode": "t2v", "guidanceScale": 0, **SMALL, **FEW}, None, "guidanceScale of at least 1"),
        ({"sound": True, **SMALL, "numFrames": 13}, clip, "generates no sound with v2v"),
    ):
        with pytest.raises(Failure, match=why) as raised:
            make(parameters, medium)
        assert raised.value.error.code == "InvalidInput"


def test_job_with_guardrails_is_refused_before_any_work() -> None:
    engine = create_engine("phyai")
    assert (
        isinstance(engine, PhyaiEngine)
        and isinstance(engine, ParallelEngine)
        and not isinstance(engine, GuardrailEngine)
    )
    job = make_job("a.png").model_copy(update={"generation": settled({"mode": "t2v"}, guardrails=True)})
    with pytest.raises(Failure, match=f"{engine.name} has no guardrails here, and the job asks for them") as raised:
        refuse_unguarded(engine, job, required=False)
    assert raised.value.error.code == "EngineFailed", "the fault is not the job's"


def test_plan_becomes_options_and_flow_shift_equals_the_abilities() -> None:
    engine = PhyaiEngine()
    engine.plan = ParallelPlan(tp=4, cfg=2)
    command = engine.group_plan().command(Path("model"), Path("folder"))
    assert command[command.index("--nproc-per-node") + 1] == "8"
    assert command[-4:] == ["--tp", "4", "--cfg", "2"]
    assert GENERATOR_ABILITIES["phyai"].flow_shift == FLOW_SHIFT


def test_group_that_cannot_start_reports_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSMOS_STANDIN_REFUSES", "1")
    with (
        pytest.raises(Failure, match="does not fit") as raised,
        loaded(PhyaiEngine(), checkpoint_in(tmp_path), STANDIN),
    ):
        pass
    assert raised.value.error.code == "ModelUnavailable" and "more memory" in raised.value.error.remedy

"""The Transformers engine with a tiny real checkpoint, real files and real answers."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.result import Answer
from cosmos_batch.demo.checkpoint import MAX_NEW_TOKENS, NAME, build_random_cosmos3
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.protocol import Engine
from cosmos_batch.engines.reasoner.transformers.engine import TransformersEngine
from cosmos_batch.engines.reasoner.transformers.generation import generate
from cosmos_batch.engines.torch_errors import GPU_LOST
from tests.engines.conftest import Run, make_job, place
from tests.support import media_files


def test_a_video_is_answered(run: Run, clip: Path) -> None:
    answer = run(clip, maxTokens=None)
    assert answer.text.isascii()
    assert answer.text.isprintable()
    assert len(answer.text.split()) > 20
    assert answer.reasoning is None
    assert answer.finish_reason == "length"
    assert answer.usage.completion_tokens == MAX_NEW_TOKENS
    assert set(answer.timings) == {"decode", "prepare", "generate"}
    assert all(seconds > 0 for seconds in answer.timings.values())


def test_cosmos_3_and_reason_2_with_the_same_weights_give_the_same_answer(
    run: Run, clip: Path, picture: Path, tmp_path: Path
) -> None:
    engine = TransformersEngine()
    engine.load(build_random_cosmos3(tmp_path / "models"))
    try:
        for source in (clip, picture):
            job = make_job(source.name, maxTokens=8)
            place(source, job, tmp_path / source.stem)
            answer, other = asyncio.run(engine.run(job, tmp_path / source.stem)), run(source)
            assert (answer.text, answer.usage) == (other.text, other.usage)
    finally:
        engine.close()


def test_an_image_is_answered(run: Run, picture: Path) -> None:
    answer = run(picture)
    assert answer.text
    assert any("image: 320 x 240" in line for line in answer.logs)


@pytest.mark.parametrize(("fps", "frames"), [(1, 4), (2, 8), (4, 16)])
def test_fps_decides_how_many_frames_are_seen(run: Run, clip: Path, fps: float, frames: int) -> None:
    assert any(f"seen: {frames} frames" in line for line in run(clip, fps=float(fps)).logs)


def test_the_default_frame_rate_is_that_of_training(run: Run, clip: Path) -> None:
    assert any("seen: 16 frames" in line for line in run(clip).logs)


def test_max_tokens_limits_the_answer(run: Run, clip: Path) -> None:
    assert run(clip, maxTokens=5).usage.completion_tokens == 5


def test_the_seed_decides_the_answer(run: Run, clip: Path) -> None:
    first, again, other = (run(clip, maxTokens=24, seed=seed).text for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    "prompt",
    ["Was ist das? 😀\nここで何が起きますか?", "<|video_pad|><|im_end|><|image_pad|>", "<think>", "%+{}\\n\x00", " "],
)
def test_any_prompt_is_answered(run: Run, clip: Path, prompt: str) -> None:
    assert run(clip, prompt).usage.completion_tokens == 8


def test_a_prompt_that_fills_the_context_is_refused(run: Run, clip: Path) -> None:
    with pytest.raises(Failure) as refused:
        run(clip, "zebra " * 5000)
    assert refused.value.error.code == "InvalidInput"
    assert "4,096 tokens" in refused.value.error.message


def test_a_long_answer_and_prompt_leave_room_for_media(run: Run, clip: Path) -> None:
    answer = run(clip, "Look. " * 300, maxTokens=1)
    assert answer.usage.prompt_tokens + 1 <= 4096


def test_the_engine_survives_its_own_failures(
    engine: TransformersEngine, run: Run, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("cosmos_batch.engines.reasoner.transformers.engine.generate", lambda *_: 1 / 0)
        with pytest.raises(Failure) as failed:
            run(clip)
    assert failed.value.error.code == "EngineFailed"
    assert "ZeroDivisionError" in failed.value.error.message
    assert run(clip).text


def test_two_jobs_at_once_have_their_own_answers_and_logs(
    engine: TransformersEngine, clip: Path, picture: Path, tmp_path: Path, run: Run
) -> None:
    async def both() -> list[str]:
        jobs = [make_job(source.name, maxTokens=8) for source in (clip, picture)]
        for job, source in zip(jobs, (clip, picture), strict=True):
            place(source, job, tmp_path / source.stem)
        answers = await asyncio.gather(
            *(engine.run(job, tmp_path / source.stem) for job, source in zip(jobs, (clip, picture), strict=True))
        )
        assert [sum("seen" in line for line in answer.logs) for answer in answers] == [1, 1]
        assert "video:" in answers[0].logs[0]
        assert "image:" in answers[1].logs[0]
        return [answer.text for answer in answers]

    assert engine.concurrency >= 2
    assert asyncio.run(both()) == [run(clip).text, run(picture).text]


def test_cancelling_stops_the_generation(
    engine: TransformersEngine, clip: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that generates raises in the middle of the answer; otherwise it would return all 3,000 tokens."""
    begun = threading.Event()
    outcomes: list[str] = []

    def recording(*arguments: Any) -> Answer:
        begun.set()
        try:
            answer = generate(*arguments)
        except Failure as failure:
            outcomes.append(failure.error.code)
            raise
        outcomes.append("answered")
        return answer

    monkeypatch.setattr("cosmos_batch.engines.reasoner.transformers.engine.generate", recording)
    job = make_job(clip.name, maxTokens=3000)
    place(clip, job, tmp_path)

    async def cancel() -> None:
        task = asyncio.create_task(engine.run(job, tmp_path))
        assert await asyncio.to_thread(begun.wait, 120)
        await asyncio.sleep(1)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert run(clip, maxTokens=1).text
    assert outcomes == ["Cancelled", "answered"]


def test_a_closed_engine_ends_its_jobs_and_may_load_again(checkpoint_dir: Path, clip: Path, tmp_path: Path) -> None:
    engine = TransformersEngine()
    engine.load(checkpoint_dir)
    job = make_job(clip.name, maxTokens=3000)
    place(clip, job, tmp_path)

    async def close_meanwhile() -> None:
        task = asyncio.create_task(engine.run(job, tmp_path))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(engine.close)
        with pytest.raises(Failure) as ended:
            await task
        assert ended.value.error.code == "Cancelled"

    asyncio.run(close_meanwhile())
    with pytest.raises(Failure, match="before it had loaded"):
        asyncio.run(engine.run(job, tmp_path))
    engine.load(checkpoint_dir)
    assert asyncio.run(engine.run(make_job(clip.name, maxTokens=2), tmp_path)).text
    engine.close()


def test_the_engine_reports_its_version_and_startup_logs(engine: TransformersEngine) -> None:
    assert engine.name == f"transformers {version('transformers')}"
    text = "\n".join(engine.startup_logs)
    for word in (NAME, "torch", "device:", "Qwen3VLForConditionalGeneration", "parameters", "context of 4,096"):
        assert word in text
    assert "\x1b" not in text
    assert "it/s" not in text


def test_it_is_created_by_its_name() -> None:
    engine: Engine = create_engine("transformers")
    assert isinstance(engine, TransformersEngine)


def test_importing_the_module_imports_no_library() -> None:
    code = (
        "import sys, cosmos_batch.engines.reasoner.transformers.engine\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["False", "False"]


def test_loading_uses_no_network(
    engine: TransformersEngine, checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    other = TransformersEngine()
    other.load(checkpoint_dir)
    other.close()


def _without_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def _unknown_architecture(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "not_a_model"}))


def _without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _cut_weights(folder: Path) -> None:
    media_files.cut(folder / "model.safetensors", folder / "model.safetensors")


def _without_processor(folder: Path) -> None:
    (folder / "video_preprocessor_config.json").unlink()
    (folder / "preprocessor_config.json").unlink()


def _with_missing_tensors(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["num_hidden_layers"] += 1
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "damage",
    [_without_config, _unknown_architecture, _without_weights, _cut_weights, _without_processor, _with_missing_tensors],
)
def test_the_error_for_a_broken_checkpoint_names_it(
    engine: TransformersEngine, checkpoint_dir: Path, tmp_path: Path, damage: object
) -> None:
    assert callable(damage)
    folder = tmp_path / "broken-checkpoint"
    shutil.copytree(checkpoint_dir, folder)
    damage(folder)
    with pytest.raises(Failure) as failed:
        TransformersEngine().load(folder)
    assert failed.value.error.code == "ModelUnavailable"
    assert "broken-checkpoint" in failed.value.error.message
    assert failed.value.error.remedy


def test_a_lost_gpu_ends_the_process(tmp_path: Path) -> None:
    """After an error of the device every job would fail, so the worker exits and its jobs run elsewhere."""
    code = (
        "from cosmos_batch.engines.torch_errors import run_with_failures\n"
        "def work(): raise RuntimeError('CUDA error: device-side assert triggered')\n"
        "run_with_failures('fps', work)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path, check=False)
    assert ended.returncode == GPU_LOST, ended.stderr.decode()

"""What faults of vLLM-Omni mean, how its server lives, and how it is started. The real server is in tests/omni."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.result import Made
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.generator.vllm_omni import engine as vllm_omni
from cosmos_batch.engines.generator.vllm_omni.command import OmniPlan, finished_bars, latest_progress
from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine
from cosmos_batch.engines.generator.vllm_omni.plugin import VERDICTS_FOLDER
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.protocol import StepReportingEngine
from cosmos_batch.engines.serving import served_model, watchdog
from cosmos_batch.engines.serving import server as server_module
from cosmos_batch.engines.serving.served_model import CRASHES_IN_A_ROW
from tests.engines.generator.vllm_omni.conftest import VIDEO, Make, folder, generation, video
from tests.engines.test_server import lives, until
from tests.support.generator_jobs import ACTIONS, PROMPT, SMALL, refused
from tests.support.vllm_omni_server import PLUGINLESS


def test_one_frame_where_more_were_asked_for_is_not_delivered(make: Make, tmp_path: Path) -> None:
    """All that came is kept, and the worker looks at all of it."""
    made = make(VIDEO, prompt="a single frame")
    with pytest.raises(Failure, match="1 instead of 9 frames") as raised:
        video(made, tmp_path)
    assert raised.value.error.code == "EngineFailed"


@pytest.mark.parametrize(("said", "told"), [({}, "48 x 64 instead of 64 x 48"), ({"sound": True}, "no sound")])
def test_another_size_or_no_sound_is_not_delivered(make: Make, tmp_path: Path, said: dict[str, Any], told: str) -> None:
    made = make({**VIDEO, **said}, prompt="a mute one" if said else "a small one")
    with pytest.raises(Failure, match=told):
        video(made, tmp_path)


@pytest.mark.parametrize("mode", ["t2i", "t2v"])
@pytest.mark.parametrize("prompt", ["broken", "nonsense"])
def test_what_is_no_medium_is_the_engines_fault(make: Make, mode: str, prompt: str) -> None:
    error = refused(make, {**VIDEO, "mode": mode, "num_frames": 1 if mode == "t2i" else 9}, prompt=prompt)
    assert error.code == "EngineFailed"


@pytest.mark.parametrize("mode", ["t2i", "t2v"])
def test_what_guardrails_block_is_said_without_the_prompt(make: Make, mode: str) -> None:
    error = refused(make, {**SMALL, "mode": mode}, prompt="block this secret")
    assert error.code == "Blocked" and "refused the prompt" in error.message
    assert "secret" not in error.model_dump_json()


@pytest.mark.parametrize(
    ("prompt", "told", "retryable"),
    [
        ("fail", "HTTP 500", True),
        ("refuse", "HTTP 400", False),
        ("memory", "Memory ran out", False),
        ("gone", "HTTP 422", False),
    ],
)
def test_a_fault_is_one_jobs_alone(
    make: Make, asked: Callable[[], Any], prompt: str, told: str, retryable: bool
) -> None:
    error = refused(make, VIDEO, prompt=prompt)
    assert error.code == "EngineFailed" and told in error.message and error.retryable == retryable
    assert asked()[-1]["deleted"]
    make(VIDEO)


def test_a_death_for_want_of_memory_is_the_jobs_that_was_alone_and_would_come_again(make: Make, tmp_path: Path) -> None:
    error = refused(make, VIDEO, prompt="starve")
    assert error.code == "EngineFailed" and not error.retryable
    assert "ran out of GPU memory" in error.message and "lower resolution" in error.remedy
    assert video(make(VIDEO), tmp_path)


def test_a_death_is_told_and_the_next_is_made(make: Make, tmp_path: Path) -> None:
    with pytest.raises(EngineDied, match="was killed by SIGKILL") as died:
        make(VIDEO, prompt="die")
    assert not died.value.for_good
    assert video(make(VIDEO), tmp_path)


def test_one_that_dies_again_and_again_is_given_up(make: Make) -> None:
    for count in range(1, CRASHES_IN_A_ROW + 1):
        with pytest.raises(EngineDied) as died:
            make(VIDEO, prompt="die")
        assert died.value.for_good == (count == CRASHES_IN_A_ROW)


def test_one_that_is_silent_is_a_dead_one(
    asked: Any, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(watchdog, "SILENT_POLLS", 5)
    monkeypatch.setattr(served_model, "_HEALTH_SECONDS", 0.5)
    engine = VllmOmniEngine()
    engine.load(checkpoint)
    with pytest.raises(EngineDied, match="hung for"):
        asyncio.run(engine.generate(generation(VIDEO, prompt="stuck"), GenerationFiles(None, {}), folder(tmp_path)))
    engine.close()


def test_cancelling_has_the_server_drop_it(
    engine: VllmOmniEngine, asked: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    async def cancel() -> None:
        job = asyncio.ensure_future(
            engine.generate(generation(VIDEO, prompt="stuck"), GenerationFiles(None, {}), folder(tmp_path))
        )
        while not (tmp_path / "asked").exists():
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        await engine.generate(generation(VIDEO), GenerationFiles(None, {}), folder(tmp_path))

    asyncio.run(cancel())
    first, dropped, second, forgotten = asked()
    assert dropped == {"path": "/v1/videos/video_gen_0", "deleted": True} and first["prompt"].startswith("stuck")
    assert second["prompt"].startswith(PROMPT) and forgotten["deleted"]


def test_one_is_made_while_the_next_is_prepared(
    engine: VllmOmniEngine, asked: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    async def both() -> list[Made]:
        (tmp_path / "other").mkdir()
        runs = [
            engine.generate(generation(VIDEO, prompt=f"slow {name}"), GenerationFiles(None, {}), tmp_path / name)
            for name in ("out", "other")
        ]
        return await asyncio.gather(*runs)

    folder(tmp_path)
    assert len(asyncio.run(both())) == 2
    assert [one.get("deleted", False) for one in asked()] == [False, True, False, True], "one at a time"


def test_the_next_is_sent_when_the_last_step_is_done_and_not_when_the_file_came(
    engine: VllmOmniEngine, asked: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    """The first does not complete before the second is there: held back until then, neither would ever be made."""

    async def both() -> list[Made]:
        (tmp_path / "other").mkdir()
        first = asyncio.ensure_future(
            engine.generate(generation(VIDEO, prompt="lingers"), GenerationFiles(None, {}), folder(tmp_path), "first")
        )
        while not engine.steps("first"):
            await asyncio.sleep(0.01)
        other = engine.generate(generation(VIDEO), GenerationFiles(None, {}), tmp_path / "other", "other")
        return await asyncio.gather(first, other)

    assert len(asyncio.run(both())) == 2
    assert [one.get("deleted", False) for one in asked()][:2] == [False, False], "both were in the server"


def test_a_bar_counts_when_it_begins_and_ends_here() -> None:
    bar = ["0%| | 0/2 [00:00", "50%|#| 1/2 [00:01", "100%|##| 2/2 [00:02"]
    assert [finished_bars(lines) for lines in ([], bar[:2], bar, [*bar, bar[2]], [*bar, *bar])] == [0, 0, 1, 1, 2]
    assert finished_bars(bar[1:]) == 0, "of a job that was dropped"


def test_steps_are_those_that_the_server_prints(engine: VllmOmniEngine, tmp_path: Path) -> None:
    async def watched() -> tuple[Made, list[tuple[int, int] | None]]:
        making = asyncio.ensure_future(
            engine.generate(generation(VIDEO, prompt="slow"), GenerationFiles(None, {}), folder(tmp_path), "job")
        )
        seen: list[tuple[int, int] | None] = []
        while not making.done():
            seen.append(engine.steps("job"))
            assert engine.steps("another") is None
            await asyncio.sleep(0.02)
        return await making, seen

    made, seen = asyncio.run(watched())
    assert isinstance(engine, StepReportingEngine) and seen[0] is None and seen[-1] == (1, 2)
    assert made.timings.keys() == {"prepare", "firstStep", "generate", "write"}
    assert made.timings["firstStep"] <= made.timings["generate"]
    bars = ["  0%|  | 0/35 [00:00<?, ?it/s]", " 49%|##| 17/35 [00:01<00:01, 9.00it/s]", "INFO Decoding video..."]
    assert latest_progress(bars) == (17, 35) and latest_progress(["INFO 1/2"]) is None
    assert latest_progress(bars[1:]) is None, "of a job that was dropped, and whose bar began before"


def test_no_prompt_is_cut(make: Make, asked: Callable[[], list[dict[str, Any]]]) -> None:
    made = make(VIDEO, prompt="A cube. " * 600)
    length = made.generation.max_sequence_length
    assert length is not None and length > 1200
    sent = json.loads(asked()[0]["extra_params"])["max_sequence_length"]
    assert sent == length + 256, "the server counts what stands around a prompt, too"
    error = refused(make, {**VIDEO, "max_sequence_length": 600}, prompt="A cube. " * 600)
    assert error.code == "InvalidInput" and "would be cut" in error.message


@pytest.mark.parametrize(
    ("said", "told"), [({**VIDEO, "sound": True}, "sound"), ({"mode": "policy", **ACTIONS}, "policy")]
)
def test_what_a_checkpoint_lacks_is_refused_before_it_works(
    asked: Any, checkpoint: Path, tmp_path: Path, clip: Path, said: dict[str, Any], told: str
) -> None:
    lacking = tmp_path / "lacking"
    lacking.symlink_to(checkpoint)
    engine = VllmOmniEngine()
    engine.load(lacking)
    engine._transformer = {"sound_gen": False}
    medium = clip if told == "policy" else None
    with pytest.raises(Failure, match=told) as raised:
        asyncio.run(engine.generate(generation(said, medium), GenerationFiles(medium, {}), folder(tmp_path)))
    assert raised.value.error.code == "InvalidInput" and not (tmp_path / "asked").exists()
    engine.close()


@pytest.mark.parametrize("part", ["model_index.json", "transformer/config.json", "text_tokenizer/tokenizer.json"])
def test_a_folder_that_is_no_checkpoint_is_refused(asked: Any, checkpoint: Path, tmp_path: Path, part: str) -> None:
    import shutil

    broken = shutil.copytree(checkpoint, tmp_path / "broken")
    (broken / part).unlink()
    with pytest.raises(Failure, match=part) as raised:
        VllmOmniEngine().load(broken)
    assert raised.value.error.code == "ModelUnavailable"


def test_one_that_cannot_start_and_does_not_end_is_ended(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a plan that its workers refuse: the reason is told, and no process of it is left."""
    child = tmp_path / "child"
    script = (
        "import subprocess, sys, time\n"
        f"open({str(child)!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))\n"
        "print('(Worker pid=1) AssertionError: 128 is not divisible by 3')\n"
        "print('(APIServer pid=2) ERROR 11-21     raise EOFError')\n"
        "print('(APIServer pid=2) RuntimeError: Orchestrator initialization failed: ', flush=True)\n"
        "time.sleep(600)\n"
    )
    monkeypatch.setattr(OmniPlan, "command", lambda *_: [sys.executable, "-c", script])
    monkeypatch.setattr(vllm_omni, "version", lambda _: "0.30.0")
    monkeypatch.setattr(server_module, "GIVING_UP_SECONDS", 0.2)
    with pytest.raises(Failure, match=r"gave up and did not end\. AssertionError: 128 is not divisible by 3") as raised:
        VllmOmniEngine().load(checkpoint)
    assert raised.value.error.code == "EngineFailed"
    until(lambda: not lives(int(child.read_text())))


@pytest.mark.parametrize("mode", ["t2i", "t2v"])
def test_guardrails_report_what_they_said_of_each_job(make: Make, mode: str) -> None:
    said = {**VIDEO, "mode": mode, "num_frames": 1 if mode == "t2i" else 9}
    assert make(said).checks == Checks(by="cosmos_guardrail 0.30.0", prompt="passed", output="facesBlurred")
    assert make(said, prompt="unheard").checks == Checks(), "that the one before passed says nothing of this one"
    assert make(said, guardrails=False).checks == Checks()
    error = refused(make, said, prompt="unjudged")
    assert error.code == "EngineFailed" and "gave no verdict. The guardrail could not judge the prompt" in error.message


def test_a_server_whose_guardrails_stayed_as_they_come_is_not_used(
    asked: Any, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLUGINLESS, "1")
    engine = VllmOmniEngine()
    with pytest.raises(Failure, match="without our plugin, which makes its guardrails fail closed") as raised:
        engine.load(checkpoint)
    assert raised.value.error.code == "EngineFailed" and not raised.value.error.retryable
    engine.guardrails = False
    engine.load(checkpoint)
    engine.close()


def test_what_was_made_in_other_steps_than_were_asked_for_is_not_delivered(make: Make) -> None:
    """As with a distilled checkpoint, whose steps are its own; this server makes two, whatever is asked."""
    error = refused(make, {**VIDEO, "steps": 35})
    assert error.code == "EngineFailed" and "used 2 steps instead of the 35 requested" in error.message


def told(plan: ParallelPlan, gpus: int = 8, guardrails: bool = True) -> list[str]:
    return OmniPlan(plan, gpus, guardrails).command(Path("/models/nano"), Path("/tmp/s"))


def test_the_server_is_told_the_plan() -> None:
    command = told(ParallelPlan(tp=2, cfg=2, ulysses=2, offload=True))
    pairs = dict(pairwise(command))
    assert pairs["--tensor-parallel-size"] == pairs["--cfg-parallel-size"] == pairs["--ulysses-degree"] == "2"
    assert "--enable-layerwise-offload" in command and "--enforce-eager" not in command
    alone = told(ParallelPlan(), gpus=0)
    assert not {"--tensor-parallel-size", "--cfg-parallel-size", "--ulysses-degree"} & set(alone)
    assert "--enforce-eager" in alone and "--enable-layerwise-offload" not in alone
    assert pairs["--init-timeout"] == "1800" and pairs["--uds"] == "/tmp/s/socket"


def test_torch_grows_its_memory_piece_by_piece_where_no_all_reduce_shares_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one GPU, and on several that share no weights; never against what the machine's owner has set."""

    def variables(plan: ParallelPlan, gpus: int) -> Mapping[str, str]:
        return OmniPlan(plan, gpus, guardrails=False).environment(None, Path("/tmp/s"))

    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):  # another engine in this process may have set it
        monkeypatch.delenv(name, raising=False)
    assert variables(ParallelPlan(), 1)["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert "PYTORCH_CUDA_ALLOC_CONF" in variables(ParallelPlan(cfg=2), 2)
    assert "PYTORCH_CUDA_ALLOC_CONF" not in variables(ParallelPlan(tp=2), 2)
    assert "PYTORCH_CUDA_ALLOC_CONF" not in variables(ParallelPlan(), 0)
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:512")
    assert "PYTORCH_CUDA_ALLOC_CONF" not in variables(ParallelPlan(), 1)


def test_guardrails_are_loaded_or_not_and_only_they_ask_the_network() -> None:
    assert "--no-guardrails" not in told(ParallelPlan()) and "--no-guardrails" in told(ParallelPlan(), guardrails=False)
    for guardrails in (True, False):
        variables = OmniPlan(ParallelPlan(), 1, guardrails).environment(Path("/caches"), Path("/tmp/s"))
        assert ("HF_HUB_OFFLINE" in variables) == (not guardrails)
        assert VERDICTS_FOLDER not in variables
        assert variables["VLLM_OMNI_SERVER_STORAGE__PATH"] == "/tmp/s/videos"
        assert variables["TRITON_CACHE_DIR"] == "/caches/triton"

"""Faults, crashes, steps and start options of the vLLM-Omni engine. `tests/omni` has the real server."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.result import GeneratorOutput
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
from tests.engines.serving.test_server import lives, until
from tests.support.generator_jobs import ACTIONS, PROMPT, SMALL, refused
from tests.support.vllm_omni_server import PLUGINLESS


def test_wrong_frame_count_is_not_delivered(make: Make, tmp_path: Path) -> None:
    """The engine keeps all frames; the worker's check of the file refuses it."""
    result = make(VIDEO, prompt="a single frame")
    with pytest.raises(Failure, match="1 instead of 9 frames") as raised:
        video(result, tmp_path)
    assert raised.value.error.code == "EngineFailed"


@pytest.mark.parametrize(("parameters", "message"), [({}, "48 x 64 instead of 64 x 48"), ({"sound": True}, "no sound")])
def test_wrong_size_or_missing_sound_is_not_delivered(
    make: Make, tmp_path: Path, parameters: dict[str, Any], message: str
) -> None:
    result = make({**VIDEO, **parameters}, prompt="a mute one" if parameters else "a small one")
    with pytest.raises(Failure, match=message):
        video(result, tmp_path)


@pytest.mark.parametrize("mode", ["t2i", "t2v"])
@pytest.mark.parametrize("prompt", ["broken", "nonsense"])
def test_unusable_output_is_the_engines_fault(make: Make, mode: str, prompt: str) -> None:
    error = refused(make, {**VIDEO, "mode": mode, "num_frames": 1 if mode == "t2i" else 9}, prompt=prompt)
    assert error.code == "EngineFailed"


@pytest.mark.parametrize("mode", ["t2i", "t2v"])
def test_blocked_job_does_not_quote_its_prompt(make: Make, mode: str) -> None:
    error = refused(make, {**SMALL, "mode": mode}, prompt="block this secret")
    assert error.code == "Blocked" and "refused the prompt" in error.message
    assert "secret" not in error.model_dump_json()


@pytest.mark.parametrize(
    ("prompt", "message", "retryable"),
    [
        ("fail", "HTTP 500", True),
        ("refuse", "HTTP 400", False),
        ("memory", "Memory ran out", False),
        ("gone", "HTTP 422", False),
    ],
)
def test_fault_of_one_job_does_not_affect_the_next(
    make: Make, sent_requests: Callable[[], Any], prompt: str, message: str, retryable: bool
) -> None:
    error = refused(make, VIDEO, prompt=prompt)
    assert error.code == "EngineFailed" and message in error.message and error.retryable == retryable
    assert sent_requests()[-1]["deleted"]
    make(VIDEO)


def test_crash_out_of_memory_fails_the_only_job_without_retry(make: Make, tmp_path: Path) -> None:
    error = refused(make, VIDEO, prompt="starve")
    assert error.code == "EngineFailed" and not error.retryable
    assert "ran out of GPU memory" in error.message and "lower resolution" in error.remedy
    assert video(make(VIDEO), tmp_path)


def test_crash_out_of_memory_fails_neither_of_two_jobs_for_good(engine: VllmOmniEngine, tmp_path: Path) -> None:
    """One job is decoded while another is denoised, and either may be the one that took too much memory."""

    async def both() -> tuple[GeneratorOutput | BaseException, GeneratorOutput | BaseException]:
        (tmp_path / "other").mkdir()
        files = GenerationFiles(None, {})
        decoded = engine.generate(generation(VIDEO, prompt="lingers"), files, folder(tmp_path), "decoded")
        denoised = engine.generate(generation(VIDEO, prompt="starve"), files, tmp_path / "other", "denoised")
        return await asyncio.gather(decoded, denoised, return_exceptions=True)

    for end in asyncio.run(both()):
        assert isinstance(end, EngineDied) and end.error.retryable and "ran out of GPU memory" in end.error.message


@pytest.mark.parametrize("after_the_first", [False, True])
def test_requests_of_a_crashed_server_are_retried_however_late_each_notices_it(
    engine: VllmOmniEngine, after_the_first: bool
) -> None:
    """A request notices it at its next poll, which may be after another request's error was handled."""
    server = engine._served._server
    assert server is not None
    second_began, first_ended = asyncio.Event(), asyncio.Event()

    async def first(_connection: httpx2.AsyncClient) -> None:
        await second_began.wait()
        server._lines.append("torch.OutOfMemoryError: CUDA out of memory.")
        os.kill(server._process.pid, signal.SIGKILL)
        await asyncio.to_thread(server.wait, 20)
        raise httpx2.ReadError("it is gone")

    async def second(_connection: httpx2.AsyncClient) -> None:
        second_began.set()
        await asyncio.to_thread(server.wait, 20)
        if after_the_first:
            await first_ended.wait()
        raise httpx2.ConnectError("nothing listens")

    async def both() -> list[BaseException | None]:
        requests = [asyncio.ensure_future(engine._served.request(send)) for send in (first, second)]
        requests[0].add_done_callback(lambda _: first_ended.set())
        return await asyncio.gather(*requests, return_exceptions=True)

    assert [type(end) for end in asyncio.run(both())] == [EngineDied, EngineDied]


def test_server_restarts_after_a_crash(make: Make, tmp_path: Path) -> None:
    with pytest.raises(EngineDied, match="was killed by SIGKILL") as died:
        make(VIDEO, prompt="die")
    assert not died.value.for_good
    assert video(make(VIDEO), tmp_path)


def test_engine_gives_up_after_several_crashes_in_a_row(make: Make) -> None:
    for count in range(1, CRASHES_IN_A_ROW + 1):
        with pytest.raises(EngineDied) as died:
            make(VIDEO, prompt="die")
        assert died.value.for_good == (count == CRASHES_IN_A_ROW)


def test_hung_server_is_killed(
    sent_requests: Any, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(watchdog, "SILENT_POLLS", 5)
    monkeypatch.setattr(served_model, "_HEALTH_SECONDS", 0.5)
    engine = VllmOmniEngine()
    engine.load(checkpoint)
    with pytest.raises(EngineDied, match="hung for"):
        asyncio.run(engine.generate(generation(VIDEO, prompt="stuck"), GenerationFiles(None, {}), folder(tmp_path)))
    engine.close()


def test_cancelled_job_is_deleted_on_the_server(
    engine: VllmOmniEngine, sent_requests: Callable[[], list[dict[str, Any]]], tmp_path: Path
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
    first, dropped, second, deletion = sent_requests()
    assert dropped == {"path": "/v1/videos/video_gen_0", "deleted": True} and first["prompt"].startswith("stuck")
    assert second["prompt"].startswith(PROMPT) and deletion["deleted"]


def test_jobs_are_generated_one_at_a_time(
    engine: VllmOmniEngine, sent_requests: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    async def both() -> list[GeneratorOutput]:
        (tmp_path / "other").mkdir()
        runs = [
            engine.generate(generation(VIDEO, prompt=f"slow {name}"), GenerationFiles(None, {}), tmp_path / name)
            for name in ("out", "other")
        ]
        return await asyncio.gather(*runs)

    folder(tmp_path)
    assert len(asyncio.run(both())) == 2
    assert [request.get("deleted", False) for request in sent_requests()] == [False, True, False, True], (
        "each job must be deleted before the next is sent"
    )


def test_next_job_is_sent_after_the_last_step_of_the_job_before(
    engine: VllmOmniEngine, sent_requests: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    """The stand-in completes the first job only after the second was sent, so both complete only then."""

    async def both() -> list[GeneratorOutput]:
        (tmp_path / "other").mkdir()
        first = asyncio.ensure_future(
            engine.generate(generation(VIDEO, prompt="lingers"), GenerationFiles(None, {}), folder(tmp_path), "first")
        )
        while not engine.steps("first"):
            await asyncio.sleep(0.01)
        other = engine.generate(generation(VIDEO), GenerationFiles(None, {}), tmp_path / "other", "other")
        return await asyncio.gather(first, other)

    assert len(asyncio.run(both())) == 2
    assert [request.get("deleted", False) for request in sent_requests()][:2] == [False, False], (
        "both must be in the server"
    )


def test_progress_bar_counts_if_it_starts_and_ends_in_the_lines() -> None:
    bar = ["0%| | 0/2 [00:00", "50%|#| 1/2 [00:01", "100%|##| 2/2 [00:02"]
    assert [finished_bars(lines) for lines in ([], bar[:2], bar, [*bar, bar[2]], [*bar, *bar])] == [0, 0, 1, 1, 2]
    assert finished_bars(bar[1:]) == 0, "a bar that started before belongs to a cancelled job"


def test_steps_come_from_the_servers_progress_bar(engine: VllmOmniEngine, tmp_path: Path) -> None:
    async def watched() -> tuple[GeneratorOutput, list[tuple[int, int] | None]]:
        making = asyncio.ensure_future(
            engine.generate(generation(VIDEO, prompt="slow"), GenerationFiles(None, {}), folder(tmp_path), "job")
        )
        seen: list[tuple[int, int] | None] = []
        while not making.done():
            seen.append(engine.steps("job"))
            assert engine.steps("another") is None
            await asyncio.sleep(0.02)
        return await making, seen

    result, seen = asyncio.run(watched())
    assert isinstance(engine, StepReportingEngine) and seen[0] is None and seen[-1] == (1, 2)
    assert result.timings.keys() == {"prepare", "firstStep", "generate", "write"}
    assert result.timings["firstStep"] <= result.timings["generate"]
    bars = ["  0%|  | 0/35 [00:00<?, ?it/s]", " 49%|##| 17/35 [00:01<00:01, 9.00it/s]", "INFO Decoding video..."]
    assert latest_progress(bars) == (17, 35) and latest_progress(["INFO 1/2"]) is None
    assert latest_progress(bars[1:]) is None, "a bar that started before belongs to a cancelled job"


def test_long_prompt_is_not_truncated(make: Make, sent_requests: Callable[[], list[dict[str, Any]]]) -> None:
    result = make(VIDEO, prompt="A cube. " * 600)
    length = result.generation.max_sequence_length
    assert length is not None and length > 1200
    sent = json.loads(sent_requests()[0]["extra_params"])["max_sequence_length"]
    assert sent == length + 256, "the server also counts chat markup and system prompt"
    error = refused(make, {**VIDEO, "max_sequence_length": 600}, prompt="A cube. " * 600)
    assert error.code == "InvalidInput" and "would be cut" in error.message


@pytest.mark.parametrize(
    ("parameters", "message"), [({**VIDEO, "sound": True}, "sound"), ({"mode": "policy", **ACTIONS}, "policy")]
)
def test_generation_that_the_checkpoint_cannot_do_is_refused_before_any_work(
    sent_requests: Any, checkpoint: Path, tmp_path: Path, clip: Path, parameters: dict[str, Any], message: str
) -> None:
    lacking = tmp_path / "lacking"
    lacking.symlink_to(checkpoint)
    engine = VllmOmniEngine()
    engine.load(lacking)
    engine._transformer = {"sound_gen": False}
    medium = clip if message == "policy" else None
    with pytest.raises(Failure, match=message) as raised:
        asyncio.run(engine.generate(generation(parameters, medium), GenerationFiles(medium, {}), folder(tmp_path)))
    assert raised.value.error.code == "InvalidInput" and not (tmp_path / "asked").exists()
    engine.close()


@pytest.mark.parametrize("part", ["model_index.json", "transformer/config.json", "text_tokenizer/tokenizer.json"])
def test_incomplete_checkpoint_is_refused(sent_requests: Any, checkpoint: Path, tmp_path: Path, part: str) -> None:
    import shutil

    broken = shutil.copytree(checkpoint, tmp_path / "broken")
    (broken / part).unlink()
    with pytest.raises(Failure, match=part) as raised:
        VllmOmniEngine().load(broken)
    assert raised.value.error.code == "ModelUnavailable"


def test_server_that_neither_starts_nor_ends_is_killed(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that its workers refuse has this effect. The error has the reason, and no process is left."""
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
def test_checks_hold_the_verdicts_on_each_job(make: Make, mode: str) -> None:
    parameters = {**VIDEO, "mode": mode, "num_frames": 1 if mode == "t2i" else 9}
    assert make(parameters).checks == Checks(by="cosmos_guardrail 0.30.0", prompt="passed", output="facesBlurred")
    assert make(parameters, prompt="unheard").checks == Checks(), "verdicts of the job before must not count"
    assert make(parameters, guardrails=False).checks == Checks()
    error = refused(make, parameters, prompt="unjudged")
    assert error.code == "EngineFailed" and "gave no verdict. The guardrail could not judge the prompt" in error.message


def test_server_without_our_plugin_is_not_used_with_guardrails(
    sent_requests: Any, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLUGINLESS, "1")
    engine = VllmOmniEngine()
    with pytest.raises(Failure, match="without our plugin, which makes its guardrails fail closed") as raised:
        engine.load(checkpoint)
    assert raised.value.error.code == "EngineFailed" and not raised.value.error.retryable
    engine.guardrails = False
    engine.load(checkpoint)
    engine.close()


def test_output_of_another_number_of_steps_is_not_delivered(make: Make) -> None:
    """A distilled checkpoint has steps of its own; the stand-in prints two, whatever is requested."""
    error = refused(make, {**VIDEO, "steps": 35})
    assert error.code == "EngineFailed" and "used 2 steps instead of the 35 requested" in error.message


def command_of(plan: ParallelPlan, gpus: int = 8, guardrails: bool = True) -> list[str]:
    return OmniPlan(plan, gpus, guardrails).command(Path("/models/nano"), Path("/tmp/s"))


def test_plan_becomes_options_of_the_server() -> None:
    command = command_of(ParallelPlan(tp=2, cfg=2, ulysses=2, offload=True))
    pairs = dict(pairwise(command))
    assert pairs["--tensor-parallel-size"] == pairs["--cfg-parallel-size"] == pairs["--ulysses-degree"] == "2"
    assert "--enable-layerwise-offload" in command and "--enforce-eager" not in command
    alone = command_of(ParallelPlan(), gpus=0)
    assert not {"--tensor-parallel-size", "--cfg-parallel-size", "--ulysses-degree"} & set(alone)
    assert "--enforce-eager" in alone and "--enable-layerwise-offload" not in alone
    assert pairs["--init-timeout"] == "1800" and pairs["--uds"] == "/tmp/s/socket"


def test_sea_cache_is_an_option_of_the_server_only_if_it_is_configured() -> None:
    command = OmniPlan(ParallelPlan(), 1, guardrails=False, sea_cache=True).command(
        Path("/models/nano"), Path("/tmp/s")
    )
    assert dict(pairwise(command))["--cache-backend"] == "sea_cache"
    assert "--cache-backend" not in command_of(ParallelPlan())


def test_expandable_segments_are_used_without_tensor_parallelism(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are used on one GPU, and on several without tensor parallelism, unless the environment sets them."""

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


def test_only_guardrails_without_local_copies_use_the_network() -> None:
    assert "--no-guardrails" not in command_of(ParallelPlan()) and "--no-guardrails" in command_of(
        ParallelPlan(), guardrails=False
    )
    for guardrails in (True, False):
        variables = OmniPlan(ParallelPlan(), 1, guardrails).environment(Path("/caches"), Path("/tmp/s"))
        assert ("HF_HUB_OFFLINE" in variables) == (not guardrails)
        assert VERDICTS_FOLDER not in variables
        assert variables["VLLM_OMNI_SERVER_STORAGE__PATH"] == "/tmp/s/videos"
        assert variables["TRITON_CACHE_DIR"] == "/caches/triton"

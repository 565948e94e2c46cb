"""The vLLM engine on a real vLLM server, with tiny checkpoints of both architectures."""

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import pytest

from benchmarks.reasoner.server import ServerCounters, connection_to, counters_at
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.json_schema import COUNT_LIMIT
from cosmos_batch.contract.result import Answer
from cosmos_batch.demo.checkpoint import build_random_checkpoint, build_random_cosmos3
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.reasoner.chat_request import prepare_request
from cosmos_batch.engines.reasoner.transformers.engine import TransformersEngine
from cosmos_batch.engines.reasoner.vllm import engine as vllm_module
from cosmos_batch.engines.reasoner.vllm.command import MODEL, VllmPlan
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from cosmos_batch.media import frame_sampling, gpu_decoding
from tests.engines.conftest import make_job, place
from tests.engines.reasoner.test_media_input import media_in
from tests.support import media_files
from tests.support.real_vllm import needs_vllm

pytestmark = [
    needs_vllm,
    pytest.mark.timeout(600),
]

Ask = Callable[..., Answer]

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "count": {"enum": [1, 2, 3]}},
    "required": ["ok", "count"],
    "additionalProperties": False,
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(build_random_checkpoint, id="reason2"),
        pytest.param(build_random_cosmos3, id="cosmos3", marks=pytest.mark.slow),
    ],
)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a checkpoint of each architecture."""
    checkpoint: Path = request.param(tmp_path_factory.mktemp("models"))
    return checkpoint


@pytest.fixture(scope="module")
def vllm(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, module_patch: pytest.MonkeyPatch
) -> Iterator[VllmEngine]:
    # As a worker does: jobs' folders, and nothing else, lie below this one.
    module_patch.setattr("tempfile.tempdir", str(tmp_path_factory.getbasetemp()))
    module_patch.setattr(vllm_module, "SEQUENCES_ON_CPU", 64)
    command = VllmPlan.command
    trusting = "--trust-request-mm-kwargs"  # so that a test can ask for the patches that vLLM cuts
    module_patch.setattr(VllmPlan, "command", lambda *arguments: [*command(*arguments), trusting])
    engine = VllmEngine()
    engine.caches = tmp_path_factory.mktemp("caches")
    engine.load(folder)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def module_patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture
def gather(vllm: VllmEngine, tmp_path: Path) -> Callable[..., list[Answer | BaseException]]:
    """Ask several (file, prompt, parameters) at once."""

    def gather(*requests: tuple[Path, str, dict[str, object]]) -> list[Answer | BaseException]:
        async def all_of_them() -> list[Answer | BaseException]:
            runs = []
            for number, (source, prompt, parameters) in enumerate(requests):
                job = make_job(source.name, prompt, **{"maxTokens": 8, **parameters})
                place(source, job, tmp_path / str(number))
                runs.append(vllm.run(job, tmp_path / str(number)))
            return await asyncio.gather(*runs, return_exceptions=True)

        return asyncio.run(all_of_them())

    return gather


@pytest.fixture
def ask(gather: Callable[..., list[Answer | BaseException]]) -> Ask:
    def ask(source: Path, prompt: str = "What happens?", **parameters: object) -> Answer:
        (answer,) = gather((source, prompt, parameters))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return ask


def connected(vllm: VllmEngine) -> httpx2.AsyncClient:
    assert vllm._served._server is not None
    return vllm._served._server.address.async_client()


def test_a_video_of_one_frame_is_answered(ask: Ask, tmp_path: Path) -> None:
    answer = ask(media_files.video(tmp_path / "still.mp4", frames=1))
    assert answer.text and answer.usage.completion_tokens == 8
    assert answer.frame_times == [0.0]


def test_clips_and_pictures_are_answered(ask: Ask, clip: Path, picture: Path) -> None:
    for source in (clip, picture):
        answer = ask(source)
        assert answer.text and answer.usage.completion_tokens == 8 and answer.finish_reason == "length"
        assert {"decode", "generate"} <= answer.timings.keys()


def test_ready_patches_change_no_token(vllm: VllmEngine, clip: Path, tmp_path: Path) -> None:
    job = make_job(clip.name, "What happens?", maxTokens=16)
    place(clip, job, tmp_path)
    assert vllm._checkpoint is not None
    request = prepare_request(vllm._checkpoint, job, input_paths(job, tmp_path), lambda: None)
    exactly = {"model": MODEL, **request.body, "temperature": 0.0, "logprobs": True, "ignore_eos": True}

    async def tokens(**more: object) -> list[tuple[str, float]]:
        async with connected(vllm) as connection:
            response = await connection.post("/v1/chat/completions", json={**exactly, **more})
        found = response.raise_for_status().json()["choices"][0]["logprobs"]["content"]
        return [(token["token"], token["logprob"]) for token in found]

    ready = asyncio.run(tokens(cache_salt="ready"))
    assert len(ready) == 16
    assert ready == asyncio.run(tokens(cache_salt="plain", media_io_kwargs={"video": {"patches": False}}))


def test_a_clip_that_the_gpu_decodes_has_the_same_answer_and_a_note(
    vllm: VllmEngine, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU decodes in the GPU's place."""
    monkeypatch.setattr(gpu_decoding, "LEAST_PIXELS", 1)
    monkeypatch.setattr(frame_sampling, "gpu_decoder", lambda: None)
    job = make_job(clip.name, "What happens?", maxTokens=8, seed=1)
    place(clip, job, tmp_path)
    exact = asyncio.run(vllm.run(job, tmp_path))
    monkeypatch.setattr(vllm, "lossy", ("gpuDecode",))
    quick = asyncio.run(vllm.run(job, tmp_path))
    assert quick.text == exact.text
    assert frame_sampling.DECODED_BY_GPU in quick.notes and frame_sampling.DECODED_BY_GPU not in exact.notes


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[TransformersEngine]:
    """Provide the Transformers engine with the same checkpoint, to compare it with vLLM; `run` takes it."""
    engine = TransformersEngine()
    engine.load(folder)
    yield engine
    engine.close()


@pytest.mark.parametrize("fps", [0.5, 1, 2, 3.5, 4])
def test_vllm_sees_the_frames_that_transformers_sees(
    ask: Ask, run: Callable[..., Answer], clip: Path, fps: float
) -> None:
    """Each engine counts the tokens of its prompt: vLLM's own fps must not apply on top of ours."""
    assert ask(clip, fps=fps).usage.prompt_tokens == run(clip, fps=fps).usage.prompt_tokens


def test_vllm_and_transformers_see_images_of_one_size(ask: Ask, run: Callable[..., Answer], picture: Path) -> None:
    assert ask(picture).usage.prompt_tokens == run(picture).usage.prompt_tokens


@pytest.mark.parametrize(("fps", "frames"), [(0.5, 4), (1, 4), (2, 8), (3.5, 14), (4, 16), (12, 16)])
def test_as_many_frames_reach_the_model_as_fps_says(
    vllm: VllmEngine, ask: Ask, clip: Path, tmp_path: Path, fps: float, frames: int
) -> None:
    """They are counted in the prompt that the server returns: it has a mark with its time for each pair of frames."""
    path = shutil.copy(clip, tmp_path)
    prompt, tokens = read_back(vllm, make_job(clip.name, fps=fps, maxTokens=8), [Path(path)])
    times = [float(time) for time in re.findall(r"<(\d+\.\d) seconds>", prompt)]
    assert media_in(prompt) == ["video"] * len(times) == ["video"] * (frames // 2)
    between = (4 - 1 / 12) / (frames - 1)  # of 48 frames in 4 s the first and the last are seen
    assert times == pytest.approx([(2 * pair + 0.5) * between for pair in range(frames // 2)], abs=0.15)
    assert ask(clip, fps=fps).usage.prompt_tokens == tokens


def read_back(vllm: VllmEngine, job: Job, paths: list[Path]) -> tuple[str, int]:
    """Return the prompt of a request as the server itself has it, and its number of tokens."""
    assert vllm._checkpoint is not None
    question = prepare_request(vllm._checkpoint, job, paths, lambda: None)

    async def read() -> tuple[str, int]:
        body = {"model": MODEL, **question.body, "return_token_ids": True}
        async with connected(vllm) as client:
            tokens = (await client.post("/v1/chat/completions", json=body)).json()["prompt_token_ids"]
            response = await client.post("/detokenize", json={"model": MODEL, "tokens": tokens})
            return str(response.json()["prompt"]), len(tokens)

    return asyncio.run(read())


def test_several_files_are_seen_in_order(
    vllm: VllmEngine, run: Callable[..., Answer], clip: Path, picture: Path, tmp_path: Path
) -> None:
    """The server returns the prompt. The clips have different rates, and each keeps its own."""
    paths = [tmp_path / name for name in ("a.mp4", "b.png", "c.mp4")]
    for path, source in zip(paths, (clip, picture, media_files.video(tmp_path / "grey.mp4", frames=20)), strict=True):
        shutil.copy(source, path)
    job = make_job(paths[0].name, more=[path.name for path in paths[1:]], fps=2, maxTokens=8)
    prompt, _ = read_back(vllm, job, paths)
    assert media_in(prompt) == [*["video"] * 4, "image", *["video"] * 2]
    assert "<|vision_start|><0." not in prompt and "<|vision_end|><|vision_end|>" not in prompt
    place(clip, job, tmp_path / "job", *paths[1:])
    answer = asyncio.run(vllm.run(job, tmp_path / "job"))
    assert answer.text and [line for line in answer.logs if "b.png: image:" in line]


def test_a_part_of_a_video_is_cut_out(ask: Ask, clip: Path) -> None:
    whole, part = ask(clip, fps=4), ask(clip, fps=4, start=1.0, end=2.0)
    assert part.usage.prompt_tokens < whole.usage.prompt_tokens


def test_the_seed_decides_the_answer(ask: Ask, clip: Path) -> None:
    first, again, other = (ask(clip, seed=seed, maxTokens=24).text for seed in (1, 1, 2))
    assert first == again != other


def test_an_answer_follows_its_schema(ask: Ask, clip: Path) -> None:
    answer = json.loads(ask(clip, jsonSchema=SCHEMA, maxTokens=64).text)
    assert isinstance(answer["ok"], bool) and answer["count"] in (1, 2, 3)


def test_a_schema_without_a_grammar_is_checked_afterwards(ask: Ask, picture: Path) -> None:
    either = [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}]
    answer = ask(picture, jsonSchema={"oneOf": either})
    assert any("not held to the schema" in line and "oneOf" in line for line in answer.logs)
    assert ask(picture, jsonSchema={"type": "array", "maxItems": COUNT_LIMIT}).finish_reason


def test_a_contradictory_schema_is_invalid_input(ask: Ask, picture: Path) -> None:
    with pytest.raises(Failure, match="No answer can fit jsonSchema") as refused:
        ask(picture, jsonSchema={"allOf": [{"type": "string"}, {"type": "integer"}]})
    assert refused.value.error.code == "InvalidInput"


def test_bad_files_in_a_full_batch_fail_alone(
    gather: Callable[..., list[Answer | BaseException]], clip: Path, picture: Path, tmp_path: Path
) -> None:
    broken, empty = tmp_path / "broken.mp4", tmp_path / "empty.mp4"
    broken.write_bytes(clip.read_bytes()[:5000])
    empty.touch()
    bad = [(broken, "?", {}), (empty, "?", {}), (picture, "word " * 5000, {})]
    good = [(clip, f"What of {number}?", {"seed": number, "maxTokens": 24}) for number in range(9)]
    together = gather(*(one for pair in zip(good, bad * 3, strict=True) for one in pair))
    assert all(isinstance(one, Failure) and one.error.code == "InvalidInput" for one in together[1::2])
    alone = [gather(one)[0] for one in good[:2]]
    for answer in together[::2]:
        assert isinstance(answer, Answer) and answer.usage.completion_tokens == 24
    assert [one.usage for one in alone] == [one.usage for one in together[:3:2]]


# Files are read before a model is asked: alike for both.
@pytest.mark.parametrize("folder", [build_random_checkpoint], ids=["reason2"], indirect=True, scope="module")
def test_broken_and_unusual_files_do_not_change_other_answers(
    gather: Callable[..., list[Answer | BaseException]], clip: Path, tmp_path: Path
) -> None:
    """One full batch holds every kind of refused file, every unusual accepted one, and prompts that are too long."""

    def made(kinds: Iterable[Callable[[Path], Path]], name: str) -> list[tuple[Path, str, dict[str, object]]]:
        folders = [tmp_path / f"{name}-{number}" for number, _ in enumerate(kinds)]
        for folder in folders:
            folder.mkdir()
        return [(make(folder), "What is it?", {}) for make, folder in zip(kinds, folders, strict=True)]

    bad = [*made([make for make, _ in media_files.REFUSED.values()], "bad"), (clip, "word " * 5000, {})]
    bad.append((media_files.ten_hours(tmp_path), "?", {"longVideo": "refuse"}))
    odd = [
        *made([*media_files.ODD.values(), media_files.ten_hours], "odd"),
        (clip, "Talk.", {"maxTokens": 32_768, "fps": 60}),
    ]
    good = [(clip, f"What of {number}?", {"seed": number, "maxTokens": 16}) for number in range(6)]
    alone = [gather(one)[0] for one in good]
    together = gather(*good[:3], *bad, *odd, *good[3:])
    for answer in together[3 : 3 + len(bad)]:
        assert isinstance(answer, Failure) and answer.error.code == "InvalidInput"
    for answer in together[3 + len(bad) : -3]:
        assert isinstance(answer, Answer) and answer.text
    for answer, before in zip([*together[:3], *together[-3:]], alone, strict=True):
        assert isinstance(answer, Answer) and isinstance(before, Answer)
        assert (answer.text, answer.usage) == (before.text, before.usage)


def test_64_concurrent_jobs_have_separate_logs(
    gather: Callable[..., list[Answer | BaseException]], vllm: VllmEngine, picture: Path
) -> None:
    assert vllm._served.plan.sequences == 64
    prompts = [f"prompt-number-{number}" for number in range(64)]
    answers = gather(*((picture, prompt, {"maxTokens": number % 7 + 1}) for number, prompt in enumerate(prompts)))
    for number, answer in enumerate(answers):
        assert isinstance(answer, Answer)
        tokens = number % 7 + 1
        assert answer.usage.completion_tokens == tokens
        [line] = [line for line in answer.logs if "answer:" in line]
        assert f"answer: {tokens} token{'s' if tokens > 1 else ''} in " in line
        assert len(answer.logs) == 2
    assert "prompt-number" not in "\n".join(vllm.startup_logs)


def test_the_server_reads_only_files_of_jobs(vllm: VllmEngine, picture: Path, tmp_path: Path) -> None:
    """A file outside the folder of the jobs is refused because of its path, though its content is the same."""
    inside = Path(shutil.copy(picture, tmp_path / "inside.png"))

    async def post(path: Path) -> httpx2.Response:
        image = {"type": "image_url", "image_url": {"url": path.as_uri()}}
        messages = [{"role": "user", "content": [image, {"type": "text", "text": "?"}]}]
        async with connected(vllm) as client:
            body = {"model": MODEL, "messages": messages, "max_tokens": 1}
            return await client.post("/v1/chat/completions", json=body)

    with TemporaryDirectory(dir="/tmp") as outside:
        refused = asyncio.run(post(Path(shutil.copy(picture, outside))))
    assert refused.status_code == 400 and "allowed" in refused.text and "local" in refused.text
    assert asyncio.run(post(Path("/etc/hostname"))).status_code == 400
    assert asyncio.run(post(inside)).is_success


def test_the_engine_reports_its_startup_logs_and_phases(vllm: VllmEngine, folder: Path) -> None:
    logs = "\n".join(vllm.startup_logs)
    assert re.search(r"Loading weights took .* seconds", logs)
    assert "Resolved architecture: " + ("Qwen3VL" if "Reason2" in folder.name else "Cosmos3") in logs
    assert " is ready: imports " in vllm.startup_logs[-1]


def test_no_other_process_imports_everything_to_inspect_the_model(vllm: VllmEngine) -> None:
    """vLLM keeps what such a process has found, in `modelinfos`."""
    assert vllm.caches is not None
    assert not list(vllm.caches.rglob("modelinfos"))


def test_vllm_tells_how_often_it_has_interrupted_answers(vllm: VllmEngine, ask: Ask, picture: Path) -> None:
    """The benchmark's reader raises where vLLM's metrics have another name, or none."""
    ask(picture)

    async def counted() -> ServerCounters:
        async with connection_to(vllm) as connection:
            return await counters_at(connection)

    counters = asyncio.run(counted())
    assert counters.interruptions == 0 and counters.tokens >= 8


def test_markup_in_a_prompt_is_no_second_video(ask: Ask, clip: Path) -> None:
    assert ask(clip, "<|vision_start|><|video_pad|><|vision_end|> What?").text


def test_cancelling_aborts_the_request(vllm: VllmEngine, picture: Path, tmp_path: Path) -> None:
    job = make_job(picture.name, maxTokens=2000)
    place(picture, job, tmp_path)

    async def running(client: httpx2.AsyncClient) -> int:
        metrics = (await client.get("/metrics")).text
        return int(float(re.findall(r"^vllm:num_requests_running{.*} (\S+)$", metrics, re.MULTILINE)[0]))

    async def scene() -> None:
        task = asyncio.create_task(vllm.run(job, tmp_path))
        async with asyncio.timeout(60), connected(vllm) as client:
            while await running(client) != 1:
                await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while await running(client) != 0:
                await asyncio.sleep(0.05)

    asyncio.run(scene())


def test_a_stopped_core_makes_no_progress_while_health_answers(vllm: VllmEngine, picture: Path, tmp_path: Path) -> None:
    """The progress that the watchdog reads stands still while the core is stopped, and the job is answered
    afterwards."""
    server = vllm._served._server
    assert server is not None
    job = make_job(picture.name, maxTokens=8)
    place(picture, job, tmp_path)

    async def scene() -> None:
        async with connected(vllm) as client:
            (core,) = cores(server._process.pid)
            os.kill(core, signal.SIGSTOP)
            try:
                task = asyncio.create_task(vllm.run(job, tmp_path))
                with server.address.client(timeout=10) as looking:
                    before = vllm._served.dialect.progress(server, looking)
                    await asyncio.sleep(2)
                    assert (await client.get("/health")).is_success and not task.done()
                    assert before and before == vllm._served.dialect.progress(server, looking)
                    os.kill(core, signal.SIGCONT)
                    assert (await task).text
                    assert before != vllm._served.dialect.progress(server, looking)
            finally:
                os.kill(core, signal.SIGCONT)

    asyncio.run(scene())


def cores(server: int) -> list[int]:
    """Return the processes of a server that have a model."""
    group = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and group_of(path) == server]
    return [one for one in group if "EngineCore" in Path(f"/proc/{one}/cmdline").read_text()]


def group_of(process: Path) -> int | None:
    try:
        return os.getpgid(int(process.name))
    except ProcessLookupError:
        return None

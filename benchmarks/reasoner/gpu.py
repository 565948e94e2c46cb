"""Benchmark of the reasoner's media path on a GPU: ready patches against vLLM's own processor, in one server.

    python -m benchmarks.reasoner.gpu --work FOLDER --into FILE [--shape 2b] [--name bf16] [--clips 256] [--steady 1000]
        [--prepared 1000,16,8,4] [--large 48] [--lossy fp8,fp8Cache] [--profile] [--kernels 128]
        [-- --max-num-seqs 128]

`--prepared` measures passes in which the worker prepares so many jobs at once, instead of those that it ships with.
`--large` measures clips of 1920 x 1080, decoded by the CPU and by the GPU, and compares their frames. `--profile`
samples the Python stacks of the server. `--kernels` has PyTorch's profiler record what the GPU does for so many clips,
after all that is timed. What stands after `--` is added to the options of `vllm serve`. Results are written after each
step. A second session of the same name and folder starts with the compiled code of the first. The answers of a session
with another name are compared with those of `bf16` in the same file.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.app.instant_aws import InstantAws
from benchmarks.app.resident_worker import drained, serving
from benchmarks.gpu_usage import GpuUsage
from benchmarks.kernel_trace import kernel_seconds, newest_trace, profiler_options
from benchmarks.machine import circumstances, software
from benchmarks.processes import children, cpu_seconds
from benchmarks.reasoner import true_shapes
from benchmarks.reasoner import worker as reasoner_worker
from benchmarks.reasoner.clips import ReasonerWorkload, make_clips, make_job
from benchmarks.reasoner.gpu_decoding import COMPARED, FEW_CORES, same_frames
from benchmarks.reasoner.large_clips import make_large_clips
from benchmarks.reasoner.precision import modes_named
from benchmarks.reasoner.server import STEADY_CLIPS, ServerProgress, connection_to
from cosmos_batch.catalogue.engines import ENGINES
from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.engines.job_threads import MediaThreads
from cosmos_batch.engines.reasoner import chat_request, chat_response, preparation_program
from cosmos_batch.engines.reasoner.chat_request import ChatRequest
from cosmos_batch.engines.reasoner.vllm import engine as vllm_engine
from cosmos_batch.engines.reasoner.vllm.command import MODEL, VllmPlan
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from cosmos_batch.media.gpu_decoding import AT_ONCE, device_of_this_process
from cosmos_batch.worker import loop
from cosmos_batch.worker.logs import start_logging

_PLAIN = {"video": {"patches": False}}  # media_io_kwargs with which vLLM cuts the patches
_TRUST = ["--trust-request-mm-kwargs"]  # without it, the server refuses media_io_kwargs of requests
_MIDDLE = 0.7  # the share of a pass's time over which the GPU's use is averaged
_COMPARED = 16  # clips whose answers are compared
_CLIP = "<|video_pad|>"  # a token of a prompt that stands for a part of the clip
_ON_GPU: LossyMode = "gpuDecode"
_TRACE_SECONDS = 300  # writing a trace takes a minute
_PRINTED = 500  # characters: greedy answers are long
_EXACT = "bf16"  # the session in the same file with which the answers of another one are compared


class ReasonerSession:
    """A worker with a resident model, whose passes are measured one after the other."""

    def __init__(self, into: Path, name: str, workload: ReasonerWorkload, results: dict[str, Any]) -> None:
        self._into = into
        self._results = results
        self._found: dict[str, Any] = results.setdefault(name, {})
        self._workload = workload
        self._plain = False
        self._engine: Any = None

    def keep(self, step: str, found: Any) -> None:
        """Add a step's result, print its beginning, and write all results."""
        self._found[step] = found
        self._into.write_text(json.dumps(self._results, indent=1) + "\n", encoding="utf-8")
        print(step, json.dumps(found)[:_PRINTED], file=sys.stderr, flush=True)

    async def run(self, engine: Any, model: Path, clips: list[Path], large: list[Path], options: Any) -> None:
        """Load the model and measure all passes."""
        self._engine = engine
        files = {clip.name: clip.read_bytes() for clip in [*clips, *large]}
        kept_caches = any(Path.home().iterdir())
        aws = InstantAws([], files, reasoner_worker.SECONDS_PER_CALL)
        began = time.monotonic()
        async with serving(engine, model, aws):
            loaded = time.monotonic() - began
            print(*engine.startup_logs, sep="\n", file=sys.stderr, flush=True)
            step = "load" if kept_caches else "loadWithoutCaches"
            self.keep(step, {"seconds": loaded, "phases": engine.startup_seconds})
            await self._pass(aws, clips[: self._workload.warm_up], "Warm-up. ")
            if options.compare:
                self.keep("answers", await compared(engine, clips[:_COMPARED], self._workload))
                self.keep_agreement()
            if options.plain:
                with self._as_plain():
                    await self._pass(aws, clips[: self._workload.warm_up], "Warm-up, plain. ")
                    self.keep("plain", await self._pass(aws, clips, "Plain. "))
            for number in range(options.passes):
                self.keep(f"ready {number}", await self._pass(aws, clips, f"Ready {number}. "))
            for number, jobs in enumerate(options.prepared):
                earlier = options.prepared[:number].count(jobs)
                step = f"prepared {jobs}, {earlier + 1}" if earlier else f"prepared {jobs}"
                with mock.patch.object(loop, "PREPARED_AT_ONCE", jobs):
                    self.keep(step, await self._pass(aws, clips, f"Prepared {jobs} at once, {number}. "))
            if options.steady:
                rounds = -(-options.steady // len(clips))
                self.keep("steady", await self._pass(aws, (clips * rounds)[: options.steady], "Steady. "))
            if large:
                await self._measure_large(engine, aws, large)
            if options.profile:
                with profiled(self._into.parent):
                    self.keep("profiled", await self._pass(aws, clips, "Profiled. "))
            if options.kernels:
                await self._record_kernels(engine, aws, clips[: options.kernels], options.work)

    def keep_agreement(self) -> None:
        """Compare the answers with those of the exact session, if the same file has them."""
        exact = self._results.get(_EXACT, {})
        if self._found is exact:
            return
        for name, compare, of in (("agreement", agreement, "greedy"), ("prompts", prompt_difference, "question")):
            pair = [one.get("answers", {}).get(of) for one in (self._found, exact)]
            if all(pair):
                self.keep(name, compare(*pair))

    async def _measure_large(self, engine: Any, aws: InstantAws, large: list[Path]) -> None:
        """Measure large clips with all cores, decoded by the CPU and, where there is one, by the GPU; then with few."""
        cores, exact = os.sched_getaffinity(0), engine.lossy
        await self._pass(aws, large[:8], "Large, warm-up. ")
        decoders = {"CPU": exact}
        if device_of_this_process() is not None:
            self.keep("1080p, same frames", same_frames(large[:COMPARED]))
            decoders["GPU"] = (*exact, _ON_GPU)
        for decoder, engine.lossy in decoders.items():
            self.keep(f"1080p, {len(cores)} cores, {decoder}", await self._pass(aws, large, f"Large: {decoder}. "))
        with on_cores(set(sorted(cores)[:FEW_CORES])), self._few_threads():
            self.keep(f"1080p, {FEW_CORES} cores, {decoder}", await self._pass(aws, large, "Large, few cores. "))
        engine.lossy = exact

    @contextmanager
    def _few_threads(self) -> Iterator[None]:
        """Have the engine decode in as many threads as if it had been started with few cores and its lossy modes."""
        of_all_cores = self._engine._media_threads
        self._engine._media_threads = MediaThreads(AT_ONCE if self._engine._decodes_on_gpu else 1)
        try:
            yield
        finally:
            self._engine._media_threads.close()
            self._engine._media_threads = of_all_cores

    async def _record_kernels(self, engine: Any, aws: InstantAws, clips: list[Path], work: Path) -> None:
        """Record the kernels of a pass. The profiler slows it down, so its rate is no result."""
        async with connection_to(engine) as connection:
            (await connection.post("/start_profile")).raise_for_status()
            recorded = await self._pass(aws, clips, "Kernels. ")
            (await connection.post("/stop_profile", timeout=_TRACE_SECONDS)).raise_for_status()
        found = kernel_seconds(newest_trace(traces_in(work), "*rank*.pt.trace.json"))
        self.keep("kernels", {"clips": len(clips), "seconds": recorded["seconds"], **found})

    async def _pass(self, aws: InstantAws, clips: list[Path], prefix: str) -> dict[str, Any]:
        """Send all clips at once; return the rate, the tokens and the seconds of each phase."""
        done, reported = aws.deleted, len(aws.reported)
        jobs = [
            make_job(number, clip, self._workload, f"{prefix}{number // 256} ") for number, clip in enumerate(clips)
        ]
        async with ServerProgress(self._engine) as progress:
            with GpuUsage() as usage:
                began, cpu = time.monotonic(), cpu_seconds_by_process()
                aws.send(jobs)
                await drained(aws, done + len(jobs))
                seconds = time.monotonic() - began
        results = aws.reported[reported:]
        tokens = sum(one["usage"]["completionTokens"] for one in results) / len(results)
        steady = progress.steady_tokens_per_second() if len(clips) >= STEADY_CLIPS else None
        return {
            "clips": len(clips),
            "seconds": seconds,
            "perSecond": len(clips) / seconds,
            "perSecondSteady": None if steady is None else steady / tokens,
            "cpuSeconds": {name: after - cpu[name] for name, after in cpu_seconds_by_process().items()},
            "gpu": usage.summary(),
            "gpuSteady": usage.summary(_MIDDLE),
            "gpuBusyBySecond": usage.busy_by_second(),
            "interruptions": progress.interruptions,
            "promptTokens": sum(one["usage"]["promptTokens"] for one in results) / len(results),
            "tokens": tokens,
            "phases": reasoner_worker._medians([one["timings"] for one in results]),
        }

    @contextmanager
    def _as_plain(self) -> Iterator[None]:
        self._plain = True
        yield
        self._plain = False

    def forced(self, ask: Any, connection: Any, model: str, request: ChatRequest, dialect: Any) -> Any:
        """Send a request as the worker does, but for an answer that ends only at its limit of tokens."""
        request.body["ignore_eos"] = True
        if self._plain:
            make_plain(request.body)
        return ask(connection, model, request, dialect)


def make_plain(body: dict[str, Any]) -> None:
    """Change a request so that vLLM itself cuts its clips into patches and hashes them, without our processor."""
    body["media_io_kwargs"] = _PLAIN
    for part in body["messages"][1]["content"]:
        part.pop("uuid", None)


async def compared(engine: Any, clips: list[Path], workload: ReasonerWorkload) -> dict[str, Any]:
    """Return how many answers at temperature 0 are the same either way, and by how much log-probabilities differ.

    `greedy` are the answers with ready patches, from which `agreement` of another session follows. `question` are the
    log-probabilities of the prompt's tokens after the clip, from which `prompt_difference` follows.
    """
    texts: dict[bool, list[Any]] = {}
    questions: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for plain in (False, True):
            texts[plain] = []
            for number, clip in enumerate(clips):
                job = make_job(number, clip, workload, "Compared. ")
                request = chat_request.prepare_request(
                    engine._checkpoint, job, [_linked(clip, Path(folder) / f"{plain}{number}.mp4")], lambda: None
                )
                if plain:
                    make_plain(request.body)
                asked = {"temperature": 0.0, "logprobs": True, "max_tokens": 32, "ignore_eos": True}
                if not plain:
                    asked["prompt_logprobs"] = 0  # of the prompt's own tokens alone
                async with connection_to(engine) as connection:
                    body = {"model": MODEL, **request.body, **asked}
                    response = await connection.post("/v1/chat/completions", json=body)
                if response.is_error:
                    return {"error": response.text}
                tokens = response.json()["choices"][0]["logprobs"]["content"]
                texts[plain].append([(token["token"], token["logprob"]) for token in tokens])
                if not plain:
                    questions.append(after_the_clip(response.json()["prompt_logprobs"]))
    return {**agreement(texts[False], texts[True]), "greedy": texts[False], "question": questions}


def after_the_clip(prompt: list[dict[str, Any] | None]) -> list[float]:
    """Return the log-probabilities of a prompt's tokens after its clip, by vLLM's `prompt_logprobs`."""
    tokens = [None if one is None else next(iter(one.values())) for one in prompt]
    last = max(place for place, token in enumerate(tokens) if token and token["decoded_token"] == _CLIP)
    return [token["logprob"] for token in tokens[last + 1 :] if token]


def prompt_difference(questions: list[list[float]], others: list[list[float]]) -> dict[str, float]:
    """Return by how much the log-probabilities of the same questions differ, in the mean and at most.

    The mean is of magnitudes. Unlike answers, these are of the same tokens after the same text in any case.
    """
    pairs = [pair for one, other in zip(questions, others, strict=True) for pair in zip(one, other, strict=True)]
    differences = [abs(one - other) for one, other in pairs]
    return {"tokens": len(pairs), "mean": sum(differences) / len(differences), "largest": max(differences)}


def agreement(answers: list[Any], others: list[Any]) -> dict[str, Any]:
    """Return how far two sets of greedy answers agree; each is a list of tokens with their log-probabilities.

    Log-probabilities are compared of the first tokens alone: only these were chosen after the same text in any case.
    """
    pairs = list(zip(answers, others, strict=True))
    first = [abs(one[0][1] - other[0][1]) for one, other in pairs if one[0][0] == other[0][0]]
    alike = [_same_tokens(one, other) for one, other in pairs]
    return {
        "compared": len(pairs),
        "sameAnswers": sum(count == len(one) for count, (one, _) in zip(alike, pairs, strict=True)),
        "sameTokens": sum(alike) / len(alike),
        "sameFirstToken": len(first),
        "largestDifference": max(first, default=None),
    }


def _same_tokens(answer: list[Any], other: list[Any]) -> int:
    """Return how many tokens two answers have in common before the first that differs."""
    tokens = zip(answer, other, strict=True)
    return next((place for place, (one, two) in enumerate(tokens) if one[0] != two[0]), len(answer))


def traces_in(work: Path) -> Path:
    """Return the folder of the traces of PyTorch's profiler."""
    return work / "traces"


def _linked(clip: Path, at: Path) -> Path:
    at.symlink_to(clip)
    return at


@contextmanager
def on_cores(cores: set[int]) -> Iterator[None]:
    """Restrict this process, its children and all their threads to some cores while the context lasts."""
    before = os.sched_getaffinity(0)
    _move(cores)
    try:
        yield
    finally:
        _move(before)


def _move(cores: set[int]) -> None:
    for process in (os.getpid(), *children(os.getpid())):
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)


def cpu_seconds_by_process() -> dict[str, float]:
    """Return the CPU time so far of the worker, which is this process, of those that prepare its requests, of vLLM's
    server, and of its engine.
    """
    found = {"worker": cpu_seconds(os.getpid()), "preparation": 0.0, "server": 0.0, "engine": 0.0}
    for process in children(os.getpid()):
        with suppress(OSError):  # it has ended
            found[_part_of(Path(f"/proc/{process}/cmdline").read_bytes())] += cpu_seconds(process)
    return found


def _part_of(command: bytes) -> str:
    """Return which part of a worker a process is, by its command line."""
    if command.startswith(b"VLLM"):
        return "engine"
    return "preparation" if preparation_program.__name__.encode() in command else "server"


@contextmanager
def profiled(folder: Path) -> Iterator[None]:
    """Sample the Python stacks of the server's processes with py-spy, where that is installed."""
    record = ["py-spy", "record", "--duration", "12", "--rate", "50", "--threads", "--nonblocking", "--format", "raw"]
    samplers = [
        subprocess.Popen([*record, "--pid", str(process), "--output", str(folder / f"profile-{number}.txt")])
        for number, process in enumerate(children(os.getpid()))
        if b"python" in (command := Path(f"/proc/{process}/cmdline").read_bytes()) or b"VLLM" in command
    ]
    yield
    for sampler in samplers:
        sampler.wait()


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    start_logging()  # a server that does not start is logged with all that it has printed
    device_of_this_process()  # before PyTorch starts CUDA, with flags that FFmpeg does not take
    tiny = options.shape == "tiny"
    scale, warm_up = (1, 8) if tiny else (2, 64)
    workload = ReasonerWorkload(options.shape, options.clips, options.tokens, (), scale, warm_up)
    model = build_random_checkpoint(options.work) if tiny else true_shapes.build(options.shape, options.work)
    clips = make_clips(options.work / f"clips-{scale}", options.clips, scale)
    large = make_large_clips(options.work / "clips-large", options.large)
    scratch, home = (options.work / name for name in ("scratch", f"home-{options.name}"))
    scratch.mkdir(exist_ok=True)
    home.mkdir(exist_ok=True)
    # The server may read below the folder for temporary files only. The worker keeps what it compiles in its home.
    os.environ |= {"TMPDIR": str(scratch), "HOME": str(home)}
    tempfile.tempdir = str(scratch)
    results = json.loads(options.into.read_text(encoding="utf-8")) if options.into.exists() else {}
    results |= {**circumstances(), **software("vllm", "torch")}
    session = ReasonerSession(options.into, options.name, workload, results)
    session.keep("options", [*options.lossy, *options.for_server])
    engine: Any = VllmEngine()
    engine.lossy = options.lossy
    profiler = profiler_options(traces_in(options.work)) if options.kernels else []
    with _changed_requests_and_servers(session, [*options.for_server, *profiler]):
        asyncio.run(session.run(engine, model, clips, large, options))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; `for_server` are those behind `--`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reasoner.gpu", description=__doc__)
    parser.add_argument("--shape", choices=("tiny", "2b", "8b", "32b"), default="2b")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--name", default="bf16")
    for name, default in (("clips", 256), ("tokens", 256), ("passes", 2), ("steady", 0), ("large", 0), ("kernels", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--prepared", type=lambda text: [int(jobs) for jobs in text.split(",")], default=[])
    parser.add_argument("--lossy", type=partial(modes_named, ENGINES["vllm"].lossy), default=[])
    for name in ("plain", "compare", "profile"):
        parser.add_argument(f"--{name}", action="store_true")
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:split])
    options.for_server = list(arguments[split + 1 :])
    return options


@contextmanager
def _changed_requests_and_servers(session: ReasonerSession, for_server: list[str]) -> Iterator[None]:
    """While the context lasts, start servers with more options, and let each answer end only at its limit of tokens."""
    command, ask = VllmPlan.command, chat_response.complete_chat
    with (
        mock.patch.object(VllmPlan, "command", lambda *plan: [*command(*plan), *_TRUST, *for_server]),
        mock.patch.object(vllm_engine, "complete_chat", partial(session.forced, ask)),
    ):
        yield


if __name__ == "__main__":
    main()

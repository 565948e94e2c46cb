"""Benchmark of our worker with a resident model: clips from queue to callback, and its server at several loads.

All of the worker is real, and so is vLLM. AWS is `InstantAws`, whose every call takes as long as one in a Region does.
"""

import asyncio
import json
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.app.instant_aws import InstantAws
from benchmarks.app.resident_worker import drained, serving
from benchmarks.reasoner.clips import ReasonerWorkload, make_job
from benchmarks.reasoner.server import connection_to
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.reasoner import chat_response
from cosmos_batch.engines.reasoner.chat_request import ChatRequest
from cosmos_batch.engines.reasoner.vllm.command import MODEL
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine

SECONDS_PER_CALL = 0.02
_ROUNDS = 2  # how many rounds of requests each place in flight has
_STREAMED = {"ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}


def measure(model: Path, clips: list[Path], workload: ReasonerWorkload) -> dict[str, Any]:
    """Return load time and log lines, clips per second of each pass, and the server's figures at each load."""
    with _forced_length():
        return asyncio.run(_measure(model, clips, workload))


async def _measure(model: Path, clips: list[Path], workload: ReasonerWorkload) -> dict[str, Any]:
    aws = InstantAws([], {clip.name: clip.read_bytes() for clip in clips}, SECONDS_PER_CALL)
    engine: Any = VllmEngine()
    began = time.monotonic()
    async with serving(engine, model, aws):
        print(*engine.startup_logs, sep="\n", file=sys.stderr, flush=True)
        results: dict[str, Any] = {"load": time.monotonic() - began, "phases": engine.startup_seconds}
        results["warmUp"] = await _pass(aws, clips[: workload.warm_up], workload, "Warm-up. ")
        passes = [f"Pass {number}. " for number in range(workload.passes)]
        results["passes"] = [await _pass(aws, clips, workload, prefix) for prefix in passes]
        results["inFlight"] = [await _level(engine, clips, workload, level) for level in workload.levels]
    return results


async def _pass(aws: InstantAws, clips: list[Path], workload: ReasonerWorkload, prefix: str) -> dict[str, Any]:
    """Send all clips at once; return the seconds of the pass, its tokens, and the seconds of each phase."""
    print(f"worker: {prefix}", file=sys.stderr, flush=True)
    done, reported_before = aws.deleted, len(aws.reported)
    jobs = [make_job(number, clip, workload, prefix) for number, clip in enumerate(clips)]
    began = time.monotonic()
    aws.send(jobs)
    await drained(aws, done + len(jobs))
    seconds = time.monotonic() - began
    results = aws.reported[reported_before:]
    return {
        "seconds": seconds,
        "tokens": sum(one["usage"]["completionTokens"] for one in results),
        "promptTokens": sum(one["usage"]["promptTokens"] for one in results),
        "phases": _medians([one["timings"] for one in results]),
    }


def _medians(timings: list[dict[str, float]]) -> dict[str, float]:
    return {phase: statistics.median(one[phase] for one in timings) for phase in timings[0]}


@dataclass
class _Seen:
    """The times of one request, in seconds since its file was available, and the tokens of its answer."""

    first_token: float
    last_token: float
    tokens: int


async def _level(engine: Any, clips: list[Path], workload: ReasonerWorkload, level: int) -> dict[str, float]:
    """Keep `level` requests in flight, each of which decodes its clip first; return their rate and latency."""
    count = max(_ROUNDS * level, 4)
    numbers = iter(range(count))
    seen: list[_Seen] = []

    async def one_after_the_other() -> None:
        for number in numbers:
            job = make_job(number, clips[number % len(clips)], workload, f"Level {level}, {number}. ")
            seen.append(await _streamed(engine, job, clips[number % len(clips)]))

    began = time.monotonic()
    await asyncio.gather(*(one_after_the_other() for _ in range(level)))
    seconds = time.monotonic() - began
    return {
        "level": level,
        "requests": count,
        "seconds": seconds,
        "perSecond": count / seconds,
        "tokens": sum(one.tokens for one in seen),
        "firstToken": statistics.fmean(one.first_token for one in seen),
        "latency": statistics.fmean(one.last_token for one in seen),
    }


async def _streamed(engine: Any, job: Job, clip: Path) -> _Seen:
    """Ask about a clip as `VllmEngine.run` does, but with a streamed answer, and return the times of its tokens."""
    began, first, tokens = time.monotonic(), 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(shutil.copy(clip, path)) for path in input_paths(job, Path(folder))]
        request = await engine._media_threads.run(job, engine._prepare, engine._checkpoint, job, paths, lambda: None)
        body = {"model": MODEL, **request.body, **_STREAMED}
        connection = connection_to(engine)
        async with connection, connection.stream("POST", "/v1/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                chunk = json.loads(line.removeprefix("data: "))
                tokens = (chunk.get("usage") or {}).get("completion_tokens", tokens)
                if not first and any(choice["delta"].get("content") for choice in chunk["choices"]):
                    first = time.monotonic() - began
    return _Seen(first, time.monotonic() - began, tokens)


def _forced_length() -> AbstractContextManager[Any]:
    """While the context lasts, change the worker's requests so that each answer ends only at its limit of tokens.

    The worker itself has no option for this.
    """
    ask = chat_response.complete_chat

    async def forced(connection: Any, model: str, request: ChatRequest, dialect: Any) -> Any:
        request.body["ignore_eos"] = True
        return await ask(connection, model, request, dialect)

    return mock.patch("cosmos_batch.engines.reasoner.vllm.engine.complete_chat", forced)

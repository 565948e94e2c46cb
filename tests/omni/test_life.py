"""The real server is killed while it works, its jobs are cancelled, and it is started with an impossible plan."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine
from cosmos_batch.engines.job_files import GenerationFiles
from tests.support.generations import settled
from tests.support.mp4 import pictures

QUICK = {"mode": "t2v", "width": 64, "height": 48, "steps": 2, "num_frames": 9}
LONG = {**QUICK, "steps": 200, "num_frames": 49}  # what is dropped is still made to its end


def generation(parameters: dict[str, Any]) -> Any:
    return settled(parameters, guardrails=False, engine="vllm-omni")


async def works(engine: Any) -> None:
    """Wait until the server prints its first steps."""
    server = engine._served._server
    while not any("/200 [" in line for line in server.last_lines):
        await asyncio.sleep(0.1)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_cancelled_job_is_dropped_and_the_next_runs(engine: VllmOmniEngine, folder: Path) -> None:
    async def scene() -> None:
        long = asyncio.ensure_future(engine.generate(generation(LONG), GenerationFiles(None, {}), folder))
        await works(engine)
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        quick = asyncio.ensure_future(engine.generate(generation(QUICK), GenerationFiles(None, {}), folder, "quick"))
        seen = set()
        while not quick.done():
            seen.add(engine.steps("quick"))
            await asyncio.sleep(0.05)
        result = await quick
        assert result.files and 0 < result.timings["firstStep"] <= result.timings["generate"]
        assert (2, 2) in seen and all(steps is None or steps[1] == 2 for steps in seen), "none of the one dropped"

    asyncio.run(scene())


def test_server_that_is_killed_restarts(engine: VllmOmniEngine, folder: Path) -> None:
    async def scene() -> None:
        server = engine._served._server
        assert server is not None
        long = asyncio.ensure_future(engine.generate(generation(LONG), GenerationFiles(None, {}), folder))
        await works(engine)
        os.kill(server._process.pid, signal.SIGKILL)
        with pytest.raises(EngineDied, match="was killed by SIGKILL") as died:
            await long
        assert not died.value.for_good
        assert (await engine.generate(generation(QUICK), GenerationFiles(None, {}), folder)).files

    asyncio.run(scene())


@pytest.mark.timeout(900)  # two processes import all of it
@pytest.mark.parametrize("axis", ["cfg", "tp"])
def test_two_processes_share_a_job(axis: str, checkpoint: Path, engine: VllmOmniEngine, tmp_path: Path) -> None:
    """They make the video that one process makes; the order of sums differs with `tp`, so pixels may by rounding."""
    pair = VllmOmniEngine()
    pair.guardrails, pair.plan = False, ParallelPlan(**{axis: 2})
    pair.load(checkpoint)
    try:
        server = pair._served._server
        assert server is not None and sum("Worker" in name for name in names(server._process.pid)) == 2
        shared, alone = (video_of(one, tmp_path / name) for one, name in ((pair, "pair"), (engine, "alone")))
    finally:
        pair.close()
    assert shared.shape == alone.shape and np.abs(shared.astype(int) - alone).max() <= 2


def video_of(engine: VllmOmniEngine, folder: Path) -> np.ndarray:
    """Return the frames of a short video."""
    folder.mkdir()
    asyncio.run(engine.generate(generation(QUICK), GenerationFiles(None, {}), folder))
    return pictures(folder / "output.mp4")


@pytest.mark.timeout(900)  # three processes import all of it, twice
def test_impossible_plan_is_reported_and_leaves_no_process(checkpoint: Path) -> None:
    """The server's worker processes raise, and its first process would wait for them without end."""
    engine = VllmOmniEngine()
    engine.guardrails, engine.plan = False, ParallelPlan(tp=3)
    with pytest.raises(Failure, match="128 is not divisible by 3") as raised:
        engine.load(checkpoint)
    assert raised.value.error.code == "EngineFailed"
    server = engine._served._server
    assert server is not None and not server.is_running
    assert living(server._process.pid) == []


def names(group: int) -> list[str]:
    """Return the command lines of a group's processes."""
    return [Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ") for process in living(group)]


def living(group: int) -> list[str]:
    """Return the processes of a group that still run. Zombies, for which nobody has waited yet, are left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, _, its_group = path.read_text().rpartition(") ")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found.append(path.parent.name)
    return found

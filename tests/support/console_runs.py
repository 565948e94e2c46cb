"""Runs over clips of the demo's world, as the pictures of the console show them."""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.runs import ResultLine, RunState, ShardRef
from cosmos_batch.demo.media import FPS, write_clip
from cosmos_batch.demo.random_scenes import draw_scene
from cosmos_batch.demo.scenes import Scene
from cosmos_batch.state import ItemEnd, PipelineRow, RunRow
from cosmos_batch.state.run_rows import ShardFacts
from tests.support.run_objects import PIPELINE, answered, failed, put_run
from training.answers import caption

LARGER = "cosmos-reason2-8b"
CLIPS = 12
LICENCE = Error(
    code="ModelUnavailable",
    message="The licence of nvidia/Cosmos-Reason2-8B was not accepted with this token.",
    remedy="Accept it at https://huggingface.co/nvidia/Cosmos-Reason2-8B.",
)


def put_clips(deployment: Deployment) -> dict[str, Scene]:
    """Upload clips below `clips/`, and return what each of them shows, by its key."""
    random, scenes = np.random.default_rng(18), {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(CLIPS):
            key, scene = f"clips/camera-{number + 1:02}.mp4", draw_scene(random, 4 / 3, 1.0, 4)
            path = write_clip(scene, Path(folder) / "clip.mp4", 320, 240, FPS)
            deployment.clients("s3").upload_file(str(path), "assets", key)
            scenes[key] = scene
    return scenes


def put_runs(deployment: Deployment, scenes: dict[str, Scene]) -> None:
    """Write two runs over the same clips that differ in some answers, one that goes on, and others in each state."""
    lines = [
        answered(key, caption(scene), seconds=2.1 + number / 7) for number, (key, scene) in enumerate(scenes.items())
    ]
    shorter = [_without_background(line) if number % 3 == 2 else line for number, line in enumerate(lines)]
    lines[4] = failed(lines[4].id)
    _put_ended(deployment, "docks-2b", lines, hours=30)
    _put_ended(deployment, "docks-8b", shorter, hours=26)
    _put_stopped(deployment, "forklifts", "CANCELLED", hours=50, reason="The run was stopped in the console.")
    _put_stopped(deployment, "night-shift", "HELD", hours=5, reason="The budget of $50.00 is spent.")
    _put_going_on(deployment, "yard-cameras", lines)


def _put_ended(deployment: Deployment, run: str, lines: list[ResultLine], hours: float) -> None:
    put_run(deployment.clients("s3"), run, [lines])
    _put_row(deployment, run, "RUNNING", len(lines), hours)
    _end_shard(deployment, ShardRef(run=run, shard="00000", pipeline=PIPELINE, items=len(lines)), lines)
    deployment.runs.end(run, deployment.execution_arn(run), "SUCCEEDED", None)


def _put_stopped(deployment: Deployment, run: str, state: RunState, hours: float, reason: str) -> None:
    """Write a run that was stopped after a shard."""
    _put_row(deployment, run, state, 600, hours, reason)
    deployment.runs.shards.feed(ShardRef(run=run, shard="00000", pipeline=PIPELINE, items=250), "token", 1.0)
    ends = {item: ItemEnd("succeeded", gpu_seconds=240.0, dollars=0.2) for item in range(250)}
    deployment.runs.shards.count(run, "00000", ends)


def _without_background(line: ResultLine) -> ResultLine:
    """Return the line of an item whose answer says no more of the background."""
    _, _, event = str(line.answer).partition(", ")
    return line.model_copy(update={"answer": event[0].upper() + event[1:]})


def _put_going_on(deployment: Deployment, run: str, lines: list[ResultLine]) -> None:
    """Write a run of which one shard has ended and two are under way, with workers in each phase."""
    put_run(deployment.clients("s3"), run, [lines, 250, 250, 238])
    _put_row(deployment, run, "RUNNING", len(lines) + 738, hours=0.05, pipelines=(PIPELINE, LARGER))
    _end_shard(deployment, ShardRef(run=run, shard="00000", pipeline=PIPELINE, items=len(lines)), lines)
    for number in (1, 2):
        ref = ShardRef(run=run, shard=f"{number:05}", pipeline=PIPELINE, items=250)
        deployment.runs.shards.feed(ref, "token", 1.0)
        deployment.runs.shards.fed(run, ref.shard, ref.items, 1.0)
        ends = {item: ItemEnd("succeeded", gpu_seconds=1.4, dollars=0.0012) for item in range(90 * number)}
        deployment.runs.shards.count(run, ref.shard, ends)
    workers = deployment.workers(PIPELINE)
    for number in range(4):
        workers.submitted(f"worker-{number + 1}", "definition")
    for number in range(3):
        workers.started(f"worker-{number + 1}")
    for number in range(2):
        workers.ready(f"worker-{number + 1}")
        workers.seen(f"worker-{number + 1}", 140 + 11 * number)
    deployment.workers(LARGER).set_breaker(PipelineRow(failures=3, open=True, reason=LICENCE))


def _end_shard(deployment: Deployment, ref: ShardRef, lines: list[ResultLine]) -> None:
    deployment.runs.shards.feed(ref, "token", 0.1)
    ends = [
        ItemEnd("failed") if line.error else ItemEnd("succeeded", gpu_seconds=1.4, dollars=0.0012) for line in lines
    ]
    deployment.runs.shards.count(ref.run, ref.shard, dict(enumerate(ends)))
    bad = sum(line.error is not None for line in lines)
    good = len(lines) - bad
    facts = ShardFacts(succeeded=good, failed=bad, gpu_seconds=1.4 * good, dollars=0.0012 * good)
    deployment.runs.end_shard(ref.run, ref.shard, facts)


def _put_row(
    deployment: Deployment,
    run: str,
    state: RunState,
    items: int,
    hours: float,
    reason: str | None = None,
    pipelines: tuple[str, ...] = (PIPELINE,),
) -> None:
    """Write the row of a run that has begun some hours ago."""
    began = datetime.now(UTC) - timedelta(hours=hours)
    ended = None if state == "RUNNING" else (began + timedelta(hours=1)).isoformat(timespec="milliseconds")
    row = RunRow(
        id=run, state=state, pipelines=list(pipelines), items=items, shards=1, origin="s3://assets/clips/",
        started_at=began.isoformat(timespec="milliseconds"), ended_at=ended, reason=reason, max_dollars=50,
        execution_arn=deployment.execution_arn(run),
    )  # fmt: skip
    deployment.runs.create(row)

"""The workload of the reasoner's benchmarks: different clips, one question, a fixed number of answer tokens."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

from benchmarks.app.new_job import new_job
from benchmarks.reasoner.robot_scene import FPS, SECONDS, draw_scene
from cosmos_batch.contract.job import InputFile, Job, OutputKey
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare_request
from cosmos_batch.planning.questions import with_sampling

PIPELINE = "cosmos-reason2-2b"
PROMPT = "Describe what happens in the video, step by step, and say whether the motion is physically plausible."
_STAMP = 16  # pixels, of a square that no two clips have alike


@dataclass(frozen=True)
class ReasonerWorkload:
    """The workload for one model.

    Attributes
    ----------
    shape
        `tiny`, `2b` or `8b`.
    clips
        How many clips are in one pass.
    tokens
        Tokens of each answer, whose length is forced.
    levels
        Numbers of requests in flight to measure.
    scale
        Factor for the clips' size of 320 x 240.
    warm_up
        How many clips are answered first and not counted.
    passes
        How many passes over all clips are measured.
    """

    shape: str
    clips: int
    tokens: int
    levels: tuple[int, ...]
    scale: int
    warm_up: int
    passes: int = 2


def make_clips(folder: Path, count: int, scale: int) -> list[Path]:
    """Return the paths of MP4 clips of four seconds, and write those that do not exist.

    All clips differ, so that an engine finds none in a cache.
    """
    folder.mkdir(parents=True, exist_ok=True)
    scenes = [draw_scene(index / (FPS * SECONDS - 1)) for index in range(FPS * SECONDS)]
    frames = [np.asarray(scene.resize((scene.width * scale, scene.height * scale))) for scene in scenes]
    paths = [folder / f"{number:04}.mp4" for number in range(count)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda path: _encode(path, frames, int(path.stem)), missing(paths)))
    return paths


def missing(paths: list[Path]) -> list[Path]:
    """Return the files that do not exist yet."""
    return [path for path in paths if not path.exists()]


def _encode(path: Path, frames: list[np.ndarray], number: int) -> None:
    stamp = np.random.default_rng(number).integers(0, 256, 3, np.uint8)
    with av.open(f"{path}.part", "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "20", "threads": "1"})
        stream.height, stream.width, stream.pix_fmt = *frames[0].shape[:2], "yuv420p"
        for frame in frames:
            stamped = frame.copy()
            stamped[:_STAMP, :_STAMP] = stamp
            container.mux(stream.encode(av.VideoFrame.from_ndarray(stamped, format="rgb24")))
        container.mux(stream.encode())
    Path(f"{path}.part").rename(path)


def make_job(number: int, clip: Path, workload: ReasonerWorkload, prefix: str = "") -> Job:
    """Return a job as the plan function makes it. Its prompt begins with `prefix`, so that no prefix cache holds it."""
    return new_job(
        f"item-{prefix}{number}",
        PIPELINE,
        OutputKey(bucket="assets", key=f"answers/{number}.json"),
        input=InputFile(bucket="assets", key=clip.name, version_id="v", etag='""', size=clip.stat().st_size),
        prompt=PROMPT,
        system_prompt=f"{prefix}You are a helpful assistant.",
        parameters=with_sampling(Parameters(max_tokens=workload.tokens)),
    )


def prepare_all(reader: CheckpointInfo, jobs: list[Job], clips: list[Path], folder: Path) -> list[ChatRequest]:
    """Prepare the worker's own requests, and write their frames beside them."""

    def one(job: Job, clip: Path) -> ChatRequest:
        own = folder / job.job_id
        own.mkdir(parents=True, exist_ok=True)
        return prepare_request(
            reader, job, [Path(shutil.copy(clip, path)) for path in input_paths(job, own)], lambda: None
        )

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, jobs, clips))


def frames_of(question: ChatRequest) -> str:
    """Return the paths of a request's frames."""
    url: str = question.body["messages"][1]["content"][0]["video_url"]["url"]
    return url.removeprefix("file://")

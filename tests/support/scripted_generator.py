"""A generator without a model that writes small valid files for a job, or wrong ones where the prompt says so.

The prompt may be a JSON object; these of its keys count:

| key | effect |
|---|---|
| `until` | the answer waits for a file with this path |
| `frames` | the video has so many frames, whatever was requested |
| `claims` | fields of the generation that the engine says it changed |
| `blocked` | `prompt` or `output`: the guardrail refuses it |
| `black` | all frames are black |
| `timings` | the timings that the engine reports |
| `leaves` | roles of files that are listed but not written |
| `checks` | the verdicts of its guardrails; without it, the guardrails of the job let everything pass |
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks, blocked
from cosmos_batch.contract.generation.outputs import Role
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import GeneratedFile, GeneratorOutput
from cosmos_batch.engines.job_files import GenerationFiles, generation_files
from cosmos_batch.media import (
    Sound,
    VideoInfo,
    exact_rate,
    probe,
    upright_size,
    write_actions,
    write_image,
    write_video,
)
from cosmos_batch.planning.generation.dimensions import fit_to_input
from cosmos_batch.planning.generation.transfer import follow_controls
from cosmos_batch.worker.outputs import expected_roles

_RATE = 48_000
_NAMES: dict[Role, str] = {"video": "made.mp4", "image": "made.png", "actions": "made.json"}


class ScriptedGenerator:
    """A generator that follows the script in a prompt; the module's docstring lists the keys."""

    name = "scripted generator 1"
    concurrency = 1
    guardrails = True

    def __init__(self) -> None:
        self.startup_logs = ["scripted generator is ready"]

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Do nothing: there is no model to load."""

    async def run(self, job: Job, workdir: Path) -> GeneratorOutput:
        assert job.generation is not None, "a generator answers no questions"
        script = _script(job.generation.prompt)
        while "until" in script and not Path(script["until"]).exists():
            await asyncio.sleep(0.1)
        if "blocked" in script:
            raise blocked(script["blocked"])
        generation = _settled(job.generation, generation_files(job, workdir))
        for role in expected_roles(generation):
            if role not in script.get("leaves", []):
                _make(workdir / _NAMES[role], role, generation, script)
        return GeneratorOutput(
            files=[GeneratedFile(name=_NAMES[role], role=role) for role in sorted(expected_roles(generation))],
            generation=generation.model_copy(update=script.get("claims", {})),
            timings=script.get("timings", {"denoise": 0.0}),
            logs=[f"made {job.job_id}"],
            notes=["Nothing in it is real."],
            checks=_checks(generation, script),
            facts={"scheduler": "none"},
        )

    def close(self) -> None:
        """Do nothing: there is no model to free."""


def _script(prompt: str) -> dict[str, Any]:
    try:
        script = json.loads(prompt)
    except ValueError:
        return {}
    return script if isinstance(script, dict) else {}


def _checks(generation: Generation, script: dict[str, Any]) -> Checks:
    passed = {"prompt": "passed", "output": "facesBlurred"} if generation.guardrails else {}
    return Checks.model_validate({"by": "scripted guardrails", **script.get("checks", passed)})


def _settled(generation: Generation, files: GenerationFiles) -> Generation:
    """Return the generation with the size and length that follow from its input files."""
    first_file = files.input or next(iter(files.controls.values()), None)
    if first_file is None:
        return generation
    generation = fit_to_input(generation, *upright_size(first_file))
    if generation.action is not None:
        return generation.model_copy(update={"width": 64, "height": 48})
    if generation.transfer is None:
        return generation
    computed = {
        hint: first_file for hint in generation.transfer.controls if hint not in files.controls
    }  # from the input
    controls = {hint: probe(path) for hint, path in {**files.controls, **computed}.items()}
    frames = {hint: len(control.timeline.times) for hint, control in controls.items() if isinstance(control, VideoInfo)}
    return follow_controls(generation, frames, 10.0)


def _make(path: Path, role: Role, generation: Generation, script: dict[str, Any]) -> None:
    if role == "actions":
        assert generation.action is not None
        write_actions(path, np.zeros((generation.action.chunk_size, generation.action.width)))
        return
    size = generation.size
    assert size is not None and generation.num_frames is not None
    if role == "image":
        write_image(path, _picture(0, size.width, size.height))
        return
    assert generation.fps is not None
    frames = script.get("frames", generation.num_frames)
    fps = exact_rate(generation.fps)
    samples = np.sin(np.arange(int(_RATE * frames / fps)) / 20)[None].astype(np.float32)
    pictures = (_picture(frame, size.width, size.height) * ("black" not in script) for frame in range(frames))
    write_video(path, pictures, fps, Sound(samples, _RATE) if generation.sound else None)


def _picture(frame: int, width: int, height: int) -> np.ndarray:
    """Return one frame of a video in which a brightness ramp moves."""
    row = ((np.arange(width) * 2 + 20 * frame) % 256).astype(np.uint8)
    return np.broadcast_to(row[None, :, None], (height, width, 3)).copy()

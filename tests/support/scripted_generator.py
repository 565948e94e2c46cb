"""A generator that makes small true files without a model, as the job asks for them, or wrongly where it is told so.

The prompt may be a JSON object; these of its keys count:

| key | effect |
|---|---|
| `frames` | so many are made, whatever was asked for |
| `claims` | fields of the generation that the engine says it changed |
| `blocked` | `prompt` or `output`: the guardrail refuses it |
| `black` | there is nothing to see |
| `timings` | that the engine tells |
| `leaves` | roles of files that are listed but not written |
| `checks` | the verdicts of its guardrails; without it, all that were asked for passed |
"""

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
    """See the module's text."""

    name = "scripted generator 1"
    concurrency = 1
    guardrails = True

    def __init__(self) -> None:
        self.startup_logs = ["scripted generator is ready"]

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Nothing is loaded."""

    async def run(self, job: Job, workdir: Path) -> GeneratorOutput:
        assert job.generation is not None, "it makes, it does not answer"
        script = _script(job.generation.prompt)
        if "blocked" in script:
            raise blocked(script["blocked"])
        made = _settled(job.generation, generation_files(job, workdir))
        for role in expected_roles(made):
            if role not in script.get("leaves", []):
                _make(workdir / _NAMES[role], role, made, script)
        return GeneratorOutput(
            files=[GeneratedFile(name=_NAMES[role], role=role) for role in sorted(expected_roles(made))],
            generation=made.model_copy(update=script.get("claims", {})),
            timings=script.get("timings", {"denoise": 0.0}),
            logs=[f"made {job.job_id}"],
            notes=["Nothing in it is real."],
            checks=_checks(made, script),
            facts={"scheduler": "none"},
        )

    def close(self) -> None:
        """Nothing is held."""


def _script(prompt: str) -> dict[str, Any]:
    try:
        script = json.loads(prompt)
    except ValueError:
        return {}
    return script if isinstance(script, dict) else {}


def _checks(made: Generation, script: dict[str, Any]) -> Checks:
    passed = {"prompt": "passed", "output": "facesBlurred"} if made.guardrails else {}
    return Checks.model_validate({"by": "scripted guardrails", **script.get("checks", passed)})


def _settled(asked: Generation, files: GenerationFiles) -> Generation:
    """With what follows from the files."""
    shown = files.input or next(iter(files.controls.values()), None)
    if shown is None:
        return asked
    asked = fit_to_input(asked, *upright_size(shown))
    if asked.action is not None:
        return asked.model_copy(update={"width": 64, "height": 48})
    if asked.transfer is None:
        return asked
    found = {hint: probe(path) for hint, path in files.controls.items()}
    frames = {hint: len(one.timeline.times) for hint, one in found.items() if isinstance(one, VideoInfo)}
    return follow_controls(asked, frames, 10.0)


def _make(path: Path, role: Role, made: Generation, script: dict[str, Any]) -> None:
    if role == "actions":
        assert made.action is not None
        write_actions(path, np.zeros((made.action.chunk_size, made.action.width)))
        return
    size = made.size
    assert size is not None and made.num_frames is not None
    if role == "image":
        write_image(path, _picture(0, size.width, size.height))
        return
    assert made.fps is not None
    frames = script.get("frames", made.num_frames)
    fps = exact_rate(made.fps)
    samples = np.sin(np.arange(int(_RATE * frames / fps)) / 20)[None].astype(np.float32)
    pictures = (_picture(frame, size.width, size.height) * ("black" not in script) for frame in range(frames))
    write_video(path, pictures, fps, Sound(samples, _RATE) if made.sound else None)


def _picture(frame: int, width: int, height: int) -> np.ndarray:
    """A ramp that moves."""
    row = ((np.arange(width) * 2 + 20 * frame) % 256).astype(np.uint8)
    return np.broadcast_to(row[None, :, None], (height, width, 3)).copy()

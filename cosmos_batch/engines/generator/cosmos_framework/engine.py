"""The engine `cosmos-framework`: a torchrun group with NVIDIA's Cosmos Framework, which takes one sample at a time."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.result import GeneratedFile
from cosmos_batch.engines.cosmos_framework import DRIVER, REVISION
from cosmos_batch.engines.generator.captions import captions_for
from cosmos_batch.engines.generator.cosmos_framework.samples import sample_for, write_sample_files
from cosmos_batch.engines.generator.guardrails import explain_guardrail_failures
from cosmos_batch.engines.generator.inputs import PreparedGeneration
from cosmos_batch.engines.generator.outputs import rewrite_files
from cosmos_batch.engines.generator.torchrun_engine import LESS_MEMORY_REMEDY, TorchrunGenerator
from cosmos_batch.engines.job_threads import CancelCheck
from cosmos_batch.engines.torchrun.driver import Body
from cosmos_batch.engines.torchrun.group import GroupPlan
from cosmos_batch.media.errors import unusable_output

# The framework downloads this model's files with another program (`uv`), and loads the other model by name.
_DOWNLOADED = GENERATOR_ABILITIES["cosmos-framework"].guardrail_models[0]
_VIDEO_TWICE = (
    "Cosmos Framework encodes its video itself (H.264, its best quality, which is lossy); that was decoded, and "
    "encoded once more for this file: detail was lost twice."
)
_IMAGE_TWICE = (
    "Cosmos Framework writes its image as JPEG (quality 100), from which this file was made: it has what JPEG left, as "
    "PNG too."
)
_UNREAD = "Cosmos Framework reads no negative prompt with actions: negativePrompt had no effect."


class FrameworkGenerator(TorchrunGenerator):
    """The engine for checkpoints in Diffusers' layout, with guardrails and on one or several GPUs."""

    engine = "cosmos-framework"

    guardrails = True
    """Whether to load guardrails; set before `load`."""

    guardrail_models: Mapping[str, Path] = MappingProxyType({})
    """Local copies of the guardrails' models by their names on the Hub; set before `load`."""

    def __init__(self) -> None:
        super().__init__(f"cosmos-framework {REVISION[:7]}")

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Start the group. Raises Failure as the base class does, and EngineFailed if the guardrails do not load."""
        with explain_guardrail_failures(self._startup_lines):
            super().load(model_dir, context)

    def group_plan(self) -> GroupPlan:
        """Return a group with one process for each GPU of the plan, and the degrees of each way to share a job."""
        models = self.guardrail_models if self.guardrails else {}
        guardrails = ["--guardrails"] if self.guardrails else []
        guardrails += ["--guardrail-files", str(models[_DOWNLOADED])] if models else []
        degrees = {"--tp": self.plan.tp, "--cfg": self.plan.cfg, "--ulysses": self.plan.ulysses}
        sharing = [text for flag, degree in degrees.items() for text in (flag, str(degree))]
        return GroupPlan(
            "Cosmos Framework",
            DRIVER,
            self.plan.gpus,
            LESS_MEMORY_REMEDY,
            expandable_segments=True,
            options=("--generator", *sharing, *guardrails),
            online=self.guardrails and not models,
            hub_models=models,
        )

    def request(self, prepared: PreparedGeneration, folder: Path, check: CancelCheck) -> Body:
        """Return the sample, and write the files that it names."""
        generation = prepared.generation
        sample = sample_for(generation, prepared.size, write_sample_files(prepared, folder, check))
        system_prompt = captions_for(generation, prepared.size).system
        return {"sample": sample, "system_prompt": system_prompt, "guardrails": generation.guardrails}

    def write(
        self, response: Body, prepared: PreparedGeneration, folder: Path, check: CancelCheck
    ) -> list[GeneratedFile]:
        """Write the framework's image or video anew as the job's files, with its actions."""
        generation = prepared.generation
        wanted = "vision.mp4" if generation.is_video else "vision.jpg"
        outputs = [path for path in map(Path, response["files"]) if path.name == wanted]
        if not outputs:
            raise unusable_output(f"no {wanted}")
        actions = response["content"].get("action") if generation.mode in ("inverse_dynamics", "policy") else None
        return rewrite_files(outputs[0], None if actions is None else np.array(actions), generation, folder, check)

    def _startup_lines(self) -> list[str]:
        return [] if self._served is None else self._served.lines_since(0)

    def notes(self, generation: Generation) -> list[str]:
        """Return notes on parameters that had no effect, and on the detail that the framework's own encoding lost."""
        is_unread = generation.action and generation.guided and generation.negative_prompt
        return [*([_UNREAD] if is_unread else []), _VIDEO_TWICE if generation.is_video else _IMAGE_TWICE]

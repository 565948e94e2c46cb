"""Images, videos, sound and actions with NVIDIA's Cosmos Framework: one torchrun group, loaded once."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from cosmos_batch.catalogue.generator_engines import GENERATOR_ABILITIES
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.result import MadeFile
from cosmos_batch.engines.cosmos_framework import DRIVER, REVISION
from cosmos_batch.engines.generator.captions import captions_for
from cosmos_batch.engines.generator.cosmos_framework.samples import sample_for, write_sample_files
from cosmos_batch.engines.generator.guardrails import explain_guardrail_failures
from cosmos_batch.engines.generator.inputs import PreparedGeneration
from cosmos_batch.engines.generator.outputs import rewrite_files
from cosmos_batch.engines.generator.torchrun_engine import LESS_MEMORY, Body, TorchrunGenerator
from cosmos_batch.engines.job_threads import CancelCheck
from cosmos_batch.engines.torchrun.group import GroupPlan
from cosmos_batch.media.errors import unusable_output

# What it has another program fetch, by a commit; the other it loads by name.
_FETCHED = GENERATOR_ABILITIES["cosmos-framework"].guardrail_models[0]
_VIDEO_TWICE = (
    "Cosmos Framework encodes its video itself (H.264, its best quality, which is lossy); that was decoded, and "
    "encoded once more for this file: detail was lost twice."
)
_IMAGE_TWICE = (
    "Cosmos Framework writes its image as JPEG (quality 100), from which this file was made: it has what JPEG left, as "
    "PNG too."
)
_UNREAD = "Cosmos Framework reads no negative prompt with actions: negativePrompt did nothing."


class FrameworkGenerator(TorchrunGenerator):
    """`Engine`, `Guarding` and `Sharing`, for checkpoints in Diffusers' layout."""

    engine = "cosmos-framework"

    guardrails = True
    """Whether to load guardrails; set before `load`."""

    guardrail_models: Mapping[str, Path] = MappingProxyType({})
    """Copies of their models; set before `load`."""

    def __init__(self) -> None:
        super().__init__(f"cosmos-framework {REVISION[:7]}")

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """As of all groups. Raises Failure also where its guardrails do not load."""
        with explain_guardrail_failures(self._said):
            super().load(model_dir, context)

    def group_plan(self) -> GroupPlan:
        """One process for each GPU of the plan."""
        models = self.guardrail_models if self.guardrails else {}
        guardrails = ["--guardrails"] if self.guardrails else []
        guardrails += ["--guardrail-files", str(models[_FETCHED])] if models else []
        degrees = {"--tp": self.plan.tp, "--cfg": self.plan.cfg, "--ulysses": self.plan.ulysses}
        shared = [text for flag, degree in degrees.items() for text in (flag, str(degree))]
        return GroupPlan(
            "Cosmos Framework",
            DRIVER,
            self.plan.gpus,
            LESS_MEMORY,
            expandable_segments=True,
            options=("--generator", *shared, *guardrails),
            online=self.guardrails and not models,
            hub_models=models,
        )

    def request(self, prepared: PreparedGeneration, folder: Path, check: CancelCheck) -> Body:
        """A sample, and the files that it names."""
        asked = prepared.generation
        sample = sample_for(asked, prepared.size, write_sample_files(prepared, folder, check))
        system_prompt = captions_for(asked, prepared.size).system
        return {"sample": sample, "system_prompt": system_prompt, "guardrails": asked.guardrails}

    def write(self, said: Body, prepared: PreparedGeneration, folder: Path, check: CancelCheck) -> list[MadeFile]:
        """Its picture or video, written anew, and its actions."""
        asked = prepared.generation
        wanted = "vision.mp4" if asked.is_video else "vision.jpg"
        found = [path for path in map(Path, said["files"]) if path.name == wanted]
        if not found:
            raise unusable_output(f"no {wanted}")
        actions = said["content"].get("action") if asked.mode in ("inverse_dynamics", "policy") else None
        return rewrite_files(found[0], None if actions is None else np.array(actions), asked, folder, check)

    def _said(self) -> list[str]:
        return [] if self._served is None else self._served.lines_since(0)

    def notes(self, asked: Generation) -> list[str]:
        """What it did not do as it was told, and what its files lost on the way."""
        unread = asked.action and asked.guided and asked.negative_prompt
        return [*([_UNREAD] if unread else []), _VIDEO_TWICE if asked.is_video else _IMAGE_TWICE]

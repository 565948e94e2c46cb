"""The engine `phyai`: a torchrun group that loads PhyAI once. It makes no images and has no guardrails."""

from pathlib import Path

import numpy as np

from cosmos_batch.contract.result import GeneratedFile
from cosmos_batch.engines.generator.inputs import PreparedGeneration
from cosmos_batch.engines.generator.outputs import GeneratedMedia, write_files
from cosmos_batch.engines.generator.phyai.requests import request_for, write_request_inputs
from cosmos_batch.engines.generator.torchrun_engine import LESS_MEMORY_REMEDY, TorchrunGenerator
from cosmos_batch.engines.job_threads import CancelCheck
from cosmos_batch.engines.torchrun.driver import Body
from cosmos_batch.engines.torchrun.group import GroupPlan
from cosmos_batch.media import Sound

REVISION = "d27fe1887d4c9c8e74c95b9fb026dec353a7ec8e"  # the commit of MEmbodied/phyai that containers/phyai installs


class PhyaiEngine(TorchrunGenerator):
    """The engine for checkpoints in Diffusers' layout, on one or several GPUs."""

    engine = "phyai"

    def __init__(self) -> None:
        super().__init__(f"phyai {REVISION[:7]}")

    def group_plan(self) -> GroupPlan:
        """Return a group with one process for each GPU of the plan."""
        options = ("--tp", str(self.plan.tp), "--cfg", str(self.plan.cfg))
        return GroupPlan(
            "PhyAI", "cosmos_batch.engines.generator.phyai.driver", self.plan.gpus, LESS_MEMORY_REMEDY, options=options
        )

    def request(self, prepared: PreparedGeneration, folder: Path, _check: CancelCheck) -> Body:
        """Return the request, and write the frames that condition the generation."""
        return {"request": request_for(prepared.generation, prepared.size, write_request_inputs(prepared, folder))}

    def write(
        self, response: Body, prepared: PreparedGeneration, folder: Path, check: CancelCheck
    ) -> list[GeneratedFile]:
        """Write frames, sound and actions, which the group saved as arrays, as the job's files."""
        generation, group_folder = prepared.generation, folder / "group"
        frames = np.load(group_folder / response["frames"], mmap_mode="r")
        sound = Sound(np.load(group_folder / response["sound"]), response["rate"]) if response["sound"] else None
        has_actions = generation.mode in ("inverse_dynamics", "policy")
        actions = np.array(response["actions"]) if has_actions else None
        return write_files(GeneratedMedia(frames, sound, actions), generation, folder, check)

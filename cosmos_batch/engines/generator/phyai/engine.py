"""Videos, sound and actions with PhyAI: one torchrun group, loaded once. It has no guardrails."""

from pathlib import Path

import numpy as np

from cosmos_batch.contract.result import MadeFile
from cosmos_batch.engines.generator.inputs import PreparedGeneration
from cosmos_batch.engines.generator.outputs import GeneratedMedia, write_files
from cosmos_batch.engines.generator.phyai.requests import request_for, write_request_inputs
from cosmos_batch.engines.generator.torchrun_engine import LESS_MEMORY, Body, TorchrunGenerator
from cosmos_batch.engines.job_threads import CancelCheck
from cosmos_batch.engines.torchrun.group import GroupPlan
from cosmos_batch.media import Sound

REVISION = "d27fe1887d4c9c8e74c95b9fb026dec353a7ec8e"  # of MEmbodied/phyai, as containers/phyai has it


class PhyaiEngine(TorchrunGenerator):
    """`Engine` and `Sharing`, for checkpoints in Diffusers' layout."""

    engine = "phyai"

    def __init__(self) -> None:
        super().__init__(f"phyai {REVISION[:7]}")

    def group_plan(self) -> GroupPlan:
        """One process for each GPU of the plan."""
        options = ("--tp", str(self.plan.tp), "--cfg", str(self.plan.cfg))
        return GroupPlan(
            "PhyAI", "cosmos_batch.engines.generator.phyai.driver", self.plan.gpus, LESS_MEMORY, options=options
        )

    def request(self, prepared: PreparedGeneration, folder: Path, _check: CancelCheck) -> Body:
        """A request, and the frames that it looks at."""
        return {"request": request_for(prepared.generation, prepared.size, write_request_inputs(prepared, folder))}

    def write(self, said: Body, prepared: PreparedGeneration, folder: Path, check: CancelCheck) -> list[MadeFile]:
        """Its frames, sound and actions, as files."""
        asked, inside = prepared.generation, folder / "group"
        frames = np.load(inside / said["frames"], mmap_mode="r")
        sound = Sound(np.load(inside / said["sound"]), said["rate"]) if said["sound"] else None
        wanted = asked.mode in ("inverse_dynamics", "policy")
        actions = np.array(said["actions"]) if wanted else None
        return write_files(GeneratedMedia(frames, sound, actions), asked, folder, check)

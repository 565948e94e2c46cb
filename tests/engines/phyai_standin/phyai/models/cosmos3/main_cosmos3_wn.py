"""Part of the stand-in for PhyAI, which `phyai/engine.py` describes."""

from dataclasses import dataclass


@dataclass
class Cosmos3WNArgs:
    checkpoint_dir: str
    flow_shift: float
    use_karras_sigmas: bool

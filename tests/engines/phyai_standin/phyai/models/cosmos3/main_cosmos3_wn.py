"""A stand-in; see `engine.py`."""

from dataclasses import dataclass


@dataclass
class Cosmos3WNArgs:
    checkpoint_dir: str
    flow_shift: float
    use_karras_sigmas: bool

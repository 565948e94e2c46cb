"""The Diffusers engine where `cosmos_guardrail` is installed, of which only the classifiers are stand-ins."""

import sys
from pathlib import Path

# Before Diffusers looks whether it is there.
sys.path.insert(0, str(Path(__file__).parent / "guardrail_standin"))

from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine


class GuardedDiffusers(DiffusersEngine):
    """As it is: its own code loads the guardrails and asks them."""

"""Provide the Diffusers engine with an installed `cosmos_guardrail`, in which only the classifiers are stand-ins."""

import sys
from pathlib import Path

# Before Diffusers looks whether it is there.
sys.path.insert(0, str(Path(__file__).parent / "guardrail_standin"))

from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine


class GuardedDiffusers(DiffusersEngine):
    """The Diffusers engine, whose own code loads the guardrails and calls them."""

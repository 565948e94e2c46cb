"""Tests that run the real vLLM's CPU build: where it is not installed they are skipped, and `.ci/run` fails for it."""

from importlib.util import find_spec

import pytest

from cosmos_batch.engines.gpus import gpus_here

WHY_SKIPPED = "vLLM's CPU build is not installed: make .venv/vllm says why"

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None or gpus_here() > 0, reason=WHY_SKIPPED)

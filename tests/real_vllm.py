"""Tests that run the real vLLM: where it is not installed they are skipped, and `.ci/run` fails for it."""

from importlib.util import find_spec

import pytest

WHY_SKIPPED = "vLLM is not installed: make .venv/vllm says why"

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason=WHY_SKIPPED)

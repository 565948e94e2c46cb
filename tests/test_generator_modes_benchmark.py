"""The benchmark of the generator's modes starts its servers as a deployment with the same mode does."""

from itertools import pairwise
from pathlib import Path

from benchmarks.generator_modes import FP8, MODES, _more_options, encoding_seconds
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.engines.generator.vllm_omni.command import OmniPlan


def command(sea_cache: bool = False) -> list[str]:
    return OmniPlan(ParallelPlan(), 1, guardrails=False, sea_cache=sea_cache).command(Path("/models"), Path("/tmp/s"))


def test_more_options_are_those_of_the_mode_and_end_with_it() -> None:
    plain = command()
    with _more_options(MODES["both"].options):
        pairs = dict(pairwise(command(MODES["both"].sea_cache)))
    assert pairs["--cache-backend"] == "sea_cache" and pairs[FP8[0]] == FP8[1]
    assert command() == plain and not MODES["plain"].options


def test_encoding_is_measured_with_a_clip_of_the_size(tmp_path: Path) -> None:
    assert encoding_seconds("64x48", 5, tmp_path) > 0 and not list(tmp_path.iterdir())

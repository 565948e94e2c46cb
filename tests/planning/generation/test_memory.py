"""The memory of a generation follows from its workload, agrees with measurements and grows with the workload."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.generator.accelerations_page import AS_IT_SHIPS, DEFAULT, OURS
from benchmarks.generator.modes_page import KINDS
from benchmarks.page import PAGE
from benchmarks.results import stored
from cosmos_batch.catalogue.generation import Resolution
from cosmos_batch.catalogue.pipelines import GENERATORS
from cosmos_batch.contract.generation.parameters import SEQUENCE_LIMIT
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.planning.generation.memory import RESERVE, Workload, gib_per_gpu
from tests.support.generations import EDGE, settled

PIPELINE = {pipeline.id: pipeline for pipeline in GENERATORS}
NANO = PIPELINE["cosmos3-nano"]


def largest(pipeline: str, guardrails: bool = True) -> Workload:
    """Return the largest workload that a pipeline admits with videos of up to 720p."""
    return Workload.largest(PIPELINE[pipeline].modes, "720p", guardrails)


@pytest.mark.parametrize("size", ["320x192", "832x480"])
def test_the_computed_memory_covers_what_diffusers_takes_as_it_ships(size: str) -> None:
    """The stored peaks are for Nano and prompts of 2,997 tokens, on an H100.

    They do not contain the sound's VAE, the CUDA context and the encoding of a whole input video.
    """
    peak = stored(OURS)["sizes"][size][DEFAULT]["peakBytes"] / 2**30
    job = replace(Workload.of(settled({"size": size}), False), tokens=2997)
    assert 0 <= gib_per_gpu(ParallelPlan(), NANO, "diffusers", job) - peak <= 4.3


def test_the_computed_memory_of_a_large_video_covers_what_an_earlier_pytorch_took() -> None:
    """It took 41.5 GiB for Nano at 1280x720 on an H100, without the parts that the test above names."""
    job = replace(Workload.of(settled({"size": "1280x720"}), False), tokens=2997)
    assert 0 <= gib_per_gpu(ParallelPlan(), NANO, "diffusers", job) - 41.5 <= 2.9


@pytest.mark.parametrize(("engine", "results"), [("diffusers", AS_IT_SHIPS), ("vllm-omni", KINDS)])
def test_the_planned_memory_with_its_reserve_covers_what_nvidia_smi_counted(engine: str, results: Path) -> None:
    """The peaks are for Nano on an H200, and count what the process keeps for later jobs."""
    for size, measured in stored(results)["modes"]["plain"]["kinds"]["t2v"].items():
        job = replace(Workload.of(settled({"size": size}), False), tokens=2997)
        needed = gib_per_gpu(ParallelPlan(), NANO, engine, job) / (1 - RESERVE)
        assert 0 <= needed - measured["peakMiB"] / 1024 <= 5.1, size


def test_the_computed_memory_agrees_with_the_measurement_of_vllm_omni() -> None:
    """It took 39.0 GiB for Nano at 832x480 on an H100, without the parts that the first test names."""
    jobs = {
        size: replace(Workload.of(settled({"size": size}), False), tokens=3000)
        for size in ("320x192", "832x480", "1280x720")
    }
    needs = {size: gib_per_gpu(ParallelPlan(), NANO, "vllm-omni", job) for size, job in jobs.items()}
    assert 0 <= needs["832x480"] - 39.0 <= 2.9 and needs["320x192"] <= 39.0
    diffusers = {size: gib_per_gpu(ParallelPlan(), NANO, "diffusers", job) for size, job in jobs.items()}
    assert needs["1280x720"] - diffusers["1280x720"] == pytest.approx(39.0 - 35.6)
    assert gib_per_gpu(ParallelPlan(), NANO, "my.module:Engine", jobs["832x480"]) == diffusers["832x480"]


@pytest.mark.parametrize(
    ("size", "sound", "peak"), [("320x192", False, 33.1), ("320x192", True, 35.1), ("832x480", False, 42.4)]
)
def test_the_computed_memory_agrees_with_the_measurements_of_phyai(size: str, sound: bool, peak: float) -> None:
    """Peaks in GiB for Nano on an H100 with torch 2.11 (benchmarks/results/generator-phyai-nano.json)."""
    job = replace(Workload.of(settled({"size": size, "sound": sound}), False), tokens=3000)
    assert 0 <= gib_per_gpu(ParallelPlan(), NANO, "phyai", job) - peak <= 2.9


@pytest.mark.parametrize(
    ("engine", "plan", "size", "peak"),
    [
        ("vllm-omni", ParallelPlan(tp=2), "320x192", 20.51), ("vllm-omni", ParallelPlan(tp=2), "832x480", 26.7),
        ("vllm-omni", ParallelPlan(cfg=2), "320x192", 33.2), ("vllm-omni", ParallelPlan(cfg=2), "832x480", 37.6),
        ("phyai", ParallelPlan(tp=2), "320x192", 20.0), ("phyai", ParallelPlan(tp=2), "832x480", 26.9),
        ("phyai", ParallelPlan(cfg=2), "320x192", 33.4), ("phyai", ParallelPlan(cfg=2), "832x480", 40.1),
    ],
)  # fmt: skip
def test_the_computed_memory_covers_what_two_gpus_took(engine: str, plan: ParallelPlan, size: str, peak: float) -> None:
    """Peaks in GiB for Nano (benchmarks/results/generator-*-nano-two-*.json): tp 2 of vLLM-Omni on H200, else H100."""
    job = replace(Workload.of(settled({"size": size}), False), tokens=3000)
    assert 0 <= gib_per_gpu(plan, NANO, engine, job) - peak <= 5.1


@pytest.mark.parametrize("resolution", ["720p", "480p", "256p"])
def test_the_page_on_the_generator_says_how_much_memory_a_gpu_needs(resolution: Resolution) -> None:
    def least(engine: str) -> str:
        """Return the GiB that a job takes without guardrails and with them, as the table has them."""
        largest_jobs = (Workload.largest(NANO.modes, resolution, guardrails) for guardrails in (False, True))
        needed = (gib_per_gpu(ParallelPlan(), NANO, engine, job) for job in largest_jobs)
        return ", ".join(str(math.ceil(gib / (1 - RESERVE))) for gib in needed)

    page = (PAGE.parent / "generator.md").read_text(encoding="utf-8")
    row = rf"^\| `{resolution}`(, the default)? \| {least('diffusers')} \| {least('vllm-omni')} \|$"
    assert re.search(row, page, re.MULTILINE), row


def test_guardrails_and_the_keys_and_values_of_prompts_take_memory() -> None:
    bare = replace(largest("cosmos3-nano", guardrails=False), tokens=0)
    for plan, guardrails, prompts in ((ParallelPlan(), 2.4, 4.5), (ParallelPlan(tp=2), 2.4, 2.25)):
        needs = [
            gib_per_gpu(plan, NANO, "diffusers", workload)
            for workload in (bare, replace(bare, guardrails=True), largest("cosmos3-nano"))
        ]
        assert needs[1] - needs[0] == pytest.approx(guardrails) and needs[2] - needs[1] == pytest.approx(prompts)


def test_a_prompt_is_counted_with_as_many_tokens_as_bytes_at_most() -> None:
    short = Workload.of(settled({"negative_prompt": "ok"}, prompt="何?"), guardrails=True)
    assert short.tokens == 6 and short.guardrails
    long = Workload.of(settled({"negative_prompt": "x" * 30_000}, prompt="y" * 30_000), guardrails=True)
    assert long.tokens == 2 * SEQUENCE_LIMIT == largest("cosmos3-nano").tokens
    assert Workload.of(settled({"guidance_scale": 1.0}, prompt="y"), guardrails=True).tokens == 1


@given(first=st.floats(0, 1000), second=st.floats(0, 1000))
def test_a_larger_workload_never_needs_less_memory(first: float, second: float) -> None:
    smaller, larger = sorted((first, second))
    for engine in ("diffusers", "vllm-omni"):
        assert Workload(smaller, True, True).peak_gib(engine) <= Workload(larger, True, True).peak_gib(engine)


def test_no_admitted_generation_is_larger_than_the_largest_workload() -> None:
    assert Workload.of(settled({"num_frames": 197}), True).megapixels <= largest("cosmos3-nano").megapixels
    image = Workload.of(settled({"mode": "t2i", "resolution": "768p"}, pipeline="cosmos3-super-text2image"), True)
    assert image.megapixels <= largest("cosmos3-super-text2image").megapixels
    assert Workload.of(settled(EDGE), True).megapixels <= largest("cosmos3-nano").megapixels
    unseen = Workload.of(settled(medium="image"), True)
    assert unseen.megapixels == Workload.of(settled(), True).megapixels

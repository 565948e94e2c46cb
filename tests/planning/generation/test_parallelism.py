"""The plans that are chosen, and the memory that they are chosen by."""

import json
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.results import FOLDER
from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import MODES_OF_PIPELINE
from cosmos_batch.catalogue.hardware import GPUS, INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import PIPELINES, Pipeline, pipeline_named
from cosmos_batch.contract.entries import Objective
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.parameters import SEQUENCE_LIMIT
from cosmos_batch.contract.generation.serving import ParallelPlan, ParallelPlans, Serving
from cosmos_batch.planning.generation.memory import RESERVE, Host, Workload, gib_per_gpu
from cosmos_batch.planning.generation.parallelism import (
    choose_parallel_plan,
    choose_parallel_plans,
    instance_types_for,
    parallel_plan_for_machine,
    refuse_large_generation,
    why_not_parallel_plan,
    with_parallel_plans,
)
from cosmos_batch.planning.instance_types import workers_per_instance
from tests.support.generations import EDGE, refusal, settled

TYPES = ("g6e.12xlarge", "g6e.48xlarge", "p5.4xlarge", "p5.48xlarge", "p5en.48xlarge")

# vLLM-Omni with guardrails, the largest job of each pipeline up to 720p: workers on an instance and the plan of each.
CHOSEN = """
throughput
cosmos3-nano              2 x tp 2           | 4 x tp 2                       | 1 x one GPU          | 8 x one GPU         | 8 x one GPU
cosmos3-super             1 x tp 4, offload  | 1 x tp 8                       | 1 x one GPU, offload | 2 x tp 4            | 4 x tp 2
cosmos3-super-text2image  1 x tp 4           | 2 x tp 4                       | 1 x one GPU, offload | 4 x tp 2            | 8 x one GPU
cosmos3-super-image2video 1 x tp 4, offload  | 1 x tp 8                       | 1 x one GPU, offload | 2 x tp 4            | 4 x tp 2
latency
cosmos3-nano              1 x tp 2 x cfg 2   | 1 x tp 2 x cfg 2 x ulysses 2   | 1 x one GPU          | 1 x cfg 2 x ulysses 4 | 1 x cfg 2 x ulysses 4
cosmos3-super             1 x tp 4, offload  | 1 x tp 8                       | 1 x one GPU, offload | 1 x tp 4 x cfg 2    | 1 x tp 2 x cfg 2 x ulysses 2
cosmos3-super-text2image  1 x tp 4           | 1 x tp 4 x cfg 2               | 1 x one GPU, offload | 1 x tp 2 x cfg 2 x ulysses 2 | 1 x cfg 2 x ulysses 4
cosmos3-super-image2video 1 x tp 4, offload  | 1 x tp 8                       | 1 x one GPU, offload | 1 x tp 4 x cfg 2    | 1 x tp 2 x cfg 2 x ulysses 2
"""  # noqa: E501 - a table


NANO, SUPER = (one for one in PIPELINES if one.id in ("cosmos3-nano", "cosmos3-super"))


def largest(pipeline: str, resolution: str = "720p", guardrails: bool = True) -> Workload:
    return Workload.largest(MODES_OF_PIPELINE[pipeline], resolution, guardrails)  # type: ignore[arg-type]


def serving(plans: ParallelPlans) -> Serving:
    return Serving(engine="vllm-omni", guardrails=True, max_resolution="720p", plans=plans)


def chosen(
    pipeline: str, engine: str, *types: str, objective: Objective = "throughput", resolution: str = "720p"
) -> str:
    found = pipeline_named(pipeline)
    assert found is not None
    workload = largest(pipeline, resolution)
    plan = choose_parallel_plan(found, engine, [Host.of_type(name) for name in types], workload, objective)
    return f"{_workers(found, engine, plan, workload, types[0])} x {plan}"


def _workers(pipeline: Pipeline, engine: str, plan: ParallelPlan, workload: Workload, instance_type: str) -> int:
    gpu = INSTANCE_TYPES[instance_type].gpu
    return workers_per_instance(with_parallel_plans(pipeline, engine, {gpu: plan}, workload), instance_type)


def several(pipeline: str, *types: str, engine: str = "vllm-omni") -> dict[str, str]:
    found = pipeline_named(pipeline)
    assert found is not None
    plans = choose_parallel_plans(found, engine, types, largest(pipeline), "throughput")
    return {kind: str(plan) for kind, plan in plans.items()}


def test_the_table_of_chosen_plans() -> None:
    objective: Objective = "throughput"
    for line in CHOSEN.strip().splitlines():
        if line in ("throughput", "latency"):
            objective = line  # type: ignore[assignment]
            continue
        pipeline, _, plans = line.partition(" ")
        expected = [plan.strip() for plan in plans.split("|")]
        assert [chosen(pipeline, "vllm-omni", name, objective=objective) for name in TYPES] == expected, pipeline


@pytest.mark.parametrize(
    ("engine", "pipeline", "instance_type", "objective", "expected"),
    [
        ("diffusers", "cosmos3-nano", "g6e.12xlarge", "throughput", "4 x one GPU, offload"),
        ("diffusers", "cosmos3-nano", "p5.48xlarge", "latency", "8 x one GPU"),
        ("phyai", "cosmos3-nano", "p5.48xlarge", "latency", "1 x tp 4 x cfg 2"),
        ("cosmos-framework", "cosmos3-super", "p5.48xlarge", "throughput", "2 x tp 4"),
        ("cosmos-framework", "cosmos3-super", "p5.48xlarge", "latency", "1 x tp 8"),
        ("cosmos-framework", "cosmos3-nano", "p5.48xlarge", "latency", "1 x cfg 2 x ulysses 4"),
        ("my.module:Engine", "cosmos3-nano", "p5.4xlarge", "throughput", "1 x one GPU"),
    ],
)
def test_plans_of_the_other_engines(
    engine: str, pipeline: str, instance_type: str, objective: Objective, expected: str
) -> None:
    assert chosen(pipeline, engine, instance_type, objective=objective) == expected


def test_smaller_jobs_let_more_workers_onto_an_instance() -> None:
    assert chosen("cosmos3-nano", "vllm-omni", "g6e.12xlarge", resolution="256p") == "4 x one GPU"
    assert chosen("cosmos3-super", "vllm-omni", "p5.48xlarge", resolution="256p") == "4 x tp 2"


def test_several_types_have_one_number_of_gpus_and_a_plan_for_each_kind() -> None:
    plans = several("cosmos3-nano", "g6e.12xlarge", "g6e.24xlarge", "p5.4xlarge")
    assert plans == {"L40S": "one GPU, offload", "H100": "one GPU"}
    assert several("cosmos3-super", "g6e.12xlarge", "p5.48xlarge") == {"L40S": "tp 4, offload", "H100": "tp 4"}
    assert several("cosmos3-nano", "p5.48xlarge", "g6e.12xlarge") == {"H100": "one GPU", "L40S": "one GPU, offload"}
    assert several("cosmos3-nano", "g6e.12xlarge", "g6e.24xlarge") == {"L40S": "tp 2"}


def test_types_that_have_no_number_of_gpus_in_common() -> None:
    with pytest.raises(ValueError, match=r"no number of GPUs for all of the types: tp 2 on g6e\.12xlarge, one GPU"):
        several("cosmos3-nano", "g6e.12xlarge", "p5.4xlarge", engine="phyai")


def test_a_planned_pipeline_reserves_what_its_plans_use() -> None:
    found, workload = pipeline_named("cosmos3-super"), largest("cosmos3-super")
    assert found is not None
    for types, gpus, memory in [(["p5.48xlarge"], 4, 80), (["p5en.48xlarge"], 2, 96), (["g6e.48xlarge"], 8, 48)]:
        plans = choose_parallel_plans(found, "vllm-omni", types, workload, "throughput")
        after = with_parallel_plans(found, "vllm-omni", plans, workload)
        assert (after.gpus_per_worker, after.min_gpu_memory_gb, after.id) == (gpus, memory, found.id)


@pytest.mark.parametrize(
    ("engine", "pipeline", "instance_type", "told"),
    [
        ("diffusers", "cosmos3-super", "g6e.12xlarge", "needs 119 GiB of the host's memory, its share .* is 88; it has "
         "one for p6-b200.48xlarge, and with layers that wait in the host's memory for .*p5.4xlarge"),
        ("phyai", "cosmos3-super", "g6e.12xlarge", "tp 4 needs 52.5 GiB of a GPU, g6e.12xlarge has 43.6; it "
         "has one for g6e.48xlarge, g7e.12xlarge, g7e.24xlarge, g7e.48xlarge, p5.48xlarge, p5en.48xlarge"),
        ("cosmos-framework", "cosmos3-super", "p5.4xlarge", "one GPU needs 145.5 GiB of a GPU, p5.4xlarge has 77.2"),
        ("phyai", "cosmos3-super-text2image", "p5.48xlarge", "none of the modes of .*: t2i; no known instance type"),
        ("phyai", "cosmos3-nano", "g6.12xlarge", "needs 28.5 GiB of a GPU, g6.12xlarge has 21.8; .*g6e.12xlarge"),
    ],
)  # fmt: skip
def test_an_impossible_plan_is_refused_with_its_reason_and_types_that_would_do(
    engine: str, pipeline: str, instance_type: str, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        several(pipeline, instance_type, engine=engine)


@pytest.mark.parametrize(
    ("plan", "engine", "told"),
    [
        ({"tp": 4, "ulysses": 4}, "vllm-omni", "tp x ulysses is 16"),
        ({"tp": 2}, "diffusers", "does not share by tp"),
        ({"ulysses": 2}, "phyai", "does not share by ulysses"),
        ({"tp": 2, "cfg": 2}, "cosmos-framework", "not both"),
        ({"offload": True}, "phyai", "no offload"),
        ({"tp": 3}, "vllm-omni", "do not fill the 8"),
    ],
)
def test_a_plan_that_an_engine_or_a_host_does_not_know(plan: dict[str, int], engine: str, told: str) -> None:
    host = Host.of_type("p5.48xlarge")
    reason = why_not_parallel_plan(ParallelPlan.model_validate(plan), NANO, engine, host, largest("cosmos3-nano"))
    assert reason is not None and told in reason


def test_guidance_has_gpus_of_its_own_only_where_there_is_any() -> None:
    actions = Workload.largest(("policy", "inverse_dynamics"), "480p", guardrails=True)
    assert not actions.guided
    assert (
        str(choose_parallel_plan(NANO, "vllm-omni", [Host.of_type("p5.48xlarge")], actions, "latency")) == "ulysses 8"
    )


@pytest.mark.parametrize(
    ("pipeline", "engine", "objective", "name"),
    list(product(MODES_OF_PIPELINE, GENERATOR_ABILITIES, ("throughput", "latency"), TYPES)),
)
def test_a_chosen_plan_uses_every_gpu_that_it_reserves_and_fits(
    pipeline: str, engine: str, objective: Objective, name: str
) -> None:
    found, instance = pipeline_named(pipeline), INSTANCE_TYPES[name]
    assert found is not None
    try:
        plan = choose_parallel_plan(found, engine, [Host.of_type(name)], largest(pipeline), objective)
    except ValueError:
        return
    assert _workers(found, engine, plan, largest(pipeline), name) * plan.tp * plan.cfg * plan.ulysses == instance.gpus
    assert gib_per_gpu(plan, found, engine, largest(pipeline)) <= GPUS[instance.gpu].memory_gib * (1 - RESERVE)


@pytest.mark.parametrize(
    ("engine", "gpus", "gib", "expected"),
    [
        ("vllm-omni", 1, 80.0, "one GPU"),  # an A100
        ("vllm-omni", 1, 40.0, "one GPU, offload"),
        ("vllm-omni", 2, 48.0, "tp 2"),
        ("vllm-omni", 1, 16.0, "one GPU, offload"),  # which does not fit the largest job, and may fit a small one
        ("phyai", 1, 16.0, "one GPU"),
    ],
)
def test_a_gpu_that_no_instance_type_has_is_planned_by_its_own_memory(
    engine: str, gpus: int, gib: float, expected: str
) -> None:
    workload = largest("cosmos3-nano", guardrails=False)
    assert str(parallel_plan_for_machine(NANO, engine, Host("mine", gpus, gib, 256), workload)) == expected


@pytest.mark.parametrize(("resolution", "without", "guarded"), [("720p", 51, 53), ("480p", 47, 49), ("256p", 41, 43)])
def test_layers_stay_on_a_gpu_of_as_much_memory_as_the_page_says(resolution: str, without: int, guarded: int) -> None:
    """`docs/generator.md`."""
    for guardrails, gib in ((False, without), (True, guarded)):
        workload = largest("cosmos3-nano", resolution, guardrails)
        plans = [
            parallel_plan_for_machine(NANO, "diffusers", Host("mine", 1, one, 256), workload) for one in (gib - 1, gib)
        ]
        assert [str(plan) for plan in plans] == ["one GPU, offload", "one GPU"]


def test_gpus_that_nothing_can_share_are_refused() -> None:
    for engine, gpus, told in (("vllm-omni", 3, "no plan for 3 GPUs"), ("diffusers", 2, "does not share by")):
        with pytest.raises(ValueError, match=told):
            parallel_plan_for_machine(NANO, engine, Host("mine", gpus, 80, 256), largest("cosmos3-nano"))


@pytest.mark.parametrize("size", ["320x192", "832x480", "1280x720"])
def test_the_arithmetic_says_what_was_measured(size: str) -> None:
    """Within what Diffusers' peaks leave out: the sound's VAE, the context, and encoding a whole video."""
    found = json.loads((FOLDER / "generator-nano.json").read_text(encoding="utf-8"))
    job = replace(Workload.of(settled({"size": size}), False), tokens=sum(found["workload"]["promptTokens"]))
    assert 0 <= gib_per_gpu(ParallelPlan(), NANO, "diffusers", job) - found["memory"][size]["peakBytes"] / 2**30 <= 2.9


def test_vllm_omni_takes_what_it_was_measured_to_take() -> None:
    """39.0 GiB for Nano at 832x480 on an H100, which leaves out what the test above does; smaller ones take no more."""
    jobs = {
        size: replace(Workload.of(settled({"size": size}), False), tokens=3000)
        for size in ("320x192", "832x480", "1280x720")
    }
    needs = {size: gib_per_gpu(ParallelPlan(), NANO, "vllm-omni", job) for size, job in jobs.items()}
    assert 0 <= needs["832x480"] - 39.0 <= 2.9 and needs["320x192"] <= 39.0
    diffusers = {size: gib_per_gpu(ParallelPlan(), NANO, "diffusers", job) for size, job in jobs.items()}
    assert needs["1280x720"] - diffusers["1280x720"] == pytest.approx(39.0 - 35.6)
    assert gib_per_gpu(ParallelPlan(), NANO, "my.module:Engine", jobs["832x480"]) == diffusers["832x480"]


def test_guardrails_and_kept_prompts_take_memory() -> None:
    bare = replace(largest("cosmos3-nano", guardrails=False), tokens=0)
    for plan, guarded, kept in ((ParallelPlan(), 2.4, 4.5), (ParallelPlan(tp=2), 2.4, 2.25)):
        needs = [
            gib_per_gpu(plan, NANO, "diffusers", one)
            for one in (bare, replace(bare, guardrails=True), largest("cosmos3-nano"))
        ]
        assert needs[1] - needs[0] == pytest.approx(guarded) and needs[2] - needs[1] == pytest.approx(kept)


def test_of_one_job_no_prompt_has_more_tokens_than_bytes() -> None:
    short = Workload.of(settled({"negative_prompt": "ok"}, prompt="何?"), guardrails=True)
    assert short.tokens == 6 and short.guardrails
    long = Workload.of(settled({"negative_prompt": "x" * 30_000}, prompt="y" * 30_000), guardrails=True)
    assert long.tokens == 2 * SEQUENCE_LIMIT == largest("cosmos3-nano").tokens
    assert Workload.of(settled({"guidance_scale": 1.0}, prompt="y"), guardrails=True).tokens == 1


@given(first=st.floats(0, 1000), second=st.floats(0, 1000))
def test_a_larger_job_never_needs_less(first: float, second: float) -> None:
    smaller, larger = sorted((first, second))
    for engine in ("diffusers", "vllm-omni"):
        assert Workload(smaller, True, True).peak_gib(engine) <= Workload(larger, True, True).peak_gib(engine)


def test_a_job_larger_than_the_workers_is_refused_when_it_is_planned() -> None:
    plans = {"H100": ParallelPlan(), "L40S": ParallelPlan()}
    refuse_large_generation(settled({"resolution": "480p", "num_frames": 93}), serving(plans), NANO)
    with pytest.raises(Failure, match=r"needs 52 GiB of a GPU, and the workers of cosmos3-nano \(one GPU\) have 44"):
        refuse_large_generation(settled(), serving(plans), NANO)
    error = refusal(plans=plans, engine="vllm-omni")
    assert "needs 52 GiB" in error.message and "g6e.12xlarge" in error.remedy and "p5.4xlarge" in error.remedy
    refuse_large_generation(settled(), serving({"H100": ParallelPlan()}), NANO)


def test_the_types_that_would_do() -> None:
    """Not those where layers would wait in the host's memory."""
    assert instance_types_for(NANO, "vllm-omni", largest("cosmos3-nano")) == [
        *("g6e.12xlarge", "g6e.24xlarge", "g6e.48xlarge", "g7e.2xlarge", "g7e.4xlarge", "g7e.8xlarge", "g7e.12xlarge"),
        *("g7e.24xlarge", "g7e.48xlarge", "p5.4xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"),
    ]  # fmt: skip
    assert instance_types_for(SUPER, "phyai", largest("cosmos3-super")) == [
        *("g6e.48xlarge", "g7e.12xlarge", "g7e.24xlarge", "g7e.48xlarge"),
        *("p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"),
    ]  # fmt: skip


def test_a_pipeline_of_small_videos_makes_small_ones_and_refuses_larger() -> None:
    assert settled(max_resolution="480p").size == (832, 480)
    assert settled({"mode": "policy", "domain_name": "av"}, medium="image", max_resolution="256p").resolution == "256p"
    error = refusal({"resolution": "720p"}, max_resolution="480p")
    assert "larger than this pipeline admits" in error.message and error.remedy == "Use one of: 256p, 480p."
    assert "width, height: 720p" in refusal({"size": "1280x720"}, max_resolution="256p").message
    assert settled({"mode": "t2i", "resolution": "768p"}, max_resolution="256p").size == (1024, 1024)


def test_every_job_that_is_admitted_fits_a_plan_for_the_largest() -> None:
    assert Workload.of(settled({"num_frames": 197}), True).megapixels <= largest("cosmos3-nano").megapixels
    image = Workload.of(settled({"mode": "t2i", "resolution": "768p"}, pipeline="cosmos3-super-text2image"), True)
    assert image.megapixels <= largest("cosmos3-super-text2image").megapixels
    assert Workload.of(settled(EDGE), True).megapixels <= largest("cosmos3-nano").megapixels
    unseen = Workload.of(settled(medium="image"), True)
    assert unseen.megapixels == Workload.of(settled(), True).megapixels

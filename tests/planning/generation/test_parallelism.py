"""Each worker gets the best parallel plan that fits its GPUs, or a refusal with the reason and with alternatives."""

from itertools import product

import pytest

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.hardware import GPUS, INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import GENERATORS, Pipeline, pipeline_named
from cosmos_batch.contract.entries import Objective
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.serving import ParallelPlan, ParallelPlans, Serving
from cosmos_batch.planning.generation.abilities import refuse_large_generation
from cosmos_batch.planning.generation.memory import RESERVE, Host, Workload, gib_per_gpu
from cosmos_batch.planning.generation.parallelism import (
    choose_parallel_plan,
    choose_parallel_plans,
    instance_types_for,
    parallel_plan_for_machine,
    why_not_parallel_plan,
    with_parallel_plans,
)
from cosmos_batch.planning.instance_types import workers_per_instance
from tests.support.generations import refusal, settled

TYPES = ("g6e.12xlarge", "g6e.48xlarge", "p5.4xlarge", "p5.48xlarge", "p5en.48xlarge")

# The number of workers on each instance of `TYPES` and their plan, for vLLM-Omni with guardrails and the largest job of
# each pipeline up to 720p.
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


PIPELINE = {pipeline.id: pipeline for pipeline in GENERATORS}
NANO, SUPER = PIPELINE["cosmos3-nano"], PIPELINE["cosmos3-super"]


def largest(pipeline: str, resolution: str = "720p", guardrails: bool = True) -> Workload:
    """Return the largest workload that a pipeline admits with videos of up to a resolution."""
    return Workload.largest(PIPELINE[pipeline].modes, resolution, guardrails)  # type: ignore[arg-type]


def serving(plans: ParallelPlans) -> Serving:
    return Serving(engine="vllm-omni", guardrails=True, max_resolution="720p", plans=plans)


def chosen_plan(
    pipeline: str, engine: str, *types: str, objective: Objective = "throughput", resolution: str = "720p"
) -> str:
    """Return the number of workers on an instance of the first type, and their plan, as text."""
    catalogue_pipeline = pipeline_named(pipeline)
    assert catalogue_pipeline is not None
    workload = largest(pipeline, resolution)
    plan = choose_parallel_plan(catalogue_pipeline, engine, [Host.of_type(name) for name in types], workload, objective)
    return f"{_workers(catalogue_pipeline, engine, plan, workload, types[0])} x {plan}"


def _workers(pipeline: Pipeline, engine: str, plan: ParallelPlan, workload: Workload, instance_type: str) -> int:
    gpu = INSTANCE_TYPES[instance_type].gpu
    return workers_per_instance(with_parallel_plans(pipeline, engine, {gpu: plan}, workload), instance_type)


def plans_for_types(pipeline: str, *types: str, engine: str = "vllm-omni") -> dict[str, str]:
    """Return the plan for each GPU model of these instance types, as text."""
    catalogue_pipeline = pipeline_named(pipeline)
    assert catalogue_pipeline is not None
    plans = choose_parallel_plans(catalogue_pipeline, engine, types, largest(pipeline), "throughput")
    return {gpu: str(plan) for gpu, plan in plans.items()}


def test_vllm_omni_has_the_plans_of_the_table() -> None:
    objective: Objective = "throughput"
    for line in CHOSEN.strip().splitlines():
        if line in ("throughput", "latency"):
            objective = line  # type: ignore[assignment]
            continue
        pipeline, _, plans = line.partition(" ")
        expected = [plan.strip() for plan in plans.split("|")]
        assert [chosen_plan(pipeline, "vllm-omni", name, objective=objective) for name in TYPES] == expected, pipeline


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
def test_other_engines_have_plans_that_they_can_run(
    engine: str, pipeline: str, instance_type: str, objective: Objective, expected: str
) -> None:
    assert chosen_plan(pipeline, engine, instance_type, objective=objective) == expected


def test_a_smaller_largest_job_fits_more_workers_onto_an_instance() -> None:
    assert chosen_plan("cosmos3-nano", "vllm-omni", "g6e.12xlarge", resolution="256p") == "4 x one GPU"
    assert chosen_plan("cosmos3-super", "vllm-omni", "p5.48xlarge", resolution="256p") == "4 x tp 2"


def test_several_types_share_a_number_of_gpus_and_have_a_plan_for_each_gpu_model() -> None:
    plans = plans_for_types("cosmos3-nano", "g6e.12xlarge", "g6e.24xlarge", "p5.4xlarge")
    assert plans == {"L40S": "one GPU, offload", "H100": "one GPU"}
    assert plans_for_types("cosmos3-super", "g6e.12xlarge", "p5.48xlarge") == {"L40S": "tp 4, offload", "H100": "tp 4"}
    assert plans_for_types("cosmos3-nano", "p5.48xlarge", "g6e.12xlarge") == {
        "H100": "one GPU",
        "L40S": "one GPU, offload",
    }
    assert plans_for_types("cosmos3-nano", "g6e.12xlarge", "g6e.24xlarge") == {"L40S": "tp 2"}


def test_types_without_a_common_number_of_gpus_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no number of GPUs for all of the types: tp 2 on g6e\.12xlarge, one GPU"):
        plans_for_types("cosmos3-nano", "g6e.12xlarge", "p5.4xlarge", engine="phyai")


def test_a_pipeline_reserves_the_gpus_that_its_plans_use() -> None:
    catalogue_pipeline, workload = pipeline_named("cosmos3-super"), largest("cosmos3-super")
    assert catalogue_pipeline is not None
    for types, gpus, memory in [(["p5.48xlarge"], 4, 80), (["p5en.48xlarge"], 2, 96), (["g6e.48xlarge"], 8, 48)]:
        plans = choose_parallel_plans(catalogue_pipeline, "vllm-omni", types, workload, "throughput")
        after = with_parallel_plans(catalogue_pipeline, "vllm-omni", plans, workload)
        assert (after.gpus_per_worker, after.min_gpu_memory_gb, after.id) == (gpus, memory, catalogue_pipeline.id)


@pytest.mark.parametrize(
    ("engine", "pipeline", "instance_type", "message"),
    [
        ("diffusers", "cosmos3-super", "g6e.12xlarge", "needs 119 GiB of the host's memory, its share .* is 88; it has "
         "one for p6-b200.48xlarge, and with offload to the host's memory for .*p5.4xlarge"),
        ("phyai", "cosmos3-super", "g6e.12xlarge", "tp 4 needs 59.8 GiB of a GPU, g6e.12xlarge has 43.6; it "
         "has one for g7e.12xlarge, g7e.24xlarge, g7e.48xlarge, p5.48xlarge, p5en.48xlarge"),
        ("cosmos-framework", "cosmos3-super", "p5.4xlarge", "one GPU needs 145.5 GiB of a GPU, p5.4xlarge has 77.2"),
        ("phyai", "cosmos3-super-text2image", "p5.48xlarge", "none of the modes of .*: t2i; no known instance type"),
        ("phyai", "cosmos3-nano", "g6.12xlarge", "needs 35.8 GiB of a GPU, g6.12xlarge has 21.8; .*g6e.12xlarge"),
    ],
)  # fmt: skip
def test_a_type_without_a_plan_is_refused_with_the_reason_and_alternatives(
    engine: str, pipeline: str, instance_type: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plans_for_types(pipeline, instance_type, engine=engine)


@pytest.mark.parametrize(
    ("plan", "engine", "message"),
    [
        ({"tp": 4, "ulysses": 4}, "vllm-omni", "tp x ulysses is 16"),
        ({"tp": 2}, "diffusers", "does not share by tp"),
        ({"ulysses": 2}, "phyai", "does not share by ulysses"),
        ({"tp": 2, "cfg": 2}, "cosmos-framework", "not both"),
        ({"offload": True}, "phyai", "no offload"),
        ({"tp": 3}, "vllm-omni", "do not fill the 8"),
    ],
)
def test_a_plan_that_the_engine_or_the_host_cannot_run_has_a_reason(
    plan: dict[str, int], engine: str, message: str
) -> None:
    host = Host.of_type("p5.48xlarge")
    reason = why_not_parallel_plan(ParallelPlan.model_validate(plan), NANO, engine, host, largest("cosmos3-nano"))
    assert reason is not None and message in reason


def test_without_guidance_no_plan_separates_the_negative_prompt() -> None:
    actions = Workload.largest(("policy", "inverse_dynamics"), "480p", guardrails=True)
    assert not actions.guided
    assert (
        str(choose_parallel_plan(NANO, "vllm-omni", [Host.of_type("p5.48xlarge")], actions, "latency")) == "ulysses 8"
    )


@pytest.mark.parametrize(
    ("pipeline", "engine", "objective", "name"),
    list(product(PIPELINE, GENERATOR_ABILITIES, ("throughput", "latency"), TYPES)),
)
def test_a_chosen_plan_uses_every_gpu_that_it_reserves_and_fits(
    pipeline: str, engine: str, objective: Objective, name: str
) -> None:
    catalogue_pipeline, instance = pipeline_named(pipeline), INSTANCE_TYPES[name]
    assert catalogue_pipeline is not None
    try:
        plan = choose_parallel_plan(catalogue_pipeline, engine, [Host.of_type(name)], largest(pipeline), objective)
    except ValueError:
        return
    workers = _workers(catalogue_pipeline, engine, plan, largest(pipeline), name)
    assert workers * plan.tp * plan.cfg * plan.ulysses == instance.gpus
    need = gib_per_gpu(plan, catalogue_pipeline, engine, largest(pipeline))
    assert need <= GPUS[instance.gpu].memory_gib * (1 - RESERVE)


@pytest.mark.parametrize(
    ("engine", "gpus", "gib", "expected"),
    [
        ("vllm-omni", 1, 80.0, "one GPU"),  # an A100
        ("vllm-omni", 1, 40.0, "one GPU, offload"),
        ("vllm-omni", 2, 48.0, "tp 2"),
        ("vllm-omni", 1, 16.0, "one GPU, offload"),  # too small for the largest job, but a small one may fit
        ("phyai", 1, 16.0, "one GPU"),
    ],
)
def test_an_unknown_gpu_has_a_plan_by_its_own_memory(engine: str, gpus: int, gib: float, expected: str) -> None:
    workload = largest("cosmos3-nano", guardrails=False)
    assert str(parallel_plan_for_machine(NANO, engine, Host("mine", gpus, gib, 256), workload)) == expected


@pytest.mark.parametrize(("resolution", "without", "guarded"), [("720p", 51, 53), ("480p", 47, 49), ("256p", 41, 43)])
def test_layers_are_offloaded_below_the_memory_that_the_page_names(resolution: str, without: int, guarded: int) -> None:
    """The page is `docs/generator.md`."""
    for guardrails, gib in ((False, without), (True, guarded)):
        workload = largest("cosmos3-nano", resolution, guardrails)
        plans = [
            parallel_plan_for_machine(NANO, "diffusers", Host("mine", 1, one, 256), workload) for one in (gib - 1, gib)
        ]
        assert [str(plan) for plan in plans] == ["one GPU, offload", "one GPU"]


def test_a_machine_whose_gpus_the_engine_cannot_share_is_refused() -> None:
    for engine, gpus, message in (("vllm-omni", 3, "no plan for 3 GPUs"), ("diffusers", 2, "does not share by")):
        with pytest.raises(ValueError, match=message):
            parallel_plan_for_machine(NANO, engine, Host("mine", gpus, 80, 256), largest("cosmos3-nano"))


def test_a_generation_too_large_for_the_workers_is_refused() -> None:
    plans = {"H100": ParallelPlan(), "L40S": ParallelPlan()}
    refuse_large_generation(settled({"resolution": "480p", "num_frames": 93}), serving(plans), NANO)
    with pytest.raises(Failure, match=r"needs 52 GiB of a GPU, and the workers of cosmos3-nano \(one GPU\) have 44"):
        refuse_large_generation(settled(), serving(plans), NANO)
    error = refusal(plans=plans, engine="vllm-omni")
    assert "needs 52 GiB" in error.message and "g6e.12xlarge" in error.remedy and "p5.4xlarge" in error.remedy
    refuse_large_generation(settled(), serving({"H100": ParallelPlan()}), NANO)


def test_suitable_types_are_those_without_offload() -> None:
    assert instance_types_for(NANO, "vllm-omni", largest("cosmos3-nano")) == [
        *("g6e.12xlarge", "g6e.24xlarge", "g6e.48xlarge", "g7e.2xlarge", "g7e.4xlarge", "g7e.8xlarge", "g7e.12xlarge"),
        *("g7e.24xlarge", "g7e.48xlarge", "p5.4xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"),
    ]  # fmt: skip
    assert instance_types_for(SUPER, "phyai", largest("cosmos3-super")) == [
        *("g7e.12xlarge", "g7e.24xlarge", "g7e.48xlarge"),
        *("p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"),
    ]  # fmt: skip

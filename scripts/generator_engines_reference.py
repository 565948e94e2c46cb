"""Write the tables of `docs/generator-engines.md`: how GPUs share a job. `make docs` runs this."""

import sys
from pathlib import Path

from generator_reference import GENERATORS
from tables import filled, line, table

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.entries import GeneratorEntry, Objective
from cosmos_batch.planning.configuration import check_entry
from cosmos_batch.planning.deployment import choose_instance_types, parallel_plans, planned_pipeline
from cosmos_batch.planning.instance_types import workers_per_instance

TARGET = Path(__file__).resolve().parent.parent / "docs" / "generator-engines.md"
TYPES = (
    *("g6e.12xlarge", "g6e.48xlarge", "g7e.12xlarge", "g7e.48xlarge"),
    *("p5.4xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"),
)


def page(text: str) -> str:
    """Return the page with its tables regenerated."""
    tables = {
        "default-plans": _default_plans(),
        "plans": _plans("throughput"),
        "latency-plans": _plans("latency"),
    }
    return filled(text, tables)


def _plans(objective: Objective) -> str:
    rows = [line(f"`{pipeline.id}`", *(_plan(pipeline, name, objective) for name in TYPES)) for pipeline in GENERATORS]
    return table(line("pipeline", *TYPES), rows)


def _default_plans() -> str:
    """Return the plans of a configuration that enables a pipeline and sets nothing else."""
    rows = []
    for pipeline in GENERATORS:
        entry = GeneratorEntry()
        plans = parallel_plans(entry, pipeline)
        worker = "; ".join(f"{gpu}: {plan}" for gpu, plan in plans.items())
        types = ", ".join(choose_instance_types(entry, pipeline).names)
        rows.append(line(f"`{pipeline.id}`", types, planned_pipeline(entry, pipeline).gpus_per_worker, worker))
    return table("| pipeline | instance types, the preferred first | GPUs of a worker | plan |", rows)


def _plan(pipeline: Pipeline, instance_type: str, objective: Objective) -> str:
    entry = GeneratorEntry(
        enabled=True, instance_types=[instance_type], fallback_instance_types=[], objective=objective
    )
    check_entry(entry, pipeline)
    workers = workers_per_instance(planned_pipeline(entry, pipeline), instance_type)
    return f"{workers} x ({', '.join(map(str, parallel_plans(entry, pipeline).values()))})"


if __name__ == "__main__":
    sys.exit(TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8") and 0)

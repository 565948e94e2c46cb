"""Look up the deployed workers of each pipeline: their GPUs, their number, and their pace as it was measured."""

from math import isclose

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import Pipeline, pipeline_named
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.environment import DeployedPipeline
from cosmos_batch.contract.runs import RunSummary
from cosmos_batch.planning.pace import first_seconds_per_unit
from cosmos_batch.planning.runs.estimate import FIRST_COLD_START_SECONDS, WorkerFacts
from cosmos_batch.planning.runs.question_work import ANSWER_TOKENS, REFERENCE_TOKENS
from cosmos_batch.state import PipelineRow

PACE_OF_LAST_JOBS = "the pace of its last jobs"
_RUNS_LOOKED_AT = 20
_FEWEST_ITEMS = 20  # the fewest items that must have succeeded in a run whose pace is used


def worker_facts(deployment: Deployment, name: str, deployed: DeployedPipeline | None) -> WorkerFacts:
    """Return the workers of a pipeline with the best known pace: its last run's, its last jobs', or a guess."""
    pipeline = pipeline_named(name)
    assert pipeline is not None, "it was chosen among the deployed ones"
    row = deployment.workers(name).pipeline()
    gpu, gpus, per_hour, most, per_instance = _hardware(pipeline, deployed)
    seconds, basis = _pace(deployment, pipeline, row, gpu, gpus)
    return WorkerFacts(
        pipeline=name,
        gpu=gpu,
        gpus=gpus,
        dollars_per_hour=per_hour,
        max_workers=most,
        seconds_per_unit=seconds,
        basis=basis,
        workers_per_instance=per_instance,
        cold_start_seconds=row.cold_start_seconds or FIRST_COLD_START_SECONDS,
    )


def _hardware(pipeline: Pipeline, deployed: DeployedPipeline | None) -> tuple[str, int, float, int, int]:
    """Return kind and number of a worker's GPUs, its dollars an hour, and how many there are, in all and a host."""
    names = deployed.compute.instance_types if deployed else []
    instance = INSTANCE_TYPES[next((name for name in names if name in INSTANCE_TYPES), pipeline.instance_types[0])]
    gpus = deployed.compute.gpus if deployed else pipeline.gpus_per_worker
    most = deployed.compute.max_workers if deployed else 1
    return instance.gpu, gpus, instance.dollars_per_hour / instance.gpus * gpus, most, max(1, instance.gpus // gpus)


def _pace(deployment: Deployment, pipeline: Pipeline, row: PipelineRow, gpu: str, gpus: int) -> tuple[float, str]:
    """Return a worker's seconds for a unit of work, and where the number comes from."""
    if pipeline.surface == "reasoner" and (summary := _last_summary(deployment, pipeline.id)) is not None:
        return pace_of_run(summary, gpus), f"the pace of {summary.id}"
    guess = first_seconds_per_unit(pipeline.id, gpu, gpus)
    # `scale` writes the guess into the row of a new pipeline, before the first job has run.
    if row.seconds_per_unit is None or isclose(row.seconds_per_unit, guess):
        return guess, "a first guess, until a run has measured it"
    return row.seconds_per_unit, PACE_OF_LAST_JOBS


def pace_of_run(summary: RunSummary, gpus: int) -> float:
    """Return how many seconds a worker took for a unit of work in a run.

    The run must have used one pipeline alone, because its sums do not tell pipelines apart.
    """
    tokens = summary.prompt_tokens + ANSWER_TOKENS * summary.succeeded
    return summary.gpu_seconds / gpus / (tokens / (ANSWER_TOKENS + REFERENCE_TOKENS))


def _last_summary(deployment: Deployment, pipeline: str) -> RunSummary | None:
    """Return the summary of the last run of this pipeline alone, if it says how long an item takes."""
    for number, run in enumerate(deployment.runs.list()):
        if number == _RUNS_LOOKED_AT:
            break
        if run.pipelines != [pipeline] or run.state != "SUCCEEDED":
            continue
        summary = StoredRun(deployment.clients("s3"), deployment.state_bucket, run.id).summary()
        if summary is not None and summary.succeeded >= _FEWEST_ITEMS and not summary.reused and summary.gpu_seconds:
            return summary if summary.prompt_tokens else None
    return None

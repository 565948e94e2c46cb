"""The plan of a simulated run, which sees a sample of its clips and the pace of another run, beside what it took."""

from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.simulation.clips import MIXED, SHORT, tokens_of
from benchmarks.simulation.runs import INSTANCE_TYPE, PIPELINE, RunOutcome, RunSimulation
from benchmarks.simulation.worker import COLD_START_SECONDS
from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.cli.runs.header_sample import SAMPLE_SIZE, Sample
from cosmos_batch.cli.runs.worker_facts import pace_of_run
from cosmos_batch.contract.runs import RunItem, RunSummary
from cosmos_batch.planning.runs.estimate import WorkerFacts, estimate_pipeline, mean_and_error
from cosmos_batch.planning.runs.question_work import work_of_question

ANOTHER_RUN_ITEMS, ANOTHER_RUN_WORKERS, ANOTHER_SEED = 20_000, 4, 100
ANSWER_TOKENS = 256


@dataclass(frozen=True)
class Planned:
    """The hours and the dollars that a plan expects of a run with the most workers."""

    hours: float
    dollars: float
    error_share: float | None


def pace_of_another_run() -> float:
    """Return the seconds for a unit of work that an earlier run over shorter clips has measured."""
    outcome = RunSimulation(ANOTHER_RUN_ITEMS, ANOTHER_RUN_WORKERS, ANOTHER_SEED, SHORT).run()
    tokens = sum(map(tokens_of, SHORT.clips(ANOTHER_RUN_ITEMS, ANOTHER_SEED)))
    now = datetime.now(UTC)
    summary = RunSummary(
        id="another",
        state="SUCCEEDED",
        items=outcome.items,
        succeeded=outcome.items,
        failed=0,
        cancelled=0,
        reused=0,
        prompt_tokens=int(tokens),
        completion_tokens=outcome.items * ANSWER_TOKENS,
        gpu_seconds=outcome.whole.ready - outcome.whole.idle,
        started_at=now,
        ended_at=now,
    )
    return pace_of_run(summary, gpus=1)


def plan_of(items: int, workers: int, seconds_per_unit: float, seed: int = 1) -> Planned:
    """Plan a run over the mixed clips of a seed from `SAMPLE_SIZE` of them, as `runs plan` does."""
    sample = Sample()
    for number in range(items):
        sample.add(RunItem(id=str(number)))
    chosen = {int(item.id) for item in sample.items}
    works = [
        work_of_question(tokens_of(clip)) for number, clip in enumerate(MIXED.clips(items, seed)) if number in chosen
    ]
    assert len(works) == min(items, SAMPLE_SIZE)
    work, error = mean_and_error(works)
    instance = INSTANCE_TYPES[INSTANCE_TYPE]
    facts = WorkerFacts(
        pipeline=PIPELINE,
        gpu="L40S",
        gpus=1,
        dollars_per_hour=instance.dollars_per_hour / instance.gpus,
        max_workers=workers,
        seconds_per_unit=seconds_per_unit,
        basis="the pace of another run",
        cold_start_seconds=COLD_START_SECONDS,
        workers_per_instance=instance.gpus,
    )
    estimate = estimate_pipeline(facts, items, work)
    return Planned(estimate.hours, estimate.gpu_dollars + estimate.starting_dollars, error)


def deviation(planned: float, taken: float) -> float:
    """Return by which share a plan was too high; a negative one was too low."""
    return planned / taken - 1


def compare(outcome: RunOutcome, seconds_per_unit: float) -> tuple[Planned, float, float]:
    """Return the plan of a simulated run, and by how much its hours and its dollars differ."""
    planned = plan_of(outcome.items, outcome.max_workers, seconds_per_unit)
    return (
        planned,
        deviation(planned.hours, outcome.finished_at / 3600),
        deviation(planned.dollars, outcome.dollars),
    )

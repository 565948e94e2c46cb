"""Estimate what a run will take and cost, from counts, a probed sample and the pace of workers."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from cosmos_batch.catalogue.hardware import PRICES_AS_OF
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.runs import ItemEstimate

# From the start of a worker until it is asked to serve, where none has measured it, and until it leaves without work.
FIRST_COLD_START_SECONDS = 600.0
IDLE_SECONDS = 300.0
# `scale` starts as many workers as do all the work within this time (`scaling.targetDrainSeconds`).
TARGET_DRAIN_SECONDS = 600.0


@dataclass(frozen=True)
class WorkerFacts:
    """The workers of one pipeline, as they are deployed and as they were measured.

    Attributes
    ----------
    gpu, gpus
        Kind and number of the GPUs of one worker.
    dollars_per_hour
        The price of one worker: its share of an instance of the preferred type.
    max_workers
        How many run at most.
    seconds_per_unit
        A fully loaded worker's seconds for a unit of work.
    basis
        Where that number comes from, as the end of a sentence.
    cold_start_seconds
        From its start to a loaded model.
    workers_per_instance
        How many fill an instance of the preferred type, all of which is paid.
    """

    pipeline: str
    gpu: str
    gpus: int
    dollars_per_hour: float
    max_workers: int
    seconds_per_unit: float
    basis: str
    cold_start_seconds: float = FIRST_COLD_START_SECONDS
    workers_per_instance: int = 1


class PipelineEstimate(Model):
    """The estimated work, time and price of one pipeline's items."""

    pipeline: str
    items: int = Field(description="Items that it has to answer; those that are done already are left out")
    gpu: str = Field(description="Kind and number of the GPUs of one worker, such as 1 x L40S")
    basis: str = Field(description="Where the pace comes from")
    worker_hours: float = Field(description="Hours of fully loaded workers")
    gpu_hours: float = Field(description="The same times the GPUs of a worker")
    gpu_dollars: float = Field(description="Price of those hours")
    starting_dollars: float = Field(
        description="Price of the workers' starts, of their idle minutes at the end, and of GPUs of their instances "
        "that no worker uses"
    )
    workers: int = Field(description="Workers that will be started")
    max_workers: int = Field(description="Workers that the configuration allows")
    hours: float = Field(description="From the start to the last answer with the most workers, a cold start included")
    hours_with_workers: float | None = Field(default=None, description="The same with the number that was asked for")


class RunEstimate(Model):
    """The estimated time and price of a whole run."""

    files: int = Field(description="Inputs")
    items: int = Field(description="Requests: inputs times prompts, seeds and pipelines")
    prompts: int = Field(default=0, description="Inputs that are a prompt without a file")
    bytes: int = Field(description="Of all inputs whose size is known")
    left_out: dict[str, int] = Field(default_factory=dict, description="Files that are not taken, by why")
    left_out_names: dict[str, list[str]] = Field(default_factory=dict, description="The first of these files, by why")
    unchecked: int = Field(default=0, description="Named files that were not looked at, because they are too many")
    uploads: int = Field(default=0, description="Files of this machine to be uploaded")
    upload_bytes: int = Field(default=0, description="Of these files")
    copies: int = Field(default=0, description="Files at https addresses to be copied to S3")
    probed: int = Field(default=0, description="Files of the sample whose length and size in pixels were read")
    unreadable: int = Field(default=0, description="Files of the sample that are damaged, or could not be read")
    video_seconds: float = Field(default=0.0, description="Of all videos, from the sample")
    error_share: float | None = Field(
        default=None, description="Twice the sample's standard error: the work is that close in 95 of 100 cases"
    )
    done: int = Field(default=0, description="Items that an earlier run has answered: they cost nothing")
    done_by: str | None = Field(default=None, description="That run")
    pipelines: list[PipelineEstimate] = Field(default_factory=list)
    gpu_dollars: float = 0.0
    starting_dollars: float = 0.0
    orchestration_dollars: float = 0.0
    storage_dollars_per_month: float = 0.0
    dollars: float = Field(default=0.0, description="GPUs, starts and orchestration, without storage")
    hours: float = Field(default=0.0, description="To the last answer, with the most workers of each pipeline")
    hours_with_workers: float | None = Field(default=None, description="With the number of workers that was asked for")
    prices: str = PRICES_AS_OF


def estimate_pipeline(
    facts: WorkerFacts, items: int, work_per_item: float, asked_workers: int | None = None
) -> PipelineEstimate:
    """Return the estimate for one pipeline, which has `items` to answer.

    `asked_workers` is a number of workers for which the person wants to know the time too.
    """
    seconds = items * work_per_item * facts.seconds_per_unit
    most = max(1, min(facts.max_workers, items))
    started = 0 if items == 0 else max(1, min(most, math.ceil(seconds / TARGET_DRAIN_SECONDS)))
    per_hour = facts.dollars_per_hour
    return PipelineEstimate(
        pipeline=facts.pipeline,
        items=items,
        gpu=f"{facts.gpus} x {facts.gpu}",
        basis=facts.basis,
        worker_hours=seconds / 3600,
        gpu_hours=seconds * facts.gpus / 3600,
        gpu_dollars=seconds / 3600 * per_hour,
        starting_dollars=_unused_seconds(facts, started, seconds) / 3600 * per_hour,
        workers=started,
        max_workers=facts.max_workers,
        hours=_hours(seconds, most, facts, items),
        hours_with_workers=None if asked_workers is None else _hours(seconds, asked_workers, facts, items),
    )


def item_estimate(estimate: RunEstimate) -> ItemEstimate:
    """Return the GPU-seconds that one item is expected to take on each pipeline that has items to answer."""
    return ItemEstimate(
        gpu_seconds={part.pipeline: part.gpu_hours * 3600 / part.items for part in estimate.pipelines if part.items}
    )


def _unused_seconds(facts: WorkerFacts, started: int, seconds: float) -> float:
    """Return the seconds of workers that are paid and compute nothing. `seconds` is the work of all of them."""
    if started == 0:
        return 0.0
    paid = math.ceil(started / facts.workers_per_instance) * facts.workers_per_instance
    return paid * (facts.cold_start_seconds + IDLE_SECONDS) + (paid - started) * seconds / started


def _hours(seconds: float, workers: int, facts: WorkerFacts, items: int) -> float:
    if items == 0:
        return 0.0
    return (facts.cold_start_seconds + seconds / min(workers, items)) / 3600


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean of a sample, and twice its standard error as a share of the mean; None for one value."""
    mean = statistics.fmean(values)
    if len(values) < 2 or mean == 0:
        return mean, None
    return mean, 2 * statistics.stdev(values) / math.sqrt(len(values)) / mean

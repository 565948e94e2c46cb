"""The CloudWatch dashboard: from top to bottom results, queues, workers, phases, failures, starts and costs."""

from collections.abc import Sequence
from typing import get_args

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES, PRICES_AS_OF
from cosmos_batch.contract import metrics
from cosmos_batch.contract.error import ErrorCode
from cosmos_batch.planning.deployment import EnabledPipeline
from cosmos_batch.planning.instance_types import workers_per_instance
from infra.constructs.metrics import pipeline_metric
from infra.constructs.pipeline import PipelineResources

HALF, HEIGHT = 12, 6


class Dashboard(Construct):
    """The dashboard of the app, for all pipelines."""

    def __init__(
        self, scope: Construct, construct_id: str, pipelines: Sequence[PipelineResources], machine: sfn.IStateMachine
    ) -> None:
        super().__init__(scope, construct_id)
        names = [pipeline.id for pipeline in pipelines]
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            default_interval=Duration.hours(6),
            widgets=[
                [_results(names), _executions(machine)],
                [_backlog(names), _age(pipelines)],
                [_workers(names), _instances(pipelines)],
                [_phases(name) for name in names],
                [_failures(name) for name in [*names, metrics.UNKNOWN]],
                [_start(name) for name in names],
                [_stops(names), _cost(pipelines)],
            ],
        )


def _graph(title: str, left: Sequence[cloudwatch.IMetric], width: int = HALF) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(left), width=width, height=HEIGHT)


def _results(names: Sequence[str]) -> cloudwatch.GraphWidget:
    outcomes = (metrics.SUCCEEDED, metrics.FAILED)
    return _graph(
        "Jobs ended",
        [pipeline_metric(outcome, name, "Sum") for name in [*names, metrics.UNKNOWN] for outcome in outcomes],
    )


def _executions(machine: sfn.IStateMachine) -> cloudwatch.GraphWidget:
    return _graph(
        "Executions",
        [machine.metric_started(), machine.metric_succeeded(), machine.metric_failed(), machine.metric_throttled()],
    )


def _backlog(names: Sequence[str]) -> cloudwatch.GraphWidget:
    return _graph("Jobs that wait or are being done", [pipeline_metric(metrics.BACKLOG, name) for name in names])


def _age(pipelines: Sequence[PipelineResources]) -> cloudwatch.GraphWidget:
    return _graph(
        "Age of the oldest job, seconds",
        [pipeline.queue.queue.metric_approximate_age_of_oldest_message(label=pipeline.id) for pipeline in pipelines],
    )


def _workers(names: Sequence[str]) -> cloudwatch.GraphWidget:
    kinds = (metrics.WANTED_WORKERS, metrics.LIVE_WORKERS)
    return _graph("Workers, wanted and live", [pipeline_metric(kind, name) for name in names for kind in kinds])


def _instances(pipelines: Sequence[PipelineResources]) -> cloudwatch.GraphWidget:
    return _graph(
        "GPU instances, if full and of the preferred type",
        [
            _per_worker(pipeline, 1 / _workers_each(pipeline.enabled), f"{pipeline.id} instances")
            for pipeline in pipelines
        ],
    )


def _phases(name: str) -> cloudwatch.GraphWidget:
    return _graph(
        f"{name}: seconds of a job by phase",
        [
            pipeline_metric(metrics.PHASE_SECONDS, name, statistic, f"{phase} {statistic}", **{metrics.PHASE: phase})
            for phase in metrics.PHASES
            for statistic in ("p50", "p90")
        ],
    )


def _start(name: str) -> cloudwatch.GraphWidget:
    return _graph(
        f"{name}: seconds of a worker's start by phase",
        [
            pipeline_metric(metrics.START_SECONDS, name, "p50", phase, **{metrics.PHASE: phase})
            for phase in (*metrics.START_PHASES, *metrics.ENGINE_START_PHASES)
        ],
    )


def _failures(name: str) -> cloudwatch.GraphWidget:
    return _graph(
        f"{name}: failures by code",
        [pipeline_metric(metrics.FAILED, name, "Sum", code, **{metrics.CODE: code}) for code in get_args(ErrorCode)],
    )


def _stops(names: Sequence[str]) -> cloudwatch.GraphWidget:
    kinds = (metrics.BREAKER_OPEN, metrics.STUCK_WORKERS, metrics.DEAD_LETTERS, metrics.FOREIGN_TOKENS)
    return _graph(
        "Breaker, stuck workers, dead letters, foreign tokens",
        [pipeline_metric(kind, name) for name in names for kind in kinds],
    )


def _cost(pipelines: Sequence[PipelineResources]) -> cloudwatch.GraphWidget:
    hourly = [
        _per_worker(
            pipeline,
            INSTANCE_TYPES[pipeline.enabled.instance_types[0]].dollars_per_hour / _workers_each(pipeline.enabled),
            f"{pipeline.id} $/h",
        )
        for pipeline in pipelines
    ]
    return _graph(f"Estimated cost of GPUs, $ an hour ({PRICES_AS_OF})", hourly)


def _per_worker(pipeline: PipelineResources, factor: float, label: str) -> cloudwatch.MathExpression:
    workers = f"workers_{pipeline.id.replace('-', '_')}"
    return cloudwatch.MathExpression(
        expression=f"{workers} * {factor:.6g}",
        using_metrics={workers: pipeline_metric(metrics.RUNNING_WORKERS, pipeline.id)},
        label=label,
        period=Duration.minutes(1),
    )


def _workers_each(enabled: EnabledPipeline) -> int:
    return workers_per_instance(enabled.pipeline, enabled.instance_types[0])

"""Refer to our metrics in alarms and dashboards."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from cosmos_batch.contract import metrics

PERIOD = Duration.minutes(1)


def pipeline_metric(
    name: str, pipeline: str, statistic: str = "Maximum", label: str | None = None, **dimensions: str
) -> cloudwatch.Metric:
    """Return a metric of one pipeline; `name` is its name in `contract/metrics.py`."""
    return cloudwatch.Metric(
        namespace=metrics.NAMESPACE,
        metric_name=name,
        dimensions_map={metrics.PIPELINE: pipeline, **dimensions},
        statistic=statistic,
        period=PERIOD,
        label=label or f"{pipeline} {name}",
    )

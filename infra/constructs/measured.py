"""Our metrics as CDK takes them."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from cosmos_batch.contract import metrics

PERIOD = Duration.minutes(1)


def measured(
    name: str, pipeline: str, statistic: str = "Maximum", label: str | None = None, **dimensions: str
) -> cloudwatch.Metric:
    """A metric of one pipeline, by its name in `contract/metrics.py`."""
    return cloudwatch.Metric(
        namespace=metrics.NAMESPACE,
        metric_name=name,
        dimensions_map={metrics.PIPELINE: pipeline, **dimensions},
        statistic=statistic,
        period=PERIOD,
        label=label or f"{pipeline} {name}",
    )

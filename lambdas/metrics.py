"""Metrics, by the names of `cosmos_batch.contract.metrics`."""

import json
from collections.abc import Mapping

from cosmos_batch.contract.metrics import embedded
from lambdas.log import print_line


def measure(pipeline: str, values: Mapping[str, float], unit: str = "Count", **dimensions: str) -> None:
    """Metrics of a pipeline, as a log line."""
    print_line(json.dumps(embedded(pipeline, values, unit, **dimensions)))

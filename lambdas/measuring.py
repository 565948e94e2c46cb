"""Metrics, by the names of `cosmos_batch.contract.metrics`."""

import json
from collections.abc import Mapping

from cosmos_batch.contract.metrics import embedded


def measure(pipeline: str, values: Mapping[str, float], unit: str = "Count", **dimensions: str) -> None:
    """Metrics of a pipeline, as a log line."""
    print(json.dumps(embedded(pipeline, values, unit, **dimensions)), flush=True)

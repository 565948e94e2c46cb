"""Metrics, by the names of `cosmos_batch.contract.metrics`."""

import json
import time
from collections.abc import Mapping

from cosmos_batch.contract.metrics import NAMESPACE, PIPELINE


def measure(pipeline: str, values: Mapping[str, float], unit: str = "Count", **dimensions: str) -> None:
    """Metrics of a pipeline, in CloudWatch's embedded metric format: a log line that needs no call and no right.

    With more `dimensions` they are kept for these alone, beside those of the whole pipeline.
    """
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [[PIPELINE, *dimensions]],
        "Metrics": [{"Name": name, "Unit": unit} for name in values],
    }
    embedded = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
    print(json.dumps({"_aws": embedded, PIPELINE: pipeline, **dimensions, **values}), flush=True)

"""Write CloudWatch metrics, by the names of `cosmos_batch.contract.metrics`, as log lines that CloudWatch extracts."""

import json
from collections.abc import Mapping

from cosmos_batch.contract.metrics import embedded
from lambdas.log import print_line


def measure(pipeline: str, values: Mapping[str, float], unit: str = "Count", **dimensions: str) -> None:
    """Write metrics of a pipeline, in CloudWatch's embedded metric format."""
    print_line(json.dumps(embedded(pipeline, values, unit, **dimensions)))

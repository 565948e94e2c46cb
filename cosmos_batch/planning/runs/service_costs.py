"""Compute what AWS's services around the GPUs cost for the items of a run, by how often each is called.

The counts are those of `benchmarks/runs/items.py`: a run of 1,000 items on the local cloud (docs/benchmarks.md).
"""

from cosmos_batch.catalogue.prices import PRICES

# By the name of the price, the units for each item. What is spent once for a shard of 250 items is contained.
UNITS_PER_ITEM = {
    "dynamodb.write": 11.1,
    "s3.put": 1.015,
    "events.published": 0.991,
    "sqs.request": 1.705,
    "s3.get": 2.028,
    "lambda.gb_second": 0.05345,
    "dynamodb.read": 4.176,
    "states.transition": 0.031,
    "sqs.fair": 1.678,
    "logs.ingested": 2.797e-07,
    "lambda.request": 0.026,
}
_OF_A_DOCUMENT = ("s3.put", "events.published")  # one unit of each

DOCUMENT_BYTES = 4_000  # bytes of one document together with its lines in the run's table


def orchestration_dollars(items: int, table_only: bool) -> float:
    """Return the dollars that S3, DynamoDB, SQS, Lambda, Step Functions and logs cost for a run of `items`.

    With `table_only` no document is written beside the inputs.
    """
    saved = _OF_A_DOCUMENT if table_only else ()
    return sum(PRICES[name].of((units - (name in saved)) * items) for name, units in UNITS_PER_ITEM.items())


def storage_dollars_per_month(items: int, uploaded_bytes: int) -> float:
    """Return what a month of the documents, and of the inputs that are uploaded, costs."""
    return PRICES["s3.storage"].of((items * DOCUMENT_BYTES + uploaded_bytes) / 1e9)

"""Compute what AWS's services around the GPUs cost for the items of a run, by how often each is called.

The counts are those of `benchmarks/runs_items.py` on the local cloud (docs/benchmarks.md).
"""

from cosmos_batch.catalogue.prices import PRICES
from cosmos_batch.contract.runs import SHARD_ITEMS

# By the name of the price: units for each item, and for each shard.
_PER_ITEM = {
    "s3.put": 2.0,  # the document in the state bucket, and its copy beside the file
    "s3.get": 3.0,  # HEAD when it is planned, GET by the worker, GET of the document for the table
    "events.published": 1.0,  # S3's event of the document
    "dynamodb.write": 9.0,  # the job's row, its document's key, its sending, attempt and end, and the shard's count
    "dynamodb.read": 3.1,
    "sqs.request": 2.6,  # received and deleted by the worker, and the event of an object
    "sqs.fair": 1.6,
    "lambda.gb_second": 0.04,
    "logs.ingested": 0.25e-6,
}
_PER_SHARD = {"s3.put": 6.0, "s3.get": 3.0, "lambda.request": 3.0, "states.transition": 4.0, "dynamodb.write": 10.0}

DOCUMENT_BYTES = 4_000  # the size of a document together with its lines in the run's table


def orchestration_dollars(items: int, shards: int, table_only: bool) -> float:
    """Return what S3, DynamoDB, SQS, Lambda, Step Functions and logs cost for so many items."""
    per_item = {**_PER_ITEM, "s3.put": 1.0, "events.published": 0.0} if table_only else _PER_ITEM
    of_items = sum(PRICES[name].of(units * items) for name, units in per_item.items())
    return of_items + sum(PRICES[name].of(units * shards) for name, units in _PER_SHARD.items())


def shards_of_items(items: int) -> int:
    """Return how many shards so many items of one pipeline become."""
    return -(-items // SHARD_ITEMS)


def storage_dollars_per_month(items: int, uploaded_bytes: int) -> float:
    """Return what a month of the documents, and of the inputs that are uploaded, costs."""
    return PRICES["s3.storage"].of((items * DOCUMENT_BYTES + uploaded_bytes) / 1e9)

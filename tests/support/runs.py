"""The objects of a run, read back."""

import json
from typing import Any

from cosmos_batch.contract.runs import RunItem, ShardRef


def read_shards(s3: Any, bucket: str, run: str) -> list[ShardRef]:
    """Return the entries of a run's `shards.json`."""
    text = s3.get_object(Bucket=bucket, Key=f"runs/{run}/shards.json")["Body"].read()
    return [ShardRef.model_validate(entry) for entry in json.loads(text)]


def read_items(s3: Any, bucket: str, run: str) -> list[RunItem]:
    """Return the items of all shards of a run, in their order."""
    items = []
    for ref in read_shards(s3, bucket, run):
        content = s3.get_object(Bucket=bucket, Key=f"runs/{run}/shards/{ref.shard}.jsonl")["Body"].read()
        lines = content.decode().splitlines()
        assert len(lines) == ref.items
        items += [RunItem.model_validate_json(line) for line in lines]
    return items

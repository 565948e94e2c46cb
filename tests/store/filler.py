"""A worker's part of filling the store, as a process that a test can kill: prints the commit when it has it."""

import logging
import sys
from pathlib import Path

import boto3

from cosmos_batch.store import ModelStore

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    root, bucket, s3_url, model = sys.argv[1:]
    s3 = boto3.client(
        "s3",
        endpoint_url=s3_url,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    print(ModelStore(Path(root), bucket, s3, lambda: None).ensure(model).commit)

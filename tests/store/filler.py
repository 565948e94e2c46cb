"""Fill the store as a worker does, in a process that a test can kill, and print the commit at the end.

With `backup` it then makes the backup. With `die` it kills itself when the copy is complete but not yet published.
"""

import logging
import os
import signal
import sys
from pathlib import Path

import boto3

from cosmos_batch.store import ModelStore


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    root, bucket, s3_url, model, *orders = sys.argv[1:]
    if "die" in orders:
        Path.rename = _die  # type: ignore[method-assign, assignment]
    s3 = boto3.client(
        "s3",
        endpoint_url=s3_url,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    store = ModelStore(Path(root), bucket, s3, lambda: None)
    stored = store.ensure(model)
    print(stored.commit, flush=True)
    if "backup" in orders:
        store.back_up(stored)

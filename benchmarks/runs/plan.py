"""Benchmark of planning a run over a prefix of 100,000 keys, and of writing its shards, on the local cloud's S3.

The server runs in this process, and shares its interpreter with what is measured: on AWS, both would be faster.
Usage: `python -m benchmarks.runs.plan [KEYS]`.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial

from benchmarks.measurement import Measurement, told
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.run_plan import plan_run
from cosmos_batch.cli.runs.run_request import RunSpec
from cosmos_batch.contract.runs import RunRequest
from cosmos_batch.demo.media import sample_clip

KEYS = 100_000
LIMIT_SECONDS = 60
CLIPS, STATE, TABLE = "clips", "state", "state"
PIPELINE = "cosmos-reason2-2b"
ACCOUNT = "123456789012"


def measure(keys: int = KEYS) -> list[Measurement]:
    """Plan a run over `keys` clips of four seconds, and write its shards."""
    with _cloud(keys) as deployment:
        began, cpu_began = time.monotonic(), time.process_time()
        planned = plan_run(deployment, RunSpec([f"s3://{CLIPS}/day/"], RunRequest(id="run", pipelines=[PIPELINE])))
        plan_seconds, cpu_seconds = time.monotonic() - began, time.process_time() - cpu_began
        began = time.monotonic()
        planned.write()
        write_seconds = time.monotonic() - began
        estimate = planned.estimate
        planned.close()
    return [
        Measurement(
            name=f"plan of a run over {keys:,} keys",
            value=f"{plan_seconds:.1f} s ({cpu_seconds:.1f} s of CPU time, the server's included); "
            f"its shards written in {write_seconds:.1f} s",
            limit=f"at most {LIMIT_SECONDS} s",
            met=plan_seconds <= LIMIT_SECONDS and estimate.items == keys and estimate.probed > 0,
            raw={
                "keys": keys,
                "plan_seconds": plan_seconds,
                "cpu_seconds": cpu_seconds,
                "write_seconds": write_seconds,
            },
        )
    ]


@contextmanager
def _cloud(keys: int) -> Iterator[Deployment]:
    """Start moto's server with a bucket of clips, which are put without requests: that would take minutes."""
    import boto3
    from moto.s3.models import s3_backends
    from moto.server import ThreadedMotoServer

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(name, "testing")
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        clients = cache(partial(boto3.client, region_name="us-east-1", endpoint_url=f"http://{host}:{port}"))
        for bucket in (CLIPS, STATE):
            clients("s3").create_bucket(Bucket=bucket)
        clients("dynamodb").create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
            BillingMode="PAY_PER_REQUEST",
        )
        content = _clip()
        backend = s3_backends[ACCOUNT]["aws"]
        for number in range(keys):
            backend.put_object(CLIPS, f"day/{number // 1000:04}/clip {number:06}.mp4", content)
        yield Deployment(
            clients=clients,
            asset_roots=[CLIPS],
            state_machine_arn=f"arn:aws:states:us-east-1:{ACCOUNT}:stateMachine:machine",
            state_table=TABLE,
            state_bucket=STATE,
            pipelines=[PIPELINE],
        )
    finally:
        server.stop()


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runs.plan", description=__doc__)
    parser.add_argument("keys", type=int, nargs="?", default=KEYS)
    return parser.parse_args(arguments)


def _clip() -> bytes:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        return sample_clip(Path(folder) / "clip.mp4").read_bytes()


if __name__ == "__main__":
    asked = parse(sys.argv[1:])
    from cosmos_batch.local.moto_patches import registry

    registry.install_all()  # only in this process: a test that calls `measure` keeps moto as it is
    sys.exit(told(measure(asked.keys)))

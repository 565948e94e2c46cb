"""Compute what AWS's services around the GPUs cost for an item, from list prices and the calls of `items`.

Usage: `python -m benchmarks.runs.cost`, which counts the calls of files that have an execution each, beside those.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measurement import Measurement
from benchmarks.results import kept, measured
from benchmarks.runs.calls import Bill
from benchmarks.runs.deployment import PATIENCE_SECONDS, PROMPT, RunsApp, deployed, small_picture
from cosmos_batch.catalogue.prices import MILLION, PRICES
from tests.support.deployed_app import wait_for

FILES = 100
COUNTED_RUN, SINGLE_FILES = "runs-items-1000", "runs-single-files"
GOAL_DOLLARS = 20.0  # the most that a million items of a run may cost
_S3_PUTS = ("PutObject", "CopyObject", "ListBucket", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")
_WRITES = ("PutItem", "UpdateItem", "DeleteItem")
_GROUPED = ("SendMessageBatch", "SendMessage", "ReceiveMessage", "DeleteMessage", "DeleteMessageBatch")
_FREE = ("batch", "ssm", "lambda", "stepfunctions", "ec2", "cloudwatch", "codebuild", "secretsmanager", "iam", "sts")
_NUDGES = "Scale"  # this function, and `Upload`, is invoked by a queue that Lambda polls


def priced_units(raw: Mapping[str, object], objects: int, queued: int = 0) -> dict[str, float]:
    """Return how much of each priced unit was used. `raw` is a `Bill`.

    S3 sends an event to EventBridge for each of the `objects` that came into asset buckets, documents included.
    EventBridge puts those of files, `queued`, on the queue of `upload`.
    """
    units: defaultdict[str, float] = defaultdict(float)
    for call, number in _mapping(raw["units"]).items():
        name = price_of(call.partition(" ")[2])
        if name is not None:
            units[name] += number
            units["sqs.fair"] += number if call.endswith(tuple(f"sqs:{one}" for one in _GROUPED)) else 0
    for name, number in _mapping(raw["functions"]).items():
        units["lambda.gb_second" if name.endswith("GB-seconds") else "lambda.request"] += number
    polled = sum(_mapping(raw["functions"]).get(f"{name} requests", 0) for name in ("Upload", _NUDGES))
    units["events.published"] += objects
    units["sqs.request"] += queued + 2 * polled
    units["states.transition"] = float(str(raw["transitions"]))
    units["logs.ingested"] = float(str(raw["log_bytes"])) / 1e9
    return dict(units)


def price_of(call: str) -> str | None:
    """Return the name of the price of a call `<service>:<operation>`; None for one that costs nothing."""
    service, _, operation = call.partition(":")
    if service == "s3":
        return "s3.put" if operation in _S3_PUTS else "s3.get"
    if service == "dynamodb":
        return "dynamodb.write" if operation in _WRITES else "dynamodb.read"
    if service == "sqs":
        return "sqs.request"
    if service == "events":
        return "events.published"
    assert service in _FREE, f"no price is known for {call}"
    return None


def per_million(units: Mapping[str, float], items: int) -> dict[str, tuple[float, float]]:
    """Return the units for each item and the dollars for a million items, by the name of the price, dearest first."""
    rows = {name: (number / items, PRICES[name].of(number / items * MILLION)) for name, number in units.items()}
    return dict(sorted(rows.items(), key=lambda row: -row[1][1]))


def run_rows() -> dict[str, tuple[float, float]]:
    """Return `per_million` of the measured run."""
    counted = _counted(COUNTED_RUN)
    [table] = [row.raw["table"] for row in kept(COUNTED_RUN).measured if "table" in row.raw]
    return per_million(priced_units(counted, objects=table["documents"]), counted["items"])


def single_rows() -> dict[str, tuple[float, float]]:
    """Return `per_million` of files that have an execution each."""
    return _per_million_files(_counted(SINGLE_FILES))


def counted_items() -> int:
    """Return how many items the measured run had."""
    return int(_counted(COUNTED_RUN)["items"])


def _counted(name: str) -> dict[str, Any]:
    [counted] = [row.raw for row in kept(name).measured if "units" in row.raw]
    return counted


def _per_million_files(counted: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    files = int(counted["items"])
    return per_million(priced_units(counted, objects=2 * files, queued=files), files)


def measure(files: int = FILES) -> list[Measurement]:
    """Count the calls to AWS for this number of files, each of which starts an execution of its own."""
    with deployed(0) as runs_app:
        _answer_files(runs_app, "warm", 2)
        before = Bill.read(runs_app.app)
        _answer_files(runs_app, "single", files)
        bill = Bill.read(runs_app.app).since(before)
    counted = {"items": files, **vars(bill)}
    dollars = sum(price for _, price in _per_million_files(counted).values())
    return [
        Measurement(
            name=f"{files} files with an execution each",
            value=f"${dollars:.2f} for a million, without GPUs",
            limit="none",
            met=True,
            raw=counted,
        )
    ]


def _answer_files(runs_app: RunsApp, folder: str, files: int) -> None:
    app = runs_app.app
    for number in range(files):
        app.upload(f"{folder}/{number}.png", small_picture(), PROMPT)
    wait_for(
        lambda: (
            sum(key.endswith(".json") for key in app.keys(f"{folder}/")) == files
            and all(execution["status"] == "SUCCEEDED" for execution in app.executions())
        ),
        PATIENCE_SECONDS,
        "not all files are answered",
    )


def _mapping(value: object) -> Mapping[str, float]:
    assert isinstance(value, Mapping)
    return value


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runs.cost", description=__doc__)
    return parser.parse_args(arguments)


def main() -> int:
    """Count the calls, print what they cost, and store the results."""
    parse(sys.argv[1:])
    results = measured(measure)
    results.keep(SINGLE_FILES)
    print(results.measured[0].value)
    return 0


if __name__ == "__main__":
    sys.exit(main())

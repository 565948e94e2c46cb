"""Write `docs/benchmarks.md` from the stored results."""

from pathlib import Path

from benchmarks import generator_page, reasoner_page
from benchmarks.results import Results, kept

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def text() -> str:
    """Return the page."""
    return f"""# Benchmarks

`make bench` writes this page. It repeats the measurements that need no GPU, and takes the others from the stored
results. The raw numbers are in [`benchmarks/results/`](../benchmarks/results).

## One job, one worker

{_table(kept("foundation"))}

[`latency.py`](../benchmarks/latency.py) uploads a file to the local cloud. Its moto server, Lambdas and worker share
the cores of the machine with the benchmark. [`throughput.py`](../benchmarks/throughput.py) runs one worker with
stand-ins for the engine and for AWS, which answer at once, so that only the worker is measured.
[`imports.py`](../benchmarks/imports.py) starts a fresh interpreter for each import. The functions import boto3 at their
first call, which adds about a quarter of a second to that call.

## Deploying

{_table(kept("deployment"))}

[`deployment.py`](../benchmarks/deployment.py) deploys `examples/everything.json` to the local cloud, with its image
builds. On AWS, the stacks, the builds and EC2 take minutes; these figures do not include that.

{reasoner_page.text()}
{generator_page.text()}"""


def _table(results: Results) -> str:
    rows = "\n".join(
        f"| {row.name} | {row.value} | {row.limit} | {'yes' if row.met else '**no**'} |" for row in results.measured
    )
    return f"""Measured {results.day} on {results.machine}; load average {results.load} before.

| what | measured | limit | met |
|---|---|---|---|
{rows}"""

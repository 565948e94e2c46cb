"""Write `docs/benchmarks.md` from the stored results."""

from pathlib import Path

from benchmarks import generator_page, reasoner_gpu_page, reasoner_page, runs_page
from benchmarks.results import kept
from benchmarks.runs_page import table

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def text() -> str:
    """Return the page."""
    return f"""# Benchmarks

`make bench` writes this page. It repeats the measurements that need no GPU, and takes the others from the stored
results. The raw numbers are in [`benchmarks/results/`](../benchmarks/results).

## One job, one worker

{table(kept("foundation"))}

[`latency.py`](../benchmarks/latency.py) uploads a file to the local cloud. Its moto server, Lambdas and worker share
the cores of the machine with the benchmark. [`throughput.py`](../benchmarks/throughput.py) runs one worker with
stand-ins for the engine and for AWS, which answer at once, so that only the worker is measured.
[`imports.py`](../benchmarks/imports.py) starts a fresh interpreter for each import. The functions import boto3 at their
first call, which adds about a quarter of a second to that call.

## Deploying

{table(kept("deployment"))}

[`deployment.py`](../benchmarks/deployment.py) deploys `examples/everything.json` to the local cloud, with its image
builds. On AWS, the stacks, the builds and EC2 take minutes; these figures do not include that.

{runs_page.text()}
{reasoner_gpu_page.text()}{reasoner_page.text()}
{generator_page.text()}"""

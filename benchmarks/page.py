"""Write `docs/benchmarks.md` from the stored results."""

from pathlib import Path

from benchmarks import generator_page, reasoner_page
from benchmarks.results import Results, kept

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def text() -> str:
    """Return the page."""
    return f"""# Benchmarks

Written by `make bench`, which measures again what needs no GPU; the raw numbers lie in
[`benchmarks/results/`](../benchmarks/results).

## One job, one worker

{_table(kept("foundation"))}

[`latency.py`](../benchmarks/latency.py) uploads to the local cloud, whose moto server, Lambdas and worker share the
machine's cores with it. [`throughput.py`](../benchmarks/throughput.py) gives one worker an engine and an AWS that both
answer at once, so that nothing but the worker is measured. [`imports.py`](../benchmarks/imports.py) starts a fresh
interpreter for each import; boto3 is imported at a function's first call, which adds about a quarter of a second there.

## Deploying

{_table(kept("deployment"))}

[`deployment.py`](../benchmarks/deployment.py) deploys `examples/everything.json` to the local cloud, its image builds
included; on AWS the stacks, the builds and EC2 take minutes, which none of this measures.

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

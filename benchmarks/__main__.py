"""Measure everything, write `docs/benchmarks.md`, keep the raw numbers in `benchmarks/results/`."""

import json
import os
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import deployment, imports, latency, throughput
from benchmarks.measurement import Measurement

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    """Returns 1 where a limit is not met."""
    foundation = [*imports.measure(), latency.measure(), throughput.measure()]
    deploying = deployment.measure()
    measured = [*foundation, *deploying]
    TABLE.write_text(_table(measured), encoding="utf-8")
    _keep("foundation", foundation)
    _keep("deployment", deploying)
    for one in measured:
        print(f"{'ok ' if one.met else 'NOT'} {one.name}: {one.value} ({one.limit})")
    return 0 if all(one.met for one in measured) else 1


def _keep(name: str, measured: list[Measurement]) -> None:
    raw = {"machine": machine(), "measured": [asdict(one) for one in measured]}
    (RESULTS / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")


def machine() -> str:
    """The machine, in words."""
    [model] = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    } or {platform.machine()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores ({model}), {memory:.0f} GiB, no GPU, Python {platform.python_version()}"


def _table(measured: list[Measurement]) -> str:
    rows = "\n".join(
        f"| {one.name} | {one.value} | {one.limit} | {'yes' if one.met else '**no**'} |" for one in measured
    )
    return f"""# Benchmarks

Written by `make bench`; the raw numbers lie in [`benchmarks/results/`](../benchmarks/results).

Measured {datetime.now(UTC):%Y-%m-%d} on {machine()}.

| what | measured | limit | met |
|---|---|---|---|
{rows}

How: [`latency.py`](../benchmarks/latency.py) uploads to the local cloud, whose moto server, Lambdas and worker share
the machine's cores with it. [`throughput.py`](../benchmarks/throughput.py) gives one worker an engine and an AWS that
both answer at once, so that nothing but the worker is measured. [`imports.py`](../benchmarks/imports.py) starts a fresh
interpreter for each import; boto3 is imported at a function's first call, which adds about a quarter of a second there.
[`deployment.py`](../benchmarks/deployment.py) deploys `examples/everything.json` to the local cloud, its image builds
included; on AWS the stacks, the builds and EC2 take minutes, which none of this measures.
"""


if __name__ == "__main__":
    sys.exit(main())

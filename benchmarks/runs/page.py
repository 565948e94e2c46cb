"""The section on runs of `docs/benchmarks.md`, from the stored results."""

from collections.abc import Mapping
from typing import Any

from benchmarks.results import FOLDER, kept, stored, table
from benchmarks.runs import cost as runs_cost
from benchmarks.runs.instant_engine import ANSWER_CHARACTERS
from benchmarks.simulation.million_clips import IDLE_LIMIT, LIMITS, PLAN_LIMIT, RESULTS
from cosmos_batch.catalogue.prices import MILLION, PRICES, PRICES_AS_OF

KILLS = "runs-kills"


def text() -> str:
    """Return the section."""
    return f"""## Runs

### Ten thousand items

{table(kept("runs-items"))}

[`items.py`](../benchmarks/runs/items.py) puts 10,000 small pictures into the local cloud, a hundred of
which are no pictures, and types `runs start`. The engine answers at once. The local cloud, its functions and two
workers share the cores with the benchmark and with other programs. What the local cloud holds is all of AWS:
its memory grows with the files, that of the other parts does not.

{_kills()}
### A plan beside its run

{table(kept("runs-model"))}

[`model.py`](../benchmarks/runs/model.py) runs a checkpoint of tiny size with random weights, and with the limits
of Qwen3-VL's processor, in vLLM on the CPU. Its clips have 2 seconds to 10 minutes and 256 x 192 pixels.
The plan opens 200 of them, and takes the pace of a run over other clips just before. During that first run, tests of
low priority had the cores for some of the time.

### What AWS's services cost

{_cost()}
### A million clips, simulated

{_simulation()}

```
python -m benchmarks.runs.items
python -m benchmarks.runs.kills
python -m benchmarks.runs.model
python -m benchmarks.runs.cost
python -m benchmarks.simulation.million_clips
```"""


def _kills() -> str:
    if not (FOLDER / f"{KILLS}.json").exists():
        return "The run in which parts are killed was not measured with 10,000 items yet.\n"
    results = kept(KILLS)
    [raw] = [row.raw for row in results.measured if "killed" in row.raw]
    killed = "\n".join(f"| {one['done']:,} | {one['part']} | {one['how']} |" for one in raw["killed"])
    return f"""### Ten thousand items, and ten kills

{table(results)}

[`kills.py`](../benchmarks/runs/kills.py) chose what to kill, and when, by the seed {raw["seed"]}. Workers
and functions are killed by SIGKILL, the map by stopping its execution, after which `runs resume` was typed. The
command that starts the run was killed and typed again.

| items that had ended | killed | how |
|---|---|---|
{killed}
"""


def _cost() -> str:
    run, single = runs_cost.run_rows(), runs_cost.single_rows()
    total, before = (sum(dollars for _, dollars in rows.values()) for rows in (run, single))
    rows = "\n".join(_cost_row(name, run, single) for name in dict.fromkeys([*run, *single]))
    items, kilobyte = runs_cost.counted_items(), PRICES["dynamodb.write"].of(MILLION)
    verdict = "met" if total + 2 * kilobyte <= runs_cost.GOAL_DOLLARS else "**not met**"
    return f"""Units are those that AWS bills, counted in a run of {items:,} items: writes of DynamoDB by KB of the row,
reserved keys, repeated calls and all lines of the log included. Beside it stands a file that has an execution of its
own, as an upload has ([`cost.py`](../benchmarks/runs/cost.py)). Prices: {PRICES_AS_OF}.

| what | of a run: units an item | dollars a million | of single files: units a file | dollars a million |
|---|---|---|---|---|
{rows}
| **all** | | **{total:.2f}** | | **{before:.2f}** |

The limit for a run: at most ${runs_cost.GOAL_DOLLARS:.0f}: {verdict}. An answer of the engine has {ANSWER_CHARACTERS:,}
characters, about 250 tokens, so its document takes 2 KB in the table until its attempt has won
([decision 076](decisions/076-small-documents-wait-in-the-table.md)); each further KB of a compressed document costs
${kilobyte:.2f} a million, and a generator's MP4 comes in addition. Each item's end writes the row of its shard, which
contains a task token. Those of AWS have up to 2 KB and those of the local cloud less: that may cost ${2 * kilobyte:.2f}
more, which is within the verdict. Lambda's seconds are those of the local cloud, which serves one call of DynamoDB at a
time on shared cores. The default configuration has no customer key; with one, S3 uses bucket keys, and SQS and DynamoDB
keep their data keys for minutes, so that KMS is not asked for each item. `runs plan` multiplies the same units.
"""


def _cost_row(name: str, run: Mapping[str, tuple[float, float]], single: Mapping[str, tuple[float, float]]) -> str:
    cells = [f"{rows[name][0]:.4g} | {rows[name][1]:.2f}" if name in rows else "| " for rows in (run, single)]
    return f"| {PRICES[name].unit} (`{name}`) | {' | '.join(cells)} |"


def _simulation() -> str:
    found = stored(RESULTS)
    rows = "\n".join(_simulation_row(run) for run in found["runs"])
    limits = "\n".join(_limit_row(name, found["runs"]) for name in LIMITS)
    names = " | ".join(f"{run['max_workers']} workers" for run in found["runs"])
    varied = "\n".join(
        _varied_row(run) for run in [{**found["runs"][-1], "name": "the numbers above"}, *found["varied"]]
    )
    return f"""[`runs.py`](../benchmarks/simulation/runs.py) simulates a run over a million clips of
2 seconds to 10 minutes, on workers of one L40S each. The functions that choose the number of workers and measure their
pace are the deployed ones; its file names what is copied. Each hour 5 % of the workers are lost, and give back what
they have in hand. The times of
the engine come from [two measurements on an H100](../benchmarks/simulation/clips.py), times 3.88 for the L40S: of
ours, 0.0722 s for a clip of 2,598 tokens in a full batch; and of NVIDIA's, how that grows with a clip's length. Other
times are those of `feed` and `collect` in the run of 10,000 items on the local cloud. The plan sees 200 of the clips,
and the pace of another run over clips of 2 to 60 seconds. Dollars are list prices of On-Demand instances.

The 0.0722 s were measured on 2026-11-21 with vLLM 0.26.0, 13.84 clips per second with 256 in flight. That result is not
kept, because this vLLM does not ship any more (commit 29966d34). The vLLM that ships took 0.068 to 0.073 s [on three
H100](#on-an-h100).

| workers | at once | hours | dollars | lost | items repeated | idle | not at full speed | plan: hours | plan: dollars |
|---|---|---|---|---|---|---|---|---|---|
{rows}

*Idle* is the share of the workers' time without any job, from the first minute with 95 % of the workers until
nothing is left to hand out; limit: at most {IDLE_LIMIT:.0%}. A plan may differ by {PLAN_LIMIT:.0%}; one that
differs by more is in bold. Most of 400 workers have nothing left to do while the last and longest clips are done, which
makes such a run dearer for each clip. Before `scale` counted what runs have yet to send to the queue, it started 304 of
the 400 workers, and the plan's hours were 36 % too few.

![Workers and items over time](runs.svg)

| the most of | limit | {names} |
|---|---|{"---|" * len(found["runs"])}
{limits}

A number in bold is above its limit: AWS refuses some of these calls for a moment, and they are tried again. The write
units, both to a run's partition and for an item that is fed, are counted for the largest rows; those of an item's end
are the mean over a shard, whose row grows with each. Shards are fed in turns,
at 480 items a second, which a new table takes
([decision 078](decisions/078-the-shards-of-a-run-share-a-partition.md)).

If a run's counts exceed the limit of its partition, workers repeat them until DynamoDB takes them, and no item fails.

How long the functions take on AWS, and how much the times of equal clips differ because their answers do (by 30 %
above), was not measured. So {found["runs"][-1]["max_workers"]} workers were simulated with other numbers too:

| with | hours | dollars | idle | units a second to the run's partition | units while the first shards are fed |
|---|---|---|---|---|---|
{varied}
"""


def _varied_row(run: Mapping[str, Any]) -> str:
    names = ("write units in a second to a run's partition", "write units in a second while the first shards are fed")
    cells = " | ".join(_marked(f"{run['peaks'][name]:,.0f}", run["peaks"][name] <= LIMITS[name][0]) for name in names)
    idle = run["idle_share"]
    return (
        f"| {run['name']} | {run['finished_at'] / 3600:.2f} | {run['dollars']:,.0f} "
        f"| {_marked(f'{idle:.1%}', idle <= IDLE_LIMIT)} | {cells} |"
    )


def _simulation_row(run: Mapping[str, Any]) -> str:
    idle, hours, dollars = run["idle_share"], run["hours_off"], run["dollars_off"]
    return (
        f"| {run['max_workers']} | {run['most']} | {run['finished_at'] / 3600:.1f} | {run['dollars']:,.0f} "
        f"| {run['lost']} | {run['repeated']:,} | {_marked(f'{idle:.1%}', idle <= IDLE_LIMIT)} "
        f"| {run['unused_share']:.1%} | {_marked(f'{hours:+z.1%}', abs(hours) <= PLAN_LIMIT)} "
        f"| {_marked(f'{dollars:+z.1%}', abs(dollars) <= PLAN_LIMIT)} |"
    )


def _limit_row(name: str, runs: list[Mapping[str, Any]]) -> str:
    limit, source = LIMITS[name]
    cells = " | ".join(_marked(f"{run['peaks'][name]:,.0f}", run["peaks"][name] <= limit) for run in runs)
    return f"| {name} | {limit:,} ({source}) | {cells} |"


def _marked(value: str, is_met: bool) -> str:
    return value if is_met else f"**{value}**"

"""A run of 10,000 files in which ten parts are killed at random moments, and started again.

Workers and functions are killed by SIGKILL; AWS and the queue start them again. The map is killed by stopping its
execution, and `runs resume` goes on. The command line is killed while it starts the run, and is typed again.
Usage: `python -m benchmarks.runs.kills [ITEMS] [--seed SEED]`.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.measurement import Measurement, told
from benchmarks.results import measured
from benchmarks.runs.deployment import RunsApp, deployed
from benchmarks.runs.process_memory import parts
from cosmos_batch.state import Runs
from tests.support.deployed_app import wait_for

ITEMS = 10_000
RUN = "killed"
KILLS = {"command line": 2, "map": 2, "worker": 3, "function": 3}
TYPED_SECONDS = 5.0  # the longest time after which the command line is killed
# A worker that was killed is noticed after the visibility timeout of its messages. The default is two minutes.
WORKER = {"idleSeconds": 300, "visibilityTimeoutSeconds": 20, "heartbeatSeconds": 5}


@dataclass
class Killer:
    """Kills parts of a run at moments that are drawn from a seed, and records each kill in `killed`."""

    runs_app: RunsApp
    seed: int
    killed: list[dict[str, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._home = str(self.runs_app.app.folder / "home")

    def start(self) -> None:
        """Start the run; kill the command that starts it some times before."""
        for _ in range(KILLS["command line"]):
            command = self.runs_app.start_command(*self.runs_app.start_arguments(RUN))
            seconds = self._random.uniform(0, TYPED_SECONDS)
            time.sleep(seconds)
            command.kill()
            self._note("command line", f"after {seconds:.1f} s, status {command.wait()}")
        if Runs(self.runs_app.app.table).get(RUN) is None:
            self.runs_app.start_command(*self.runs_app.start_arguments(RUN)).wait()

    def kill_while_it_runs(self) -> None:
        """Kill the other parts, each when a random number of items has ended."""
        victims = [part for part, number in KILLS.items() if part != "command line" for _ in range(number)]
        self._random.shuffle(victims)
        moments = sorted(self._random.randrange(self.runs_app.items * 9 // 10) for _ in victims)
        for moment, victim in zip(moments, victims, strict=True):
            self._wait_until_done(moment)
            self._kill(victim)

    def _wait_until_done(self, items: int) -> None:
        wait_for(lambda: self.runs_app.done(RUN) >= items, 3600, f"{items} items are not done")

    def _kill(self, victim: str) -> None:
        if victim == "map":
            self._stop_execution()
            return
        if victim == "function":
            wait_for(self._is_at_work, 3600, "no function is at work")
        found = [
            int(process.name) for process, part in parts(self._home) if part == victim or _is_feeding(victim, part)
        ]
        for process in found:
            os.kill(process, signal.SIGKILL)
        self._note(victim, f"{len(found)} processes")

    def _is_at_work(self) -> bool:
        """Return whether a shard is being fed or collected, or the run has ended."""
        runs = Runs(self.runs_app.app.table)
        row = runs.get(RUN)
        at_work = any(
            shard.state == "FEEDING" or (shard.state == "RUNNING" and shard.complete)
            for shard in runs.shards.of_run(RUN)
        )
        return at_work or (row is not None and row.ended_at is not None)

    def _stop_execution(self) -> None:
        row = Runs(self.runs_app.app.table).get(RUN)
        assert row is not None, "it runs"
        self.runs_app.app.client("stepfunctions").stop_execution(executionArn=row.execution_arn, cause="killed")
        self.runs_app.wait_until_ended(RUN)
        self._note("map", "stopped, then resumed")
        self.runs_app.run_command("resume", RUN)

    def _note(self, part: str, how: str) -> None:
        done = self.runs_app.done(RUN)
        self.killed.append({"part": part, "how": how, "done": done})
        print(f"killed: {part}, {how}, when {done} items had ended", flush=True)


def _is_feeding(victim: str, part: str) -> bool:
    return victim == "function" and part in ("function Feed", "function Collect")


def measure(items: int, seed: int) -> list[Measurement]:
    """Do a run over this number of files while parts of it are killed, then once more without kills; compare both."""
    with deployed(items, worker=WORKER) as runs_app:
        killer = Killer(runs_app, seed)
        began = time.monotonic()
        killer.start()
        killer.kill_while_it_runs()
        runs_app.wait_until_ended(RUN)
        seconds = time.monotonic() - began
        table, inferences = runs_app.table(RUN), runs_app.inferences()
        late = _after_commit(runs_app, inferences)
        again = f"{RUN}-again"
        runs_app.run_command(*runs_app.start_arguments(again))
        runs_app.wait_until_ended(again)
        repeated, more = runs_app.table(again), len(runs_app.inferences()) - len(inferences)
    once = len({job for _, job in inferences})
    return [
        Measurement(
            name=f"a run of {items:,} items in which {len(killer.killed)} parts were killed",
            value=f"{table.text} in {seconds:.0f} s",
            limit="each item once",
            met=table.is_exact(items),
            raw={"seed": seed, "killed": killer.killed, "table": vars(table), "seconds": seconds},
        ),
        Measurement(
            name="inferences of items that had been answered",
            value=f"{late}; {len(inferences) - once} of {len(inferences):,} inferences were repeated for a kill",
            limit="none of answered items",
            met=late == 0,
            raw={"late": late, "inferences": len(inferences), "jobs": once},
        ),
        Measurement(
            name="the same run once more",
            value=f"{repeated.text}, {more} inferences",
            limit="the same, without inference",
            met=repeated == table and more == 0,
            raw={"table": vars(repeated), "inferences": more},
        ),
    ]


def _after_commit(runs_app: RunsApp, inferences: list[tuple[float, str]]) -> int:
    """Return how many inferences began after their job had an answer."""
    from datetime import datetime

    repeated = {job for job, number in Counter(job for _, job in inferences).items() if number > 1}
    rows = {job: runs_app.app.jobs.get(job) for job in repeated}
    committed = {
        job: datetime.fromisoformat(row.stages["committed"]).timestamp()
        for job, row in rows.items()
        if row is not None and "committed" in row.stages
    }
    return sum(at > committed[job] for at, job in inferences if job in committed)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runs.kills", description=__doc__)
    parser.add_argument("items", type=int, nargs="?", default=ITEMS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    return parser.parse_args(arguments)


def main() -> int:
    """Run the benchmark, store the results, and return 1 if a limit is not met, else 0."""
    asked = parse(sys.argv[1:])
    print(f"seed {asked.seed}", flush=True)
    results = measured(lambda: measure(asked.items, asked.seed))
    results.keep("runs-kills" if asked.items == ITEMS else f"runs-kills-{asked.items}")
    return told(results.measured)


if __name__ == "__main__":
    sys.exit(main())

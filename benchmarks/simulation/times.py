"""The times that the simulation of runs takes from our own measurements. They vary, for AWS was not measured."""

from dataclasses import dataclass
from typing import Self

from benchmarks.results import kept
from cosmos_batch.contract.environment import FUNCTION_MEBIBYTES

MEASURED_RUN = "runs-items"


@dataclass(frozen=True)
class SimulatedTimes:
    """The seconds of the functions for one item of a shard, and how much the engine's time of an item varies.

    `spread` is the standard deviation of the logarithm of that time among equal clips, whose answers differ in length.
    """

    feed: float
    collect: float
    spread: float = 0.3

    @classmethod
    def measured(cls) -> Self:
        """Return the mean times of a run on the local cloud, whose DynamoDB serves one call at a time."""
        [counted] = [row.raw for row in kept(MEASURED_RUN).measured if "functions" in row.raw]
        seconds = {
            name: counted["functions"][f"{name} GB-seconds"] / (FUNCTION_MEBIBYTES / 1024) / counted["items"]
            for name in ("Feed", "Collect")
        }
        return cls(feed=seconds["Feed"], collect=seconds["Collect"])


MEASURED = SimulatedTimes.measured()
# AWS serves calls of DynamoDB at the same time. So its functions are faster than ours, by nobody knows how much.
VARIED = {
    "functions ten times as fast": SimulatedTimes(MEASURED.feed / 10, MEASURED.collect / 10),
    "functions twice as slow": SimulatedTimes(MEASURED.feed * 2, MEASURED.collect * 2),
    "no spread": SimulatedTimes(MEASURED.feed, MEASURED.collect, spread=0.0),
    "a spread of 60 %": SimulatedTimes(MEASURED.feed, MEASURED.collect, spread=0.6),
}

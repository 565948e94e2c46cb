"""The interface by which the console reaches the runs of a deployment.

`cosmos_batch.cli.console` implements it with the code of the commands.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from cosmos_batch.console.dropped_files import DroppedFolder
from cosmos_batch.console.new_run_records import NewRun, NewRunForm, PlanShown, Prefix
from cosmos_batch.console.run_records import ComparedRuns, RunList, RunOverview, Started


class RefusalError(Exception):
    """A request of the page cannot be served. The message is for the person: the reason, and what to do about it."""


class RunBackend(Protocol):
    """The runs of a deployment. Every method raises RefusalError where it cannot do what it is asked for."""

    @property
    def is_local(self) -> bool:
        """Return whether they are those of a local cloud, which cost nothing."""

    def runs(self, limit: int) -> RunList:
        """Return the latest runs, the newest first."""

    def overview(self, run: str) -> RunOverview:
        """Return the state of a run now."""

    def cancel(self, run: str) -> None:
        """Stop a run."""

    def resume(self, run: str, max_dollars: float | None) -> None:
        """Resume a run, with another budget if `max_dollars` is given."""

    def retry(self, run: str, items: Sequence[str], max_dollars: float | None) -> Started:
        """Start a new run over the items of a run that have failed: over those with these ids, or all if none is.

        `max_dollars` is the budget of the new run.
        """

    def compare(self, first: str, second: str, by: Literal["id", "input"]) -> ComparedRuns:
        """Return two runs side by side. Their items belong together by their ids, or by files and variants."""

    def log(self, run: str, job: str) -> list[str]:
        """Return the lines that a worker has logged about the job of a run's item."""

    def form(self) -> NewRunForm:
        """Return the choices for a new run."""

    def prefix(self, uri: str) -> Prefix:
        """Return the prefixes and the number of files directly in a prefix of the buckets for inputs."""

    def plan(
        self, new_run: NewRun, dropped: DroppedFolder | None, parameter_files: Mapping[str, DroppedFolder]
    ) -> PlanShown:
        """Return what a run over S3 URIs and dropped files would take and cost.

        `parameter_files` have one file each, by the paths of the parameters that name them.
        """

    def start(self, plan: str) -> Started:
        """Start a run as it was planned."""

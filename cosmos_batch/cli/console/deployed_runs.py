"""Answers what the console asks about runs, with the code of the commands on runs."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from cosmos_batch.cli.console.compare_runs import compare_runs
from cosmos_batch.cli.console.live_run import LiveRuns
from cosmos_batch.cli.console.refusals import refusals
from cosmos_batch.cli.console.run_lines import actions_of, run_line
from cosmos_batch.cli.console.run_planner import RunPlanner
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.job_snapshot import read_execution
from cosmos_batch.cli.runs.comparison import KeyKind
from cosmos_batch.cli.runs.executions import cancel_run, resume_run
from cosmos_batch.cli.runs.retry_run import retry_run
from cosmos_batch.cli.runs.run_snapshot import quick_run_snapshot, read_run_snapshot
from cosmos_batch.cli.runs.stored_run import StoredRun, stored_run
from cosmos_batch.cli.stopped_clouds.lookup import RunDeployments, kept_run_ended
from cosmos_batch.cli.worker_log import readable_lines, worker_events
from cosmos_batch.console.dropped_files import DroppedFolder
from cosmos_batch.console.new_run_records import NewRun, NewRunForm, PlanShown, Prefix
from cosmos_batch.console.run_records import ComparedRuns, RunList, RunOverview, Started
from cosmos_batch.contract.error import Error
from cosmos_batch.state import JobRow

# The most events of a worker's log that are read for one item: the worker serves other items at the same time.
_LOG_EVENTS = 20_000
_LOG_LINES = 2000  # the most lines about an item that are shown
_LOG_MARGIN = timedelta(minutes=1)  # before an item's attempt and after its end, in which its worker logs about it
CANCELLED = Error(
    code="Cancelled",
    message="The run was stopped in the console.",
    remedy="`cosmos-batch runs resume` or the console goes on with it.",
)


class DeployedRuns:
    """The runs of a cloud, reached with the person's own credentials, and those that stopped local clouds have left."""

    def __init__(self, deployments: RunDeployments) -> None:
        self._deployments = deployments
        self._live = LiveRuns()
        self._new = None if deployments.cloud is None else RunPlanner(deployments.cloud)

    @property
    def is_local(self) -> bool:
        return self._deployments.is_local

    def runs(self, limit: int) -> RunList:
        with refusals():
            listed = list(islice(self._deployments.list(), limit + 1))
            states = [quick_run_snapshot(deployment, row) for deployment, row in listed[:limit]]
            return RunList(runs=[run_line(state) for state in states], has_more=len(listed) > limit)

    def overview(self, run: str) -> RunOverview:
        with refusals():
            deployment = self._deployments.having(run)
            state = read_run_snapshot(deployment, run)
            objects = self._stored(run)
            request = objects.request()
            summary = objects.summary() if state.over else None
            starts = state.row is None and _is_started(deployment, run)
            return RunOverview(
                run=run_line(state, starts),
                prompt=request.prompt or "",
                quantiles=summary.seconds_quantiles if summary else {},
                actions=actions_of(state) if deployment.is_alive and not starts else [],
                live=None if state.over or state.row is None else self._live.look(deployment, state),
            )

    def cancel(self, run: str) -> None:
        with refusals():
            deployment = self._alive(run)
            if read_run_snapshot(deployment, run).row is None:
                raise WrongCall(f"{run} has not begun.", "Resume it, or leave it: it costs nothing.")
            cancel_run(deployment, run, CANCELLED)

    def resume(self, run: str, max_dollars: float | None) -> None:
        with refusals():
            resume_run(self._alive(run), run, max_dollars)

    def retry(self, run: str, items: Sequence[str], max_dollars: float | None) -> Started:
        with refusals():
            new, count = retry_run(self._alive(run), run, codes=(), max_dollars=max_dollars, items=items)
            return Started(run=new, items=count)

    def compare(self, first: str, second: str, by: KeyKind) -> ComparedRuns:
        with refusals():
            return compare_runs(self._stored(first), self._stored(second), by)

    def log(self, run: str, job: str) -> list[str]:
        with refusals():
            deployment = self._deployments.having(run)
            if not deployment.is_alive:
                raise WrongCall("The logs of a local cloud that was stopped are not kept.", "Start the run again.")
            row = deployment.jobs.get(job) if job else None
            if row is None or row.worker is None:
                raise WrongCall("No worker has taken this item: it was refused before.", "Read its error.")
            return list(islice(_lines_about(deployment, row, row.worker), _LOG_LINES))

    def form(self) -> NewRunForm:
        with refusals():
            return self._planner().form()

    def prefix(self, uri: str) -> Prefix:
        with refusals():
            return self._planner().prefix(uri)

    def plan(
        self, new_run: NewRun, dropped: DroppedFolder | None, parameter_files: Mapping[str, DroppedFolder]
    ) -> PlanShown:
        with refusals():
            return self._planner().plan(new_run, dropped, parameter_files)

    def start(self, plan: str) -> Started:
        with refusals():
            return self._planner().start(plan)

    def _stored(self, run: str) -> StoredRun:
        return stored_run(self._deployments.having(run), run)

    def _alive(self, run: str) -> Deployment:
        """Return the deployment that has a run. Raises WrongCall where its cloud was stopped."""
        deployment = self._deployments.having(run)
        if not deployment.is_alive:
            raise kept_run_ended(run)
        return deployment

    def _planner(self) -> RunPlanner:
        if self._new is None:
            raise WrongCall(
                "No run can be started, because no cloud answers.",
                'Start one and open the console again: eval "$(cosmos-batch local up --export)"',
            )
        return self._new


def _is_started(deployment: Deployment, run: str) -> bool:
    """Return whether the execution of a run was started and goes on, which has not written the run's row yet."""
    execution = read_execution(deployment, deployment.execution_arn(run))
    return execution is not None and execution.status == "RUNNING"


def _lines_about(deployment: Deployment, row: JobRow, worker: str) -> Iterator[str]:
    """Yield what a worker has logged about an item in its last attempt. Of the worker's log, only that time is read."""
    begin, end = (_moment(row.stages.get(stage)) for stage in ("started", "committed"))
    if begin and end and end < begin:
        end = None  # it is the end of an earlier attempt
    events = worker_events(deployment, worker, begin and begin - _LOG_MARGIN, end and end + _LOG_MARGIN)
    for event in islice(events, _LOG_EVENTS):
        if row.job_id in str(event["message"]):
            yield from readable_lines(event)


def _moment(time: str | None) -> datetime | None:
    return None if time is None else datetime.fromisoformat(time)

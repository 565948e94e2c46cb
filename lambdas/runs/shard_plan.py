"""Plan the items of a shard: make a job of each, or the error for which it is refused, and keep that in S3."""

from concurrent.futures import ThreadPoolExecutor

from cosmos_batch.contract.environment import DeployedQueue, PlanningEnvironment
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.runs import PlannedItem, RunRequest, ShardRef
from cosmos_batch.state import ItemJobs, ReservedKeys, Revisions, Runs, ShardRow, Watcher
from lambdas.clients import state_table
from lambdas.planning.plan import Execution, identity_of
from lambdas.runs.item_messages import THREADS
from lambdas.runs.item_planner import ItemPlanner
from lambdas.runs.objects import RunObjects


def plan_shard(
    ref: ShardRef,
    request: RunRequest,
    row: ShardRow,
    execution: Execution,
    queue: DeployedQueue,
    environment: PlanningEnvironment,
) -> list[PlannedItem]:
    """Return the planned items of a shard, as the execution planned them first: another try must not see other files.

    An item that has ended stays as it was planned. One that waits is planned anew by each execution, and also if it was
    planned for a configuration or a commit of the model that is not deployed any more: no worker takes such a job.
    """
    table = state_table(environment.state_table)
    jobs, objects = ItemJobs(table), RunObjects(environment.state_bucket, ref.run)
    identity = identity_of(queue, request.invalidate_model, Revisions(table, queue.id))
    planned_before = None if row.planned_by is None else objects.planned(row.planned_by, ref.shard)
    before: list[PlannedItem | None] = [None] * ref.items if planned_before is None else list(planned_before)
    again = row.planned_by != execution.name
    to_plan = {
        index
        for index, item in enumerate(before)
        if item is None or (index not in row.ended and (again or is_outdated(item, identity)))
    }
    if not to_plan:
        return [item for item in before if item is not None]
    items = list(objects.items(ref.shard))
    planner = ItemPlanner(request, queue, identity, execution, environment, jobs, ReservedKeys(table))

    def plan(numbered: tuple[int, PlannedItem | None]) -> PlannedItem:
        index, earlier = numbered
        if earlier is not None and index not in to_plan:
            return earlier
        new = planner.plan(items[index])
        return new if _may_replace(earlier, new, Watcher(ref.run, ref.shard, index), jobs) else earlier or new

    with ThreadPoolExecutor(THREADS) as pool:
        planned = _with_one_job_each(list(pool.map(plan, enumerate(before))))
    objects.write_planned(execution.name, ref.shard, planned)
    Runs(table).shards.planned(ref.run, ref.shard, execution.name)
    return planned


def is_outdated(item: PlannedItem, deployed: Identity) -> bool:
    """Return whether an item was planned for a configuration or a commit that is not deployed any more."""
    planned_for = None if item.job is None else item.job.planned_for
    if planned_for is None:
        return False
    return planned_for.configuration != deployed.configuration or planned_for.revision not in (None, deployed.revision)


def _may_replace(earlier: PlannedItem | None, new: PlannedItem, watcher: Watcher, jobs: ItemJobs) -> bool:
    """Return whether a new plan may take the place of an earlier one: not if the item gets its end from the earlier."""
    if earlier is None or earlier.job is None or earlier.job.job_id == _id_of(new.job):
        return True
    return jobs.leave(earlier.job.job_id, watcher)


def _with_one_job_each(items: list[PlannedItem]) -> list[PlannedItem]:
    """Return the items with one job for those that ask the same, so that they have one document."""
    first: dict[str | None, Job] = {}
    for item in items:
        if item.job is not None:
            first.setdefault(item.job.job_id, item.job)
    return [item if item.job is None else item.model_copy(update={"job": first[item.job.job_id]}) for item in items]


def _id_of(job: Job | None) -> str | None:
    return None if job is None else job.job_id

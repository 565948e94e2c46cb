"""One total of vCPUs for all pipelines: who may start workers, and whose must leave.

Batch cannot take a GPU from a resident worker, so priority between its queues would mean nothing here.
"""

from cosmos_batch.contract.environment import PipelineCompute, ScaleEnvironment
from cosmos_batch.state import Workers
from lambdas.clients import state_table
from lambdas.log import log
from lambdas.scaling import Share, shared_room, to_take_back


def allowed_to_start(environment: ScaleEnvironment, pipeline: PipelineCompute, running: int, wanted: int) -> int | None:
    """How many more workers the total leaves to a pipeline; None where there is no total.

    Where that is too few, workers of lower pipelines are asked to leave: there is room as soon as they have.
    """
    total = environment.scaling.max_total_vcpus
    if total is None:
        return None
    own = Share(pipeline.priority, pipeline.vcpus, running, wanted)
    others = {one.id: _share(environment, one) for one in environment.pipelines if one.id != pipeline.id}
    for other in sorted(environment.pipelines, key=lambda one: one.priority):
        if other.id != pipeline.id:
            rest = [share for name, share in others.items() if name != other.id]
            _take_back(environment, other, to_take_back(total, own, others[other.id], rest))
    return shared_room(total, own, list(others.values()))


def _share(environment: ScaleEnvironment, pipeline: PipelineCompute) -> Share:
    workers = Workers(state_table(environment.state_table), pipeline.id)
    running = sum(row.state != "ENDED" for row in workers.list())
    return Share(pipeline.priority, pipeline.vcpus, running, workers.pipeline().wanted)


def _take_back(environment: ScaleEnvironment, pipeline: PipelineCompute, count: int) -> None:
    """Ask workers of a lower pipeline to leave; those that leave already are among them."""
    workers = Workers(state_table(environment.state_table), pipeline.id)
    live = [row for row in workers.list() if row.state != "ENDED"]
    leaving = [row for row in live if row.must_drain or row.state == "DRAINING"]
    staying = [row for row in live if row not in leaving]
    for row in staying[: max(0, count - len(leaving))]:
        workers.must_drain(row.worker)
        log("worker makes room for a pipeline of higher priority", pipeline=pipeline.id, worker=row.worker)

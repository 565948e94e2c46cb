"""One total of vCPUs for all pipelines: who may start workers, and whose must leave.

Batch cannot take a GPU from a resident worker, so priority between its queues would mean nothing here.
"""

from collections.abc import Callable

from cosmos_batch.contract.environment import PipelineCompute, ScaleEnvironment
from cosmos_batch.state import Workers
from lambdas.clients import state_table
from lambdas.log import log
from lambdas.scaling.worker_count import Share, shared_room, to_take_back


def allowed_to_start(
    environment: ScaleEnvironment,
    deployed_pipelines: Callable[[], list[PipelineCompute]],
    pipeline: PipelineCompute,
    running: int,
    wanted: int,
) -> int | None:
    """How many more workers the total leaves to a pipeline; None where there is no total.

    Where that is too few, workers of lower pipelines are asked to leave: there is room as soon as they have.
    """
    total = environment.scaling.max_total_vcpus
    if total is None:
        return None
    own = Share(pipeline.priority, pipeline.vcpus, running, wanted)
    others = [_Other(environment, one) for one in deployed_pipelines() if one.id != pipeline.id]
    shares = [other.share for other in others]
    for other, count in zip(others, to_take_back(total, own, shares), strict=True):
        other.take_back(count)
    return shared_room(total, own, shares)


class _Other:
    """Another pipeline that shares the total."""

    def __init__(self, environment: ScaleEnvironment, pipeline: PipelineCompute) -> None:
        self._workers = Workers(state_table(environment.state_table), pipeline.id)
        live = [row for row in self._workers.list() if row.state != "ENDED"]
        self._staying = [row for row in live if not row.must_drain and row.state != "DRAINING"]
        self._pipeline = pipeline.id
        self.share = Share(
            pipeline.priority,
            pipeline.vcpus,
            running=len(live),
            wanted=self._workers.pipeline().wanted,
            leaving=len(live) - len(self._staying),
        )

    def take_back(self, count: int) -> None:
        """Ask so many of its workers to leave."""
        for row in self._staying[:count]:
            self._workers.must_drain(row.worker)
            log("worker makes room for a pipeline of higher priority", pipeline=self._pipeline, worker=row.worker)

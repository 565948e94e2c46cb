"""Share one total of vCPUs (`maxTotalVCpus`) among the pipelines, by priority.

Batch's own priorities between job queues would have no effect here: a worker keeps its GPU for hours, and Batch does
not take one from a running job.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cosmos_batch.contract.environment import DeployedCompute, ScaleEnvironment
from cosmos_batch.state import Workers
from lambdas.clients import state_table
from lambdas.log import log


@dataclass(frozen=True)
class VCpuShare:
    """A pipeline's claim on the total: its priority, the workers that it runs and wants, and the vCPUs of each."""

    priority: int
    vcpus: int
    running: int
    wanted: int
    leaving: int = 0  # how many of the running ones drain

    @property
    def unmet_vcpus(self) -> int:
        """Return the vCPUs of the workers that the pipeline wants and does not have."""
        return max(0, self.wanted - self.running) * self.vcpus


def workers_within_total(
    environment: ScaleEnvironment,
    pipelines: Sequence[DeployedCompute],
    pipeline: DeployedCompute,
    running: int,
    wanted: int,
) -> int | None:
    """Return how many more workers a pipeline may start within the total; None where no total is configured.

    If that is fewer than it wants, workers of pipelines with lower priority are asked to leave. A later invocation can
    use the vCPUs that they have freed.
    """
    total = environment.scaling.max_total_vcpus
    if total is None:
        return None
    own = VCpuShare(pipeline.priority, pipeline.vcpus, running, wanted)
    others = [_OtherPipeline(environment, other) for other in pipelines if other.id != pipeline.id]
    shares = [other.share for other in others]
    for other, count in zip(others, workers_to_take_back(total, own, shares), strict=True):
        other.drain(count)
    return workers_with_room(total, own, shares)


def workers_with_room(total_vcpus: int, own: VCpuShare, others: list[VCpuShare]) -> int:
    """Return how many workers a pipeline may add within the total, less what higher priorities still want.

    >>> high, low = VCpuShare(1, 12, running=0, wanted=2), VCpuShare(0, 12, running=1, wanted=4)
    >>> workers_with_room(48, low, [high])
    1
    """
    free = total_vcpus - sum(share.running * share.vcpus for share in [own, *others])
    reserved = sum(share.unmet_vcpus for share in others if share.priority > own.priority)
    return max(0, free - reserved) // own.vcpus


def workers_to_take_back(total_vcpus: int, own: VCpuShare, others: list[VCpuShare]) -> list[int]:
    """Return how many workers each of `others` must drain so that `own` gets what it wants, lowest priority first.

    >>> own, low = VCpuShare(1, 12, running=0, wanted=2), VCpuShare(0, 12, running=2, wanted=2)
    >>> workers_to_take_back(48, own, [VCpuShare(-1, 12, running=2, wanted=2, leaving=1), low])
    [1, 0]
    """
    counts = [0] * len(others)
    if own.unmet_vcpus == 0:
        return counts
    free = total_vcpus - sum(share.running * share.vcpus for share in [own, *others])
    lacking = own.unmet_vcpus - free - sum(share.leaving * share.vcpus for share in others)
    for index, share in sorted(enumerate(others), key=lambda item: item[1].priority):
        if share.priority < own.priority and lacking > 0:
            counts[index] = min(share.running - share.leaving, math.ceil(lacking / share.vcpus))
            lacking -= counts[index] * share.vcpus
    return counts


class _OtherPipeline:
    """Another pipeline that shares the total."""

    def __init__(self, environment: ScaleEnvironment, pipeline: DeployedCompute) -> None:
        self._workers = Workers(state_table(environment.state_table), pipeline.id)
        live = [row for row in self._workers.list() if row.state != "ENDED"]
        self._staying = [row for row in live if not row.must_drain and row.state != "DRAINING"]
        self._pipeline = pipeline.id
        self.share = VCpuShare(
            pipeline.priority,
            pipeline.vcpus,
            running=len(live),
            wanted=self._workers.pipeline().wanted,
            leaving=len(live) - len(self._staying),
        )

    def drain(self, count: int) -> None:
        """Ask `count` of the pipeline's workers to leave."""
        for row in self._staying[:count]:
            self._workers.must_drain(row.worker)
            log("worker makes room for a pipeline of higher priority", pipeline=self._pipeline, worker=row.worker)

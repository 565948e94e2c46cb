"""Classify why Batch says that a worker's job failed, for a worker that gave no reason itself."""

import re
from dataclasses import dataclass
from typing import Any

from cosmos_batch.contract.error import MESSAGE_LIMIT, Error, ErrorCode
from cosmos_batch.state import Cause


@dataclass(frozen=True)
class WorkerEnd:
    """The reason why a worker ended: the kind of cause, by which the breaker decides, and the error, for a person."""

    cause: Cause
    error: Error


# Pattern, cause, error code and remedy: the first pattern that matches Batch's texts decides. Examples of such texts:
# "Host EC2 (instance i-...) terminated.", "CannotPullContainerError: ...", "ResourceInitializationError: failed to
# invoke EFS utils ...", "Canceled by JobStateTimeLimit action due to reason: CAPACITY:..." or "...: MISCONFIGURATION:
# ...", "OutOfMemoryError: Container killed due to memory usage" (in `container.reason`) and "Essential container in
# task exited". The reasons in capitals are from AWS Batch's user guide, "Jobs stuck in a RUNNABLE status".
_PATTERNS: tuple[tuple[str, Cause, ErrorCode, str], ...] = (
    (
        "runnable for",
        "capacity",
        "NoCapacity",
        "Add an instance type or an availability zone, ask for a higher quota, or wait.",
    ),
    ("capacity:", "capacity", "NoCapacity", "Add an instance type or an availability zone, or ask for a higher quota."),
    ("misconfiguration:", "permanent", "NoCapacity", "Correct instanceTypes and maxVCpus in config.json and deploy."),
    # The registry answered that the image does not exist or may not be pulled. A registry that cannot be reached
    # matches the next pattern.
    (
        r"cannotpull.*(not found|manifest unknown|does not exist|not registered|denied|no basic auth|no match)",
        "permanent",
        "NoCapacity",
        "Check that the worker's image was built, and that the role of its hosts may pull it.",
    ),
    (
        "cannotpull",
        "passing",
        "NoCapacity",
        "Check that the worker's image was built, and that its hosts reach the registry.",
    ),
    (
        r"\befs\b|\bmount",
        "passing",
        "ModelUnavailable",
        "Check the model file system: its mount targets and port 2049.",
    ),
    ("outofmemory", "passing", "EngineFailed", "Choose an instance type with more memory."),
    (
        r"exec format error|executable file not found|exit status 12[67]\b",
        "permanent",
        "EngineFailed",
        "The worker's image cannot be run: see that it was built for the hosts' architecture, and build it again.",
    ),
    # 128 + SIGKILL or SIGTERM, and no error from the container itself: it was ended from outside.
    (r"exit status (137|143)\b", "killed", "EngineFailed", "Nothing: another worker is started. See the worker's log."),
    ("essential container", "passing", "EngineFailed", "See the worker's log."),
    ("host ec2", "lost", "NoCapacity", "Spot capacity was taken back: try later, or use On-Demand instances."),
)
_OTHER: tuple[Cause, ErrorCode, str] = ("passing", "NoCapacity", "See the worker's job in the Batch console.")


def end_by_batch(worker: str, job: dict[str, Any] | None) -> WorkerEnd:
    """Return why a worker ended, from its job as DescribeJobs describes it.

    `job` is None where Batch does not know the job any more: the worker then counts as lost with its host.
    """
    if job is None:
        text = "Batch does not know the job any more"
        return WorkerEnd("lost", _error(worker, text, "NoCapacity", "Nothing: another worker is started.", True))
    text = _reasons(job)
    cause, code, remedy = next(
        ((cause, code, remedy) for pattern, cause, code, remedy in _PATTERNS if re.search(pattern, text.lower())),
        _OTHER,
    )
    return WorkerEnd(cause, _error(worker, text, code, remedy, retryable=cause != "permanent"))


def _error(worker: str, text: str, code: ErrorCode, remedy: str, retryable: bool) -> Error:
    message = f"No worker could be kept running; the last one ({worker}): {text}"
    return Error(code=code, message=message[:MESSAGE_LIMIT], remedy=remedy, retryable=retryable)


def _reasons(job: dict[str, Any]) -> str:
    container = job.get("container", {})
    status = f"exit status {container['exitCode']}" if "exitCode" in container else ""
    texts = (job.get("statusReason"), container.get("reason"), status)
    return "; ".join(text for text in texts if text) or "no reason given"

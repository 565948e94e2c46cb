"""What Batch says of a worker that failed and left no reason of its own, as an Error."""

import re
from typing import Any

from cosmos_batch.contract.error import MESSAGE_LIMIT, Error, ErrorCode

# The first pattern that is found in what Batch says decides. Such texts are "Host EC2 (instance i-...) terminated.",
# "CannotPullContainerError: ...", "ResourceInitializationError: failed to invoke EFS utils ...", "CAPACITY:...",
# "MISCONFIGURATION:...", "OutOfMemoryError: Container killed due to memory usage" (in `container.reason`) and
# "Essential container in task exited".
_PATTERNS: tuple[tuple[str, ErrorCode, str], ...] = (
    ("runnable for", "NoCapacity", "Add an instance type or an availability zone, ask for a higher quota, or wait."),
    ("capacity:", "NoCapacity", "Add an instance type or an availability zone, or ask for a higher quota."),
    ("misconfiguration:", "NoCapacity", "Correct instanceTypes and maxVCpus in config.json and deploy."),
    ("cannotpull", "NoCapacity", "Check that the worker's image was built, and that its hosts reach the registry."),
    (r"\befs\b|\bmount", "ModelUnavailable", "Check the model file system: its mount targets and port 2049."),
    ("outofmemory", "EngineFailed", "Choose an instance type with more memory."),
    ("essential container", "EngineFailed", "See the worker's log."),
    ("host ec2", "NoCapacity", "Spot capacity was taken back: try later, or use On-Demand instances."),
)
_OTHER: tuple[ErrorCode, str] = ("NoCapacity", "See the worker's job in the Batch console.")


def error_of_batch(worker: str, job: dict[str, Any] | None) -> Error:
    """`job` as DescribeJobs has it; None where Batch knows of no such job any more."""
    said = "Batch does not know the job any more" if job is None else _reasons(job)
    code, remedy = next(
        ((code, remedy) for pattern, code, remedy in _PATTERNS if re.search(pattern, said.lower())),
        _OTHER,
    )
    message = f"No worker could be kept running; the last one ({worker}): {said}"
    return Error(code=code, message=message[:MESSAGE_LIMIT], remedy=remedy, retryable=True)


def _reasons(job: dict[str, Any]) -> str:
    container = job.get("container", {})
    status = f"exit status {container['exitCode']}" if "exitCode" in container else ""
    said = (job.get("statusReason"), container.get("reason"), status)
    return "; ".join(text for text in said if text) or "no reason given"

"""Run all checks of `doctor` in parallel within a time limit, and return a finding for each."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

from cosmos_batch.contract.base import Model

SECONDS = 10.0  # the time that all checks have together


class Verdict(StrEnum):
    """The result of a check. UNKNOWN: the check could not be made, for example because a permission is missing."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


class Finding(Model):
    """One sentence of a check, and what to do where something is wrong."""

    check: str
    verdict: Verdict
    message: str
    remedy: str = ""


Check = Callable[[], Iterable[Finding]]


def run_checks(checks: Mapping[str, Check], seconds: float = SECONDS) -> list[Finding]:
    """Run all checks at once and return their findings in the order of the checks.

    One that does not end in time, or that fails, is UNKNOWN. Threads of those still running do not keep the process.
    """
    findings: dict[str, list[Finding]] = {}

    def run(name: str, check: Check) -> None:
        try:
            findings[name] = list(check())
        except Exception as error:
            findings[name] = [_failed(name, error)]

    threads = {name: threading.Thread(target=run, args=(name, check), daemon=True) for name, check in checks.items()}
    for thread in threads.values():
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads.values():
        thread.join(max(0.0, until - time.monotonic()))
    return [
        finding for name in checks for finding in findings.get(name) or _unanswered(name, name in findings, seconds)
    ]


def _failed(name: str, error: Exception) -> Finding:
    from cosmos_batch.cli.errors import explain

    text = explain(error) or f"{type(error).__name__}: {error}"
    message, _, remedy = text.partition("\n")
    remedy = remedy or "Look at it yourself, or ask for the permission that it needs."
    return Finding(check=name, verdict=Verdict.UNKNOWN, message=f"Could not look: {message}", remedy=remedy)


def _unanswered(name: str, has_ended: bool, seconds: float) -> Iterator[Finding]:
    """Yield the finding of a check that did not end in time; nothing for one that had nothing to say."""
    if not has_ended:
        yield Finding(
            check=name,
            verdict=Verdict.UNKNOWN,
            message=f"No answer within {seconds:.0f} s.",
            remedy="Check the connection to the internet (proxy), and try again.",
        )

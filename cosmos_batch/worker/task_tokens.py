"""Task tokens of Step Functions: report how a job ended, and find out whether its execution still waits for it."""

import asyncio
import json
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from botocore.exceptions import ClientError

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import PLAN_AGAIN
from cosmos_batch.contract.metrics import FOREIGN_TOKENS, embedded
from cosmos_batch.contract.result import RESULT_LIMIT, Result
from cosmos_batch.store.s3_retries import FAULTS

# The error codes for a token whose execution was stopped, has timed out, or has been answered.
GONE = ("TaskTimedOut", "TaskDoesNotExist")
JITTER = 0.1

log = logging.getLogger(__name__)

TokenState = Literal["alive", "gone", "unknown"]


class TaskTokens:
    """The calls of Step Functions that a worker makes. Every method that is not `async` blocks."""

    def __init__(self, stepfunctions: Any, heartbeat_seconds: float, pipeline: str) -> None:
        self._stepfunctions = stepfunctions
        self._heartbeat_seconds = heartbeat_seconds
        self._pipeline = pipeline

    def heartbeat(self, job_id: str, task_token: str) -> TokenState:
        """Send one heartbeat and return what it shows of the execution.

        An unclear response, such as throttling or a fault of the service, is `unknown` and never `gone`.
        """
        try:
            self._stepfunctions.send_task_heartbeat(taskToken=task_token)
        except ClientError as error:
            return self._state_after(job_id, error)
        except FAULTS:
            log.warning("a heartbeat got no answer", exc_info=True, extra={"jobId": job_id})
            return "unknown"
        return "alive"

    def _state_after(self, job_id: str, error: ClientError) -> TokenState:
        code = error.response["Error"]["Code"]
        if code in GONE:
            return "gone"
        if code == "InvalidToken":
            # The token belongs to another account or region, or was never one: no call from here can answer it.
            metric = embedded(self._pipeline, {FOREIGN_TOKENS: 1})
            log.error("a task token of another account or region", extra={"jobId": job_id, **metric})
        else:
            log.warning("a heartbeat was refused", extra={"jobId": job_id, "code": code})
        return "unknown"

    @property
    def seconds_to_next(self) -> float:
        """Return the seconds until the next heartbeat, a little different each time."""
        return self._heartbeat_seconds * random.uniform(1 - JITTER, 1 + JITTER)

    async def until_gone(self, job_id: str, task_token: str) -> None:
        """Send heartbeats until the execution no longer waits for the job, and return then."""
        while True:
            await asyncio.sleep(self.seconds_to_next)
            if await asyncio.to_thread(self.heartbeat, job_id, task_token) == "gone":
                return

    def report(self, task_token: str, result: Result) -> None:
        """Report how the job ended. It is no error if it was reported before, or if the execution is gone."""
        with _unless_nobody_waits(result.job_id):
            if result.error is None:
                self._stepfunctions.send_task_success(taskToken=task_token, output=_output(result))
            else:
                self.fail(task_token, result.error)

    def shard_done(self, task_token: str, run: str, shard: str) -> None:
        """Report that all items of a run's shard have ended. It is no error if that was reported before."""
        with _unless_nobody_waits(f"{run}/{shard}"):
            self._stepfunctions.send_task_success(taskToken=task_token, output=json.dumps({"run": run, "shard": shard}))

    def plan_again(self, job_id: str, task_token: str, reason: str) -> None:
        """Fail the task with `PLAN_AGAIN`, on which the state machine plans the job anew."""
        with _unless_nobody_waits(job_id):
            self._stepfunctions.send_task_failure(taskToken=task_token, error=PLAN_AGAIN, cause=reason)

    def fail(self, task_token: str, error: Error) -> None:
        """Send the error as SendTaskFailure. Raises ClientError where the token is not valid any more."""
        self._stepfunctions.send_task_failure(taskToken=task_token, error=error.code, cause=error.cause())


@contextmanager
def _unless_nobody_waits(job_id: str) -> Iterator[None]:
    """Ignore the error of a token that was answered before, or whose execution has ended."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] not in (*GONE, "InvalidToken"):
            raise
        log.info("its execution is gone or was answered before", extra={"jobId": job_id})


def _output(result: Result) -> str:
    """Return the result as JSON. Over `RESULT_LIMIT`, timings and usage are left out."""
    text = result.model_dump_json()
    if len(text) > RESULT_LIMIT:
        text = result.model_copy(update={"timings": {}, "usage": None}).model_dump_json()
    return text

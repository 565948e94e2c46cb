"""Task tokens: telling the state machine how a job ended, and hearing from it whether anybody still waits."""

import asyncio
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from botocore.exceptions import BotoCoreError, ClientError

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import PLAN_AGAIN
from cosmos_batch.contract.metrics import FOREIGN_TOKENS, embedded
from cosmos_batch.contract.result import RESULT_LIMIT, Result

# The execution was stopped, timed out, or has been answered.
GONE = ("TaskTimedOut", "TaskDoesNotExist")
JITTER = 0.1

log = logging.getLogger(__name__)

Heard = Literal["alive", "gone", "unknown"]


class TaskTokens:
    """Step Functions, as a worker sees it. What is not `async` blocks."""

    def __init__(self, stepfunctions: Any, heartbeat_seconds: float, pipeline: str) -> None:
        self._stepfunctions = stepfunctions
        self._heartbeat_seconds = heartbeat_seconds
        self._pipeline = pipeline

    def heartbeat(self, job_id: str, task_token: str) -> Heard:
        """Ask once. What is no clear answer (throttling, a fault of the service) is `unknown`, never `gone`."""
        try:
            self._stepfunctions.send_task_heartbeat(taskToken=task_token)
        except ClientError as error:
            return self._heard(job_id, error)
        except BotoCoreError:
            log.warning("a heartbeat got no answer", exc_info=True, extra={"jobId": job_id})
            return "unknown"
        return "alive"

    def _heard(self, job_id: str, error: ClientError) -> Heard:
        code = error.response["Error"]["Code"]
        if code in GONE:
            return "gone"
        if code == "InvalidToken":
            # A token of another account or region, or of another cloud altogether: nobody here can answer it.
            told = embedded(self._pipeline, {FOREIGN_TOKENS: 1})
            log.error("a task token of another account or region", extra={"jobId": job_id, **told})
        else:
            log.warning("a heartbeat was refused", extra={"jobId": job_id, "code": code})
        return "unknown"

    async def until_gone(self, job_id: str, task_token: str) -> None:
        """Return when nobody waits for the job any more; until then, never."""
        while True:
            await asyncio.sleep(self._heartbeat_seconds * random.uniform(1 - JITTER, 1 + JITTER))
            if await asyncio.to_thread(self.heartbeat, job_id, task_token) == "gone":
                return

    def report(self, task_token: str, result: Result) -> None:
        """Say how the job ended; said before, or to nobody, it is no error."""
        with _unless_nobody_waits(result.job_id):
            if result.error is None:
                self._stepfunctions.send_task_success(taskToken=task_token, output=_output(result))
            else:
                self.fail(task_token, result.error)

    def plan_again(self, job_id: str, task_token: str, reason: str) -> None:
        """End the wait for a job without a result: the state machine plans it anew."""
        with _unless_nobody_waits(job_id):
            self._stepfunctions.send_task_failure(taskToken=task_token, error=PLAN_AGAIN, cause=reason)

    def fail(self, task_token: str, error: Error) -> None:
        """SendTaskFailure as it is."""
        self._stepfunctions.send_task_failure(taskToken=task_token, error=error.code, cause=error.cause())


@contextmanager
def _unless_nobody_waits(job_id: str) -> Iterator[None]:
    """A token that was answered before, or whose execution has ended, is no error."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] not in (*GONE, "InvalidToken"):
            raise
        log.info("nobody waits for its result any more", extra={"jobId": job_id})


def _output(result: Result) -> str:
    """The result as JSON, within the limit of a callback: timings and usage are left out where they are too many."""
    text = result.model_dump_json()
    if len(text) > RESULT_LIMIT:
        text = result.model_copy(update={"timings": {}, "usage": None}).model_dump_json()
    return text

"""Task tokens: telling the state machine how a job ended, and hearing from it whether anybody still waits."""

import asyncio
import logging
import random
from typing import Any, Literal

from botocore.exceptions import BotoCoreError, ClientError

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import RESULT_LIMIT, Result

# The execution was stopped, timed out, or has been answered.
GONE = ("TaskTimedOut", "TaskDoesNotExist")
JITTER = 0.1

log = logging.getLogger(__name__)

Heard = Literal["alive", "gone", "unknown"]


class Tasks:
    """Step Functions, as a worker sees it. What is not `async` blocks."""

    def __init__(self, stepfunctions: Any, heartbeat_seconds: float) -> None:
        self._stepfunctions = stepfunctions
        self._heartbeat_seconds = heartbeat_seconds

    def heartbeat(self, job_id: str, task_token: str) -> Heard:
        """Ask once. What is no clear answer (throttling, a fault of the service) is `unknown`, never `gone`."""
        try:
            self._stepfunctions.send_task_heartbeat(taskToken=task_token)
        except ClientError as error:
            return self._heard(job_id, error)
        except BotoCoreError:
            log.warning("heartbeat of job %s got no answer", job_id, exc_info=True)
            return "unknown"
        return "alive"

    def _heard(self, job_id: str, error: ClientError) -> Heard:
        code = error.response["Error"]["Code"]
        if code in GONE:
            return "gone"
        if code == "InvalidToken":
            # A token of another account or region, or of another cloud altogether: nobody here can answer it.
            log.error("the task token of job %s is not of this account and region", job_id)
        else:
            log.warning("heartbeat of job %s: %s", job_id, code)
        return "unknown"

    async def until_gone(self, job_id: str, task_token: str) -> None:
        """Return when nobody waits for the job any more; until then, never."""
        while True:
            await asyncio.sleep(self._heartbeat_seconds * random.uniform(1 - JITTER, 1 + JITTER))
            if await asyncio.to_thread(self.heartbeat, job_id, task_token) == "gone":
                return

    def report(self, task_token: str, result: Result) -> None:
        """Say how the job ended; said before, or to nobody, it is no error."""
        try:
            if result.error is None:
                self._stepfunctions.send_task_success(taskToken=task_token, output=_output(result))
            else:
                self.fail(task_token, result.error)
        except ClientError as error:
            if error.response["Error"]["Code"] not in (*GONE, "InvalidToken"):
                raise
            log.info("job %s: nobody waits for its result any more", result.job_id)

    def fail(self, task_token: str, error: Error) -> None:
        """SendTaskFailure as it is."""
        self._stepfunctions.send_task_failure(taskToken=task_token, error=error.code, cause=error.cause())


def _output(result: Result) -> str:
    """The result as JSON, within the limit of a callback: timings and usage are left out where they are too many."""
    text = result.model_dump_json()
    if len(text) > RESULT_LIMIT:
        text = result.model_copy(update={"timings": {}, "usage": None}).model_dump_json()
    return text

"""Start the runs that VAMS asks for, each on one or several files; a repeated call joins its run (decision 033)."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.result import Result
from cosmos_batch.contract.vams import MARGIN_SECONDS
from cosmos_batch.planning.executions import execution_name
from cosmos_batch.state import Group, Groups
from lambdas.clients import state_table, vams_client
from lambdas.log import log, log_fault
from lambdas.step_functions import send_failure, start_execution
from lambdas.vams.answers import answer, end_in_group
from lambdas.vams.body import TASK_TOKEN, read_call
from lambdas.vams.orchestration_bus import register
from lambdas.vams.requests import FileRequest, WorkflowCall


class RunStarter:
    """Starts the runs of one pipeline."""

    def __init__(self, environment: VamsEnvironment) -> None:
        self._environment = environment
        self._table = state_table(environment.state_table)
        self._groups = Groups(self._table)

    def start(self, body: dict[str, Any], token: str) -> str:
        """Start the run that a body asks for, or join it, and return its id; answer the token if that fails."""
        run_id = self._run_id(body)
        try:
            pipeline = pipeline_named(self._environment.pipeline)
            assert pipeline is not None, "infra deploys the pipelines of the catalogue"
            seconds = self._environment.task_timeout_seconds - MARGIN_SECONDS
            call = read_call(body, pipeline, datetime.now(UTC) + timedelta(seconds=seconds))
            register(self._join(run_id, token, call), call.event_prefix, self._environment)
        except Failure as failure:
            log("refused", jobId=run_id, code=failure.error.code)
            self._refuse(run_id, token, failure.error)
        except Exception as error:
            log_fault("not started", error, jobId=run_id)
            self._refuse(run_id, token, _could_not_start(error))
        return run_id

    def _run_id(self, body: dict[str, Any]) -> str:
        """Return the id of the run that a body asks for, whichever token it has.

        VAMS invokes the function again where the run has failed or the call itself has, each time with another token.
        Everything else in the body is the same, and differs from that of any other run: it says where the results go.
        """
        without_token = {name: value for name, value in body.items() if name != TASK_TOKEN}
        text = json.dumps(without_token, sort_keys=True)
        return execution_name(self._environment.pipeline, hashlib.sha256(text.encode()).hexdigest())

    def _join(self, run_id: str, token: str, call: WorkflowCall) -> list[str]:
        """Let the token wait for the run, start its files that neither run nor have ended, and return the jobs' ids.

        A run that has ended is answered at once with its output, but files whose error is retryable are tried again.
        """
        group = self._groups.wait(run_id, token, len(call.files), call.output_files)
        if group.has_answered(token):
            return []
        while group.may_pass:
            group = self._groups.reopen(group, token)
        if group.answered_at is not None:
            answer(group, [token], group.output, self._environment.callback_role_arn)
            return []
        return self._start_jobs(group, call.files)

    def _start_jobs(self, group: Group, files: list[FileRequest]) -> list[str]:
        """Start an execution for each file that has not ended and has none yet, and return the jobs' ids.

        A file whose execution cannot be started counts as failed; VAMS is told of it when all files have ended.
        """
        jobs = []
        for number, file in enumerate(files):
            attempts = [self._job_id(group, number, attempt) for attempt in range(group.attempt + 1)]
            if not group.ended.isdisjoint(attempts):
                continue
            job = attempts[-1]
            self._groups.join(job, group, file.name)
            try:
                self._start_job(job, file)
                jobs.append(job)
            except Exception as error:
                log_fault("not started", error, jobId=job)
                result = Result(job_id=job, error=_could_not_start(error))
                end_in_group(result, self._table, self._environment.callback_role_arn)
        return jobs

    def _job_id(self, group: Group, number: int, attempt: int) -> str:
        """Return the id of the job for a file in one of the run's attempts. A single file's first job has the run's id.

        `number` is the file's place in the run.
        """
        parts = [str(number)] if group.jobs > 1 else []
        parts += [f"attempt {attempt}"] if attempt else []
        return execution_name(self._environment.pipeline, group.id, *parts) if parts else group.id

    def _start_job(self, job_id: str, file: FileRequest) -> None:
        environment = self._environment
        start_execution(environment.state_machine_arn, job_id, file.request, environment.state_bucket)
        log("started", jobId=job_id)

    def _refuse(self, run_id: str, token: str, error: Error) -> None:
        stepfunctions = vams_client("stepfunctions", self._environment.callback_role_arn)
        send_failure(run_id, token, error, stepfunctions)


def _could_not_start(error: Exception) -> Error:
    return Error(
        code="Internal",
        message=f"The run could not be started ({type(error).__name__}).",
        remedy="Run it again in a few minutes; if that fails too, see the function's log.",
        retryable=True,
    )

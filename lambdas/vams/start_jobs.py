"""Start what VAMS asks for: a job for one file, a run for several. A repeated call joins its run (decision 033)."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.vams import MARGIN_SECONDS
from cosmos_batch.planning.executions import execution_name
from cosmos_batch.state import Group, Groups, Runs
from lambdas.clients import state_table, vams_client
from lambdas.log import log, log_fault
from lambdas.step_functions import send_failure, start_execution, start_run
from lambdas.vams.answers import answer, answer_all, end_in_group
from lambdas.vams.body import TASK_TOKEN, read_call
from lambdas.vams.orchestration_bus import register
from lambdas.vams.requests import WorkflowCall
from lambdas.vams.run_items import write_run


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
            execution = self._join(run_id, token, call)
            if execution is not None:
                register(execution, call.event_prefix, self._environment)
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

    def _join(self, run_id: str, token: str, call: WorkflowCall) -> str | None:
        """Let the token wait for the run, and start it unless that is done. Returns the name of its execution, if any.

        A run that has ended is answered at once as it ended, but if its error may pass, it is tried again. One that an
        earlier release started with an execution for each file is only waited for.
        """
        group = self._groups.wait(run_id, token, call.output_files)
        if group.has_answered(token):
            return None
        while group.may_pass and group.jobs == 1:
            group = self._groups.reopen(group, token)
        if group.answered_at is not None:
            answer(group, [token], group.output, self._environment.callback_role_arn)
            return None
        if group.jobs == 1 and group.complete:  # what noted its end has failed before it answered
            answer_all(group, self._groups, self._environment.callback_role_arn)
        return None if group.ended or group.jobs > 1 else self._start(group, call)

    def _start(self, group: Group, call: WorkflowCall) -> str | None:
        """Start the execution of the group's present attempt, if it has none. Returns its name.

        If it cannot be started, that is how the attempt ends.
        """
        name = group.id
        if group.attempt:
            name = execution_name(self._environment.pipeline, group.id, f"attempt {group.attempt}")
        self._groups.join(name, group, call.files[0].name)
        try:
            self._start_execution(name, call)
        except Exception as error:
            log_fault("not started", error, jobId=name)
            end_in_group(name, _could_not_start(error), self._table, self._environment.callback_role_arn)
            return None
        log("started", jobId=name, files=len(call.files))
        return name

    def _start_execution(self, name: str, call: WorkflowCall) -> None:
        """Start an execution of this name: for one file that of a job, for several files that of a run."""
        machine, bucket = self._environment.state_machine_arn, self._environment.state_bucket
        if len(call.files) == 1:
            start_execution(machine, name, call.files[0].request, bucket)
        elif Runs(self._table).get(name) is None:
            write_run(name, call, bucket)
            start_run(machine, name)

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

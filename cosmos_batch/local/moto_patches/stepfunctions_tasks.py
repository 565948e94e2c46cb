"""Patches of tasks of Step Functions: a state's call has the credentials of the role and AWS's casing of names."""

from __future__ import annotations

import copy
import functools
import sys
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.stepfunctions.parser.api import HistoryEventType
from moto.stepfunctions.parser.asl.component.common.error_name.custom_error_name import CustomErrorName
from moto.stepfunctions.parser.asl.component.common.error_name.failure_event import FailureEvent
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_factory  # noqa: F401
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service import StateTaskService
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_lambda import (
    StateTaskServiceLambda,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task.state_task_lambda import StateTaskLambda
from moto.stepfunctions.parser.asl.eval.event.event_detail import EventDetails
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

from cosmos_batch.local import recorded_calls, runtime
from cosmos_batch.local.moto_patches.registry import patch, replace


@patch(
    "stepfunctions_tasks.tasks-call-as-the-machine",
    brings="A task calls its service with the credentials of the role that the task or the machine has.",
    moto="Makes a new client for each call, with the account's credentials.",
    source="https://docs.aws.amazon.com/step-functions/latest/dg/concepts-access-cross-acct-resources.html",
)
def _call_as_the_machine() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("moto.stepfunctions.parser") and hasattr(module, "boto_client_for"):
            replace(module, "boto_client_for", _client_for)


@patch(
    "stepfunctions_tasks.definitions-are-parsed-once",
    brings="Speed: a definition is parsed once; where states keep the progress of one execution, that has a copy.",
    moto="Parses the definition for each execution.",
    source="https://github.com/getmoto/moto/blob/master/moto/stepfunctions/parser/backend/execution_worker.py",
)
def _parse_definitions_once() -> None:
    replace(ExecutionWorker, "_get_evaluation_entrypoint", _parsed_definition)


@patch(
    "stepfunctions_tasks.integrations-use-the-api-casing",
    brings="An SDK integration takes and returns members in the casing of the service's own API.",
    moto="Passes parameters and responses on as they are.",
    source="https://docs.aws.amazon.com/step-functions/latest/dg/supported-services-awssdk.html",
)
def _convert_casing() -> None:
    replace(StateTaskService, "_normalise_parameters", _to_api_casing)
    replace(StateTaskService, "_normalise_response", _from_api_casing)


@patch(
    "stepfunctions_tasks.refusals-of-lambda-have-names",
    brings="Where a state names a function, a refusal by Lambda is an error such as Lambda.TooManyRequestsException.",
    moto="Calls each refusal by Lambda Exception.",
    source="https://docs.aws.amazon.com/step-functions/latest/dg/connect-lambda.html",
)
def _name_refusals_of_lambda() -> None:
    original = StateTaskLambda._from_error

    def from_error(self: StateTaskLambda, env: Any, ex: Exception) -> FailureEvent:
        if not isinstance(ex, ClientError):
            return original(self, env, ex)
        # A failure of the local server itself has no request id, for the lack of which moto would end the execution.
        ex.response["ResponseMetadata"].setdefault("RequestId", "")
        error, cause = StateTaskServiceLambda._error_cause_from_client_error(ex)
        return FailureEvent(
            env=env,
            error_name=CustomErrorName(error),
            event_type=HistoryEventType.LambdaFunctionFailed,
            event_details=EventDetails(lambdaFunctionFailedEventDetails={"error": error, "cause": cause}),
        )

    replace(StateTaskLambda, "_from_error", from_error)


def _client_for(region: str, service: str, state_credentials: Any = None) -> Any:
    return _client(region, service, state_credentials.role_arn if state_credentials else "")


@functools.cache
def _client(region: str, service: str, role_arn: str) -> Any:
    """Return the client with which the machines of a role call a service; any number of threads may use it."""
    keys = recorded_calls.credentials_of(role_arn)
    session = boto3.session.Session(keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], keys["AWS_SESSION_TOKEN"])
    return session.client(
        service,
        region_name=region,
        endpoint_url=runtime.current().endpoint,
        config=Config(
            parameter_validation=False,
            retries={"total_max_attempts": 1},
            read_timeout=24 * 3600,
            max_pool_connections=64,
        ),
    )


def _parsed_definition(self: ExecutionWorker) -> Any:
    definition = self._evaluation_details.state_machine_details.definition
    # Map and Parallel keep the progress of one execution inside their parsed states; all others keep it in the
    # environment of the execution.
    keeps_progress = '"Map"' in definition or '"Parallel"' in definition
    return copy.deepcopy(_parse(definition)) if keeps_progress else _parse(definition)


@functools.lru_cache(32)
def _parse(definition: str) -> Any:
    return AmazonStateLanguageParser.parse(definition)[0]


@functools.cache
def _operation(service: str, action: str) -> Any:
    model = botocore.session.get_session().get_service_model(service)
    wanted = action.replace("_", "").lower()
    return model.operation_model(next(name for name in model.operation_names if name.lower() == wanted))


def _to_api_casing(
    self: StateTaskService,
    parameters: Any,
    boto_service_name: str | None = None,
    service_action_name: str | None = None,
) -> None:
    service, action = self._get_boto_service_name(boto_service_name), self._get_boto_service_action(service_action_name)
    shape = _operation(service, action).input_shape
    if shape:
        self._to_boto_request(parameters, shape)


def _from_api_casing(
    self: StateTaskService, response: Any, boto_service_name: str | None = None, service_action_name: str | None = None
) -> None:
    service, action = self._get_boto_service_name(boto_service_name), self._get_boto_service_action(service_action_name)
    shape = _operation(service, action).output_shape
    if shape:
        self._from_boto_response(response, shape)

"""The tasks of Step Functions: what a state calls, as whom, and in which casing.

AWS: a task calls its service as the machine's role; an SDK integration takes and gives names in AWS's casing; what
Lambda itself refuses is an error such as ``Lambda.TooManyRequestsException``.

moto: makes a new boto3 client for each call and parses the definition anew for each execution; its port of the
integrations left the casing out; where a state names a function, it calls each refusal by Lambda ``Exception``.

Mend: clients and definitions are kept; the casing comes from the services' own models; refusals by Lambda have the name
that moto gives them where a state names ``lambda:invoke``.
"""

from __future__ import annotations

import functools
import json
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

from cosmos_batch.local import identity, runtime


def apply() -> None:
    """Install the mend."""
    for name, module in list(sys.modules.items()):
        if name.startswith("moto.stepfunctions.parser") and hasattr(module, "boto_client_for"):
            vars(module)["boto_client_for"] = _client_for
    ExecutionWorker._get_evaluation_entrypoint = _parsed_definition
    StateTaskService._normalise_parameters = _to_api_casing
    StateTaskService._normalise_response = _from_api_casing
    _name_refusals_of_lambda()


def _name_refusals_of_lambda() -> None:
    original = StateTaskLambda._from_error

    def from_error(self: StateTaskLambda, env: Any, ex: Exception) -> FailureEvent:
        if not isinstance(ex, ClientError):
            return original(self, env, ex)
        # On AWS every answer has one. The local server's own failures have none, and moto would end the execution.
        ex.response["ResponseMetadata"].setdefault("RequestId", "")
        error, cause = StateTaskServiceLambda._error_cause_from_client_error(ex)
        return FailureEvent(
            env=env,
            error_name=CustomErrorName(error),
            event_type=HistoryEventType.LambdaFunctionFailed,
            event_details=EventDetails(lambdaFunctionFailedEventDetails={"error": error, "cause": cause}),
        )

    StateTaskLambda._from_error = from_error


def _client_for(region: str, service: str, state_credentials: Any = None) -> Any:
    return _client(region, service, state_credentials.role_arn if state_credentials else "")


@functools.cache
def _client(region: str, service: str, role_arn: str) -> Any:
    """Return the client with which the machines of a role call a service. One serves any number of threads."""
    keys = identity.credentials_of(role_arn)
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
    if '"Map"' in definition or '"Parallel"' in definition:
        return AmazonStateLanguageParser.parse(definition)[0]
    return _parse(definition)


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


def state_machine_definition(properties: dict[str, Any], read_object: Any) -> str:
    """Return the definition that a template gives, inline, as an object or in S3, with its substitutions made."""
    if "DefinitionS3Location" in properties:
        place = properties["DefinitionS3Location"]
        definition = read_object(place["Bucket"], place["Key"]).decode()
    elif "Definition" in properties:
        definition = json.dumps(properties["Definition"])
    else:
        definition = properties["DefinitionString"]
    for name, value in properties.get("DefinitionSubstitutions", {}).items():
        definition = definition.replace(f"${{{name}}}", str(value))
    return definition

"""Register an execution on the event bus of VAMS 2.6, so that aborting a workflow in VAMS stops it."""

import json

from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.planning.executions import execution_arn
from lambdas.clients import vams_client
from lambdas.log import log, log_fault

REGISTER = "pipeline.execution.register"


def register(execution: str, event_prefix: str | None, environment: VamsEnvironment) -> None:
    """Register the execution of this name. A failure is logged and nothing else: VAMS runs without it.

    `event_prefix` is `<source>.execution.<id>.pipeline.<id>`, from the manifest; without one, or without a bus, nothing
    is registered.
    """
    bus = environment.orchestration_bus
    if bus is None or not event_prefix:
        return
    detail = json.dumps(_detail(execution, event_prefix, environment))
    entry = {"EventBusName": bus, "Source": event_prefix, "DetailType": REGISTER, "Detail": detail}
    try:
        answer = vams_client("events", environment.callback_role_arn).put_events(Entries=[entry])
        log("registered with VAMS", execution=execution, refused=answer["FailedEntryCount"])
    except Exception as error:
        log_fault("not registered with VAMS: its abort will not stop it", error, execution=execution)


def _detail(execution: str, event_prefix: str, environment: VamsEnvironment) -> dict[str, object]:
    machine = environment.state_machine_arn
    log_group = environment.log_group_arn
    return {
        "pipelineExecutionId": event_prefix.rpartition(".pipeline.")[2],
        "subExecution": {
            "resourceType": "stepFunctionsExecution",
            "stateMachineArn": machine,
            "executionArn": execution_arn(machine, execution),
        },
        "logs": [{"logGroupArn": log_group, "logGroupName": log_group.partition(":log-group:")[2].removesuffix(":*")}],
    }

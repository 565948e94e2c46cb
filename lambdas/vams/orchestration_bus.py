"""Register executions on the event bus of VAMS 2.6, so that aborting a workflow in VAMS stops them."""

import json

from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.planning.executions import execution_arn
from lambdas.clients import vams_client
from lambdas.log import log, log_fault

REGISTER = "pipeline.execution.register"
ENTRIES_AT_ONCE = 10  # entries in one call of PutEvents


def register(jobs: list[str], event_prefix: str | None, environment: VamsEnvironment) -> None:
    """Register the executions of these jobs. A failure is logged and nothing else: VAMS runs without it.

    `event_prefix` is `<source>.execution.<id>.pipeline.<id>`, from the manifest; without one, or without a bus, nothing
    is registered.
    """
    bus = environment.orchestration_bus
    if bus is None or not event_prefix:
        return
    entries = [
        {"EventBusName": bus, "Source": event_prefix, "DetailType": REGISTER, "Detail": json.dumps(detail)}
        for detail in (_detail(job, event_prefix, environment) for job in jobs)
    ]
    try:
        events = vams_client("events", environment.callback_role_arn)
        refused = sum(
            events.put_events(Entries=entries[first : first + ENTRIES_AT_ONCE])["FailedEntryCount"]
            for first in range(0, len(entries), ENTRIES_AT_ONCE)
        )
        log("registered with VAMS", executions=len(entries), refused=refused)
    except Exception as error:
        log_fault("not registered with VAMS: its abort will not stop them", error, executions=len(entries))


def _detail(job: str, event_prefix: str, environment: VamsEnvironment) -> dict[str, object]:
    machine = environment.state_machine_arn
    log_group = environment.log_group_arn
    return {
        "pipelineExecutionId": event_prefix.rpartition(".pipeline.")[2],
        "subExecution": {
            "resourceType": "stepFunctionsExecution",
            "stateMachineArn": machine,
            "executionArn": execution_arn(machine, job),
        },
        "logs": [{"logGroupArn": log_group, "logGroupName": log_group.partition(":log-group:")[2].removesuffix(":*")}],
    }

"""Lambda: functions run their deployed code in warm processes, with the errors, timeouts and logs of AWS."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.local.cloud import LocalCloud
from tests.local.support import Stack, wait_until

HANDLER = """
import os, sys, time
print("imported")
def handler(event, context):
    print("printed", event.get("say"))
    if "sleep" in event: time.sleep(event["sleep"])
    if "exit" in event: os._exit(event["exit"])
    if "fail" in event: raise ValueError(event["fail"])
    if "value" in event: return {1, 2}
    return {"pid": os.getpid(), "name": context.function_name, "left": context.get_remaining_time_in_millis(),
            "request": context.aws_request_id, "env": os.environ.get("GREETING"), "path": sys.path[0],
            "keys": os.environ["AWS_ACCESS_KEY_ID"]}
"""


@pytest.fixture(scope="module")
def function(module_stack: Stack) -> str:
    environment = {"Variables": {"GREETING": "hello"}}
    resources = {"F": module_stack.function(HANDLER, Timeout=2, Environment=environment)}
    return module_stack.put(resources, {"Name": {"Ref": "F"}})["Name"]


def invoke(cloud: LocalCloud, name: str, event: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    answer = cloud.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event), **options)
    text = answer["Payload"].read()
    return (json.loads(text) if text else None), answer


def logged(cloud: LocalCloud, group: str) -> list[str]:
    return [event["message"] for event in cloud.client("logs").filter_log_events(logGroupName=group)["events"]]


def test_the_deployed_code_runs_with_its_environment_and_context(cloud: LocalCloud, function: str) -> None:
    result, answer = invoke(cloud, function, {})
    assert answer["StatusCode"] == 200
    assert result["env"] == "hello"
    assert result["name"] == function
    assert 0 < result["left"] <= 2000
    assert result["request"]


def test_a_function_with_reserved_concurrency_0_is_throttled(cloud: LocalCloud, function: str) -> None:
    client = cloud.client("lambda")
    client.put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=0)
    with pytest.raises(client.exceptions.TooManyRequestsException):
        client.invoke(FunctionName=function, Payload=b"{}")
    client.delete_function_concurrency(FunctionName=function)
    assert invoke(cloud, function, {})[1]["StatusCode"] == 200


def test_a_state_that_names_a_throttled_function_fails_with_lambdas_error(cloud: LocalCloud, function: str) -> None:
    client, states = cloud.client("lambda"), cloud.client("stepfunctions")
    arn = client.get_function(FunctionName=function)["Configuration"]["FunctionArn"]
    client.put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=0)
    call = {"Type": "Task", "Resource": arn, "End": True}
    machine = states.create_state_machine(
        name=f"calls-{function}",
        definition=json.dumps({"StartAt": "Call", "States": {"Call": call}}),
        roleArn="arn:aws:iam::123456789012:role/machine",
    )["stateMachineArn"]
    execution = states.start_execution(stateMachineArn=machine, input="{}")["executionArn"]
    ended = wait_until(
        lambda: (described := states.describe_execution(executionArn=execution))["status"] != "RUNNING" and described
    )
    assert (ended["status"], ended["error"]) == ("FAILED", "Lambda.TooManyRequestsException")
    client.delete_function_concurrency(FunctionName=function)


def test_a_warm_invocation_is_in_the_same_process(cloud: LocalCloud, function: str) -> None:
    client = cloud.client("lambda")
    first = json.load(client.invoke(FunctionName=function, Payload=b"{}")["Payload"])
    again = json.load(client.invoke(FunctionName=function, Payload=b"{}")["Payload"])
    assert again["pid"] == first["pid"]
    assert again["request"] != first["request"]


def test_an_exception_is_an_unhandled_function_error(cloud: LocalCloud, function: str) -> None:
    result, answer = invoke(cloud, function, {"fail": "no such clip"})
    assert answer["FunctionError"] == "Unhandled"
    assert (result["errorType"], result["errorMessage"]) == ("ValueError", "no such clip")
    assert result["stackTrace"]
    assert result["requestId"]


def test_a_result_that_is_not_json_is_a_marshal_error(cloud: LocalCloud, function: str) -> None:
    result, answer = invoke(cloud, function, {"value": 1})
    assert answer["FunctionError"] == "Unhandled"
    assert result["errorType"] == "Runtime.MarshalError"


def test_a_handler_that_exceeds_its_timeout_is_killed(cloud: LocalCloud, function: str) -> None:
    before, _ = invoke(cloud, function, {})
    result, answer = invoke(cloud, function, {"sleep": 60})
    assert answer["FunctionError"] == "Unhandled"
    assert "Task timed out after 2.00 seconds" in result["errorMessage"]
    after, _ = invoke(cloud, function, {})
    assert after["pid"] != before["pid"]


def test_a_process_that_exits_is_an_error_and_is_replaced(cloud: LocalCloud, function: str) -> None:
    result, _ = invoke(cloud, function, {"exit": 3})
    assert "exit status 3" in result["errorMessage"]
    assert invoke(cloud, function, {})[0]["name"] == function


def test_printed_lines_are_log_events_and_no_part_of_the_result(cloud: LocalCloud, function: str) -> None:
    result, answer = invoke(cloud, function, {"say": "good morning"}, LogType="Tail")
    assert result["name"] == function
    assert "printed good morning" in logged(cloud, f"/aws/lambda/{function}")
    assert "LogResult" in answer


def test_an_event_invocation_returns_at_once_and_retries(cloud: LocalCloud, stack: Stack, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    code = (
        "import os, time\ndef handler(event, context):\n"
        "    while not os.path.exists(event['gate']):\n        time.sleep(0.05)\n"
        "    print('attempt')\n    raise RuntimeError('always')\n"
    )
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": f"/own/{stack.name}"}}
    resources = {"G": group, "F": stack.function(code, LoggingConfig={"LogGroup": {"Ref": "G"}}, Timeout=60)}
    name = stack.put(resources, {"Name": {"Ref": "F"}})["Name"]
    _, answer = invoke(cloud, name, {"gate": str(gate)}, InvocationType="Event")
    assert answer["StatusCode"] == 202
    gate.touch()  # until now, the function could not end
    wait_until(lambda: logged(cloud, f"/own/{stack.name}").count("attempt") == 3)


def test_new_code_and_environment_take_effect_on_update(cloud: LocalCloud, stack: Stack) -> None:
    code = "import os\ndef handler(event, context):\n    return [{!r}, os.environ.get('A')]\n"
    outputs = {"Name": {"Ref": "F"}}
    name = stack.put({"F": stack.function(code.format("old"))}, outputs)["Name"]
    assert invoke(cloud, name, {})[0] == ["old", None]
    stack.put({"F": stack.function(code.format("new"), Environment={"Variables": {"A": "1"}})}, outputs)
    assert invoke(cloud, name, {})[0] == ["new", "1"]


def test_a_package_in_the_zip_takes_precedence_over_the_checkout(cloud: LocalCloud, stack: Stack) -> None:
    files = {
        "cosmos_batch/__init__.py": "WHERE = 'zip'\n",
        "index.py": "import cosmos_batch\ndef handler(event, context):\n    return cosmos_batch.WHERE\n",
    }
    name = stack.put({"F": stack.function(files)}, {"Name": {"Ref": "F"}})["Name"]
    assert invoke(cloud, name, {})[0] == "zip"


def test_a_package_that_the_zip_lacks_cannot_be_imported(cloud: LocalCloud, stack: Stack) -> None:
    code = "import cosmos_batch\ndef handler(event, context):\n    return cosmos_batch.__file__\n"
    name = stack.put({"F": stack.function(code)}, {"Name": {"Ref": "F"}})["Name"]
    result, answer = invoke(cloud, name, {})
    assert answer["FunctionError"] == "Unhandled"
    assert result["errorType"] == "Runtime.ImportModuleError"


def test_concurrent_invocations_have_processes_of_their_own(cloud: LocalCloud, function: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda _: invoke(cloud, function, {"sleep": 0.5})[0]["pid"], range(3)))
    assert len(set(answers)) == 3


def test_an_invocation_that_outlives_its_function_creates_no_log_group(
    cloud: LocalCloud, stack: Stack, tmp_path: Path
) -> None:
    handler = """
import pathlib, time
def handler(event, context):
    folder = pathlib.Path(event["folder"])
    (folder / "begun").touch()
    while not (folder / "deleted").exists(): time.sleep(0.02)
"""
    name = stack.put({"F": stack.function(handler)}, {"Name": {"Ref": "F"}})["Name"]
    with ThreadPoolExecutor(1) as threads:
        invoked = threads.submit(invoke, cloud, name, {"folder": str(tmp_path)})
        wait_until((tmp_path / "begun").exists)
        stack.delete()
        (tmp_path / "deleted").touch()
        assert invoked.result()[1]["StatusCode"] == 200
    groups = cloud.client("logs").describe_log_groups(logGroupNamePrefix=f"/aws/lambda/{name}")["logGroups"]
    assert groups == []

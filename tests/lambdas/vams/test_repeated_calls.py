"""When VAMS invokes the function again with another token, the token joins the run and nothing is done twice."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cosmos_batch.contract.environment import ReportEnvironment, VamsEnvironment
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Result
from cosmos_batch.state import Group, Groups
from lambdas.handlers import vams
from tests.lambdas.cloud import Cloud, event
from tests.lambdas.vams.test_answers import ended, failure, forget_report


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(VamsEnvironment)
    configure(ReportEnvironment)


def call(token: str, **changes: Any) -> str:
    """Invoke the function as VAMS 2.5 does; returns the run."""
    body = {**event("vams_object_body")["body"], "TaskToken": token, **changes}
    answer = vams.handler({"body": body}, None)
    assert answer["statusCode"] == 200
    run: str = json.loads(answer["body"])["jobId"]
    return run


def names(cloud: Cloud) -> list[str]:
    return [execution["name"] for execution in cloud.executions()]


def answers(cloud: Cloud) -> dict[str, str]:
    """Return the answer to each token, having checked that none was answered twice."""
    answers_by_token = {answer["taskToken"]: answer.get("error", "success") for answer in cloud.stepfunctions.answers}
    assert len(answers_by_token) == len(cloud.stepfunctions.answers)
    return answers_by_token


PERMANENT = failure("InvalidInput", "It is no video.")
PASSING = failure("NoCapacity", "No worker could be started.", retryable=True)


def test_the_same_call_again_is_the_same_run(cloud: Cloud) -> None:
    assert call("one") == call("one") == names(cloud)[0]
    assert len(names(cloud)) == 1


def test_another_execution_of_vams_is_another_run(cloud: Cloud) -> None:
    other = event("vams_object_body")["body"]["outputS3AssetFilesPath"].replace("exec1", "exec2")
    assert call("one") != call("two", outputS3AssetFilesPath=other)
    assert len(names(cloud)) == 2


def test_a_retry_joins_the_running_run_and_both_tokens_are_answered(cloud: Cloud) -> None:
    """VAMS calls again, for example, when its first call had started the run and then failed."""
    run = call("one")
    assert call("two") == run and names(cloud) == [run]
    ended(run)
    assert answers(cloud) == {"one": "success", "two": "success"}


def test_a_retry_after_a_success_is_answered_with_it_at_once(cloud: Cloud) -> None:
    """VAMS calls again, for example, when its first task timed out before the token was answered."""
    run = call("one")
    result = ended(run)
    call("two")
    assert names(cloud) == [run] and answers(cloud) == {"one": "success", "two": "success"}
    assert Result.model_validate_json(cloud.stepfunctions.answers[1]["output"]) == result


def test_a_retry_after_a_permanent_failure_is_answered_with_it_at_once(cloud: Cloud) -> None:
    run = call("one")
    ended(run, PERMANENT)
    for token in ("two", "three"):
        call(token)
        assert Error.model_validate_json(cloud.stepfunctions.answers[-1]["cause"]) == PERMANENT
    assert names(cloud) == [run]
    assert answers(cloud) == dict.fromkeys(("one", "two", "three"), "InvalidInput")


def test_a_retry_after_a_failure_that_may_pass_runs_again(cloud: Cloud) -> None:
    first = call("one")
    ended(first, PASSING)
    assert call("two") == first
    [second] = set(names(cloud)) - {first}
    ended(second, PASSING)
    call("three")
    [third] = set(names(cloud)) - {first, second}
    ended(third)
    assert answers(cloud) == {"one": "NoCapacity", "two": "NoCapacity", "three": "success"}


def test_a_token_that_was_answered_starts_nothing_again(cloud: Cloud) -> None:
    """Step Functions delivered a call twice, and no task waits with that token any more."""
    run = call("one")
    ended(run, PASSING)
    call("one")
    assert names(cloud) == [run] and answers(cloud) == {"one": "NoCapacity"}


def test_a_late_end_of_an_earlier_attempt_does_not_end_the_later_attempt(cloud: Cloud) -> None:
    first = call("one")
    ended(first, PASSING)
    call("two")
    cloud.dynamodb.delete_item(TableName="state", Key={"pk": {"S": f"job#{first}"}, "sk": {"S": "report"}})
    ended(first, PASSING)
    assert answers(cloud) == {"one": "NoCapacity"}
    [second] = set(names(cloud)) - {first}
    ended(second)
    assert answers(cloud) == {"one": "NoCapacity", "two": "success"}


def test_a_token_that_comes_while_another_begins_the_next_attempt_waits_for_that(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call reads the run as answered, but when it reads the answer the run is under way again."""
    first = call("one")
    ended(first, PASSING)
    look = Groups.get

    def look_after_another(self: Groups, group: str) -> Group | None:
        monkeypatch.setattr(Groups, "get", look)
        call("two")
        return look(self, group)

    monkeypatch.setattr(Groups, "get", look_after_another)
    call("three")
    [second] = set(names(cloud)) - {first}
    ended(second)
    assert answers(cloud) == {"one": "NoCapacity", "two": "success", "three": "success"}


def test_a_late_answer_does_not_end_the_next_attempt(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes note the last end; one answers, VAMS retries, and then the other one sends its answer."""
    first = call("one")
    send = cloud.stepfunctions.send_task_failure

    def send_late(**answer: str) -> None:
        monkeypatch.setattr(cloud.stepfunctions, "send_task_failure", send)
        forget_report(cloud, first)
        ended(first, PASSING)
        call("two")
        cloud.stepfunctions.refusal = "TaskTimedOut"
        send(**answer)

    monkeypatch.setattr(cloud.stepfunctions, "send_task_failure", send_late)
    ended(first, PASSING)
    cloud.stepfunctions.refusal = None
    [second] = set(names(cloud)) - {first}
    ended(second)
    assert answers(cloud) == {"one": "NoCapacity", "two": "success"}


@pytest.mark.parametrize("end", [None, PERMANENT])
def test_ten_retries_at_once_are_one_run_and_each_is_answered_once(cloud: Cloud, end: Error | None) -> None:
    tokens = [f"token-{number}" for number in range(10)]
    with ThreadPoolExecutor(10) as threads:
        [run] = set(threads.map(call, tokens))
    assert names(cloud) == [run]
    ended(run, end)
    assert answers(cloud) == dict.fromkeys(tokens, "success" if end is None else end.code)


def test_ten_retries_at_once_of_a_failure_that_may_pass_are_one_further_run(cloud: Cloud) -> None:
    first = call("one")
    ended(first, PASSING)
    tokens = [f"token-{number}" for number in range(10)]
    with ThreadPoolExecutor(10) as threads:
        list(threads.map(call, tokens))
    [second] = set(names(cloud)) - {first}
    ended(second)
    assert answers(cloud) == {"one": "NoCapacity", **dict.fromkeys(tokens, "success")}

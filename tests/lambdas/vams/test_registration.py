"""Registration calls VAMS's import function as CDK's framework does, and returns its answer to CloudFormation."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lambdas.handlers import register_vams
from lambdas.vams import registration
from tests.lambdas.cloud import ResponseUrl, event

ID = "vams-import/cosmos-reason2-2b"


class ImportFunction:
    """A fake of VAMS's import function, behind Lambda's API."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.says: object = {"PhysicalResourceId": "cosmos-reason2-2b", "Data": {}}
        self.raises = False
        self.refusal: Exception | None = None

    def invoke(self, FunctionName: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803 - boto3's names
        assert FunctionName == "vams-import"
        if self.refusal:
            raise self.refusal
        self.requests.append(json.loads(Payload))
        payload = self.says if isinstance(self.says, bytes) else json.dumps(self.says).encode()
        return {"Payload": io.BytesIO(payload), **({"FunctionError": "Unhandled"} if self.raises else {})}


@pytest.fixture
def vams(monkeypatch: pytest.MonkeyPatch) -> ImportFunction:
    function = ImportFunction()
    monkeypatch.setattr(registration, "client", lambda: function)
    return function


def ask(cloudformation: ResponseUrl, request_type: str = "Create", **more: Any) -> dict[str, Any]:
    """Send a request as CloudFormation does; returns the answer."""
    url, answers = cloudformation
    register_vams.handler(
        {**event("cloudformation_vams"), "RequestType": request_type, "ResponseURL": url, **more}, None
    )
    [answer] = answers
    return answer


def test_a_create_request_is_sent_to_vams_as_a_create_request(
    vams: ImportFunction, cloudformation: ResponseUrl
) -> None:
    request = event("cloudformation_vams")
    answer = ask(cloudformation)
    assert vams.requests == [
        {
            "RequestType": "Create",
            "ResponseURL": "...",
            "StackId": request["StackId"],
            "RequestId": request["RequestId"],
            "LogicalResourceId": request["LogicalResourceId"],
            "ResourceType": "Custom::VamsRegistration",
            "ResourceProperties": request["ResourceProperties"]["Import"],
        }
    ]
    assert answer == {
        "Status": "SUCCESS",
        "PhysicalResourceId": ID,
        "StackId": request["StackId"],
        "RequestId": request["RequestId"],
        "LogicalResourceId": request["LogicalResourceId"],
    }


def test_an_update_sends_the_earlier_properties_too(vams: ImportFunction, cloudformation: ResponseUrl) -> None:
    old = {"Import": {"pipelineId": "cosmos-reason2-2b", "workflowId": "old"}}
    answer = ask(cloudformation, "Update", PhysicalResourceId=ID, OldResourceProperties=old)
    [request] = vams.requests
    assert (request["RequestType"], request["OldResourceProperties"]) == ("Update", old["Import"])
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", ID)


def test_another_vams_gets_a_registration_of_its_own(vams: ImportFunction, cloudformation: ResponseUrl) -> None:
    """CloudFormation receives a new id, and deletes the old one at the old VAMS."""
    answer = ask(
        cloudformation, "Update", PhysicalResourceId="old-vams/cosmos-reason2-2b", OldResourceProperties={"Import": {}}
    )
    [request] = vams.requests
    assert request["RequestType"] == "Create" and "OldResourceProperties" not in request
    assert answer["PhysicalResourceId"] == ID


def test_a_deletion_is_reported(vams: ImportFunction, cloudformation: ResponseUrl) -> None:
    answer = ask(cloudformation, "Delete", PhysicalResourceId=ID)
    [request] = vams.requests
    assert (request["RequestType"], request["PhysicalResourceId"]) == ("Delete", ID)
    assert answer["Status"] == "SUCCESS"


IN_USE = "Failed to delete pipeline cosmos-reason2-2b: It is currently used by workflow(s): inspection."


@pytest.mark.parametrize(
    "says",
    [
        {"statusCode": 200, "body": json.dumps({"status": "SUCCESS_WITH_WARNINGS", "warnings": [IN_USE]})},
        {"Data": {"pipelineId": "cosmos-reason2-2b", "warnings": IN_USE}},
    ],
    ids=["2.5", "2.6"],
)
def test_what_a_deletion_leaves_in_vams_is_reported(
    vams: ImportFunction, cloudformation: ResponseUrl, lines: Callable[[], str], says: object
) -> None:
    vams.says = says
    assert ask(cloudformation, "Delete", PhysicalResourceId=ID)["Status"] == "SUCCESS", "VAMS never stops a deletion"
    [warning] = [line for line in map(json.loads, lines().splitlines()) if line.get("level") == "WARNING"]
    assert warning["warnings"] == IN_USE and warning["pipeline"] == "cosmos-reason2-2b"
    assert "Delete in VAMS" in warning["remedy"]


@pytest.mark.parametrize("says", [{"statusCode": 200, "body": '{"status": "SUCCESS"}'}, {"Data": {}}, {"Data": None}])
def test_a_deletion_that_leaves_nothing_warns_of_nothing(
    vams: ImportFunction, cloudformation: ResponseUrl, lines: Callable[[], str], says: object
) -> None:
    vams.says = says
    ask(cloudformation, "Delete", PhysicalResourceId=ID)
    assert "WARNING" not in lines()


@pytest.mark.parametrize(
    ("says", "raises", "word"),
    [
        ({"errorMessage": "Failed creating pipeline 'p': no", "errorType": "ImportError_"}, True, "Failed creating"),
        (b"Task timed out after 900 s", True, "timed out"),
        ({"statusCode": 500, "body": '{"error": "Pipeline p already exists."}'}, False, "already exists"),
        ({"statusCode": 400, "body": '{"error": "Missing required pipeline field"}'}, False, "Missing required"),
    ],
)
def test_the_error_of_vams_is_the_reason_of_a_failed_deployment(
    vams: ImportFunction, cloudformation: ResponseUrl, says: object, raises: bool, word: str
) -> None:
    vams.says, vams.raises = says, raises
    answer = ask(cloudformation)
    assert answer["Status"] == "FAILED"
    assert "vams-import" in answer["Reason"] and "cosmos-reason2-2b" in answer["Reason"] and word in answer["Reason"]


@pytest.mark.parametrize("says", [{"statusCode": 200, "body": "{}"}, None, "done", b"", {"Data": {}}])
def test_an_answer_of_another_form_is_not_taken_for_a_refusal(
    vams: ImportFunction, cloudformation: ResponseUrl, says: object
) -> None:
    vams.says = says
    assert ask(cloudformation)["Status"] == "SUCCESS"


NO_FUNCTION = ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "Function not found"}}, "Invoke")


def test_a_function_that_is_not_there_is_named(vams: ImportFunction, cloudformation: ResponseUrl) -> None:
    vams.refusal = NO_FUNCTION
    answer = ask(cloudformation)
    assert answer["Status"] == "FAILED" and "Function not found" in answer["Reason"]


def test_a_vams_that_is_gone_does_not_stop_a_deletion(vams: ImportFunction, cloudformation: ResponseUrl) -> None:
    vams.refusal = NO_FUNCTION
    assert ask(cloudformation, "Delete", PhysicalResourceId=ID)["Status"] == "SUCCESS"


def test_a_long_reason_fits_into_an_answer(vams: ImportFunction, cloudformation: ResponseUrl) -> None:
    vams.says, vams.raises = {"errorMessage": "x" * 10_000}, True
    assert ask(cloudformation)["Reason"].startswith("VAMS's import function vams-import did not register")

"""`image_build` starts a build at CloudFormation's request, and answers the request when the build ends."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lambdas.builds import images
from lambdas.handlers import image_build
from tests.lambdas.cloud import event

TAG = "0123abcd"


class Fakes:
    """Fakes of ECR with the images of the tags in `tags`, CodeBuild with one build, and CloudWatch with its log."""

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.started: list[dict[str, Any]] = []
        self.build: dict[str, Any] = {}
        self.refusal: Exception | None = None
        self.lines: list[str] | None = None

    class exceptions:  # noqa: N801 - as boto3 spells it
        class ImageNotFoundException(Exception): ...  # noqa: N818

    def describe_images(self, repositoryName: str, imageIds: list[dict[str, str]]) -> None:  # noqa: N803
        if imageIds[0]["imageTag"] not in self.tags:
            raise self.exceptions.ImageNotFoundException

    def get_log_events(self, **arguments: Any) -> dict[str, Any]:
        assert (arguments["logGroupName"], arguments["logStreamName"]) == ("g", "s")
        if self.lines is None:
            raise ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": ""}}, "GetLogEvents")
        return {"events": [{"message": line} for line in self.lines]}

    def start_build(self, **arguments: Any) -> dict[str, Any]:
        if self.refusal:
            raise self.refusal
        self.started.append(arguments)
        return {"build": {"id": "reasoner:1"}}

    def batch_get_builds(self, ids: list[str]) -> dict[str, Any]:
        assert ids == [self.build["id"]], "BatchGetBuilds takes ids and no ARNs"
        return {"builds": [self.build]}


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Fakes:
    fakes = Fakes()
    monkeypatch.setattr(images, "client", lambda service: fakes)
    return fakes


def request_of(url: str, request_type: str = "Create", **more: Any) -> dict[str, Any]:
    request: dict[str, Any] = event("cloudformation_create")
    properties = {**request["ResourceProperties"], "Tag": TAG}
    return {**request, "RequestType": request_type, "ResponseURL": url, "ResourceProperties": properties, **more}


def test_a_request_starts_one_build_even_if_it_is_repeated(fakes: Fakes, cloudformation) -> None:
    url, answers = cloudformation
    request = request_of(url)
    image_build.handler(request, None)
    assert answers == []  # CloudFormation is answered when the build ends
    (started,) = fakes.started
    assert started["projectName"] == request["ResourceProperties"]["Project"]
    assert started["idempotencyToken"] == request["RequestId"]


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_an_existing_image_is_not_built_again(fakes: Fakes, cloudformation, request_type: str) -> None:
    url, answers = cloudformation
    fakes.tags.add(TAG)
    image_build.handler(request_of(url, request_type), None)
    assert fakes.started == []
    assert answers[0]["Status"] == "SUCCESS"
    assert answers[0]["PhysicalResourceId"].endswith(f":{TAG}")


def test_a_deletion_leaves_the_image(fakes: Fakes, cloudformation) -> None:
    url, answers = cloudformation
    image_build.handler(request_of(url, "Delete", PhysicalResourceId="images:old"), None)
    assert fakes.started == []
    assert (answers[0]["Status"], answers[0]["PhysicalResourceId"]) == ("SUCCESS", "images:old")


@pytest.mark.parametrize("request_type", ["Create", "Delete"])
def test_an_answer_that_times_out_is_not_followed_by_a_failure(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, request_type: str
) -> None:
    """Lambda calls the handler again; until then CloudFormation must not receive a failure."""
    statuses: list[Any] = []

    def time_out(request: Any, timeout: int) -> None:
        statuses.append(json.loads(request.data)["Status"])
        raise TimeoutError

    monkeypatch.setattr("urllib.request.urlopen", time_out)
    fakes.tags.add(TAG)
    with pytest.raises(TimeoutError):
        image_build.handler(request_of("http://nowhere", request_type, PhysicalResourceId="images:old"), None)
    assert statuses == ["SUCCESS"]


def test_a_build_that_cannot_be_started_fails_the_deployment(fakes: Fakes, cloudformation) -> None:
    url, answers = cloudformation
    fakes.refusal = ClientError({"Error": {"Code": "AccountLimitExceededException", "Message": "no"}}, "StartBuild")
    image_build.handler(request_of(url), None)
    assert answers[0]["Status"] == "FAILED"
    assert "AccountLimitExceededException" in answers[0]["Reason"]


def end(fakes: Fakes, status: str, **build: Any) -> None:
    """End the build that was started, with this status."""
    override = fakes.started[0]["environmentVariablesOverride"]
    ended = event("codebuild_build_failed")
    fakes.build = {
        "id": ended["detail"]["build-id"].partition("build/")[2],
        "buildStatus": status,
        "environment": {"environmentVariables": [{"name": "IMAGE", "value": "reasoner"}, *override]},
        **build,
    }
    image_build.handler(ended, None)


def test_cloudformation_is_answered_when_a_build_succeeds(fakes: Fakes, cloudformation) -> None:
    url, answers = cloudformation
    request = request_of(url)
    image_build.handler(request, None)
    end(fakes, "SUCCEEDED")
    (answer,) = answers
    assert answer == {
        "Status": "SUCCESS",
        "StackId": request["StackId"],
        "RequestId": request["RequestId"],
        "LogicalResourceId": request["LogicalResourceId"],
        "PhysicalResourceId": f"{request['ResourceProperties']['Repository']}:{TAG}",
    }


def test_the_answer_for_a_failed_build_has_its_reason_and_a_link_to_its_log(fakes: Fakes, cloudformation) -> None:
    url, answers = cloudformation
    image_build.handler(request_of(url), None)
    phases = [
        {"phaseType": "DOWNLOAD_SOURCE", "phaseStatus": "SUCCEEDED"},
        {
            "phaseType": "BUILD",
            "phaseStatus": "FAILED",
            "contexts": [{"message": "Error while executing command: bash containers/build.sh"}],
        },
        {"phaseType": "COMPLETED"},
    ]
    end(fakes, "FAILED", phases=phases, logs={"deepLink": "https://console/log"})
    assert answers[0]["Status"] == "FAILED"
    for word in ["FAILED in BUILD", "bash containers/build.sh", "https://console/log"]:
        assert word in answers[0]["Reason"]


def test_the_answer_quotes_the_last_lines_of_the_builds_log(fakes: Fakes, cloudformation) -> None:
    url, answers = cloudformation
    image_build.handler(request_of(url), None)
    own = [f"line {number}" for number in range(9)] + ["", "ERROR: toomanyrequests: pull rate limit\n"]
    fakes.lines = ["[Container] Running command", *own, "[Container] Phase complete: BUILD State: FAILED"]
    end(fakes, "FAILED", logs={"deepLink": "https://console/log", "groupName": "g", "streamName": "s"})
    assert (
        "It said last: line 6 | line 7 | line 8 | ERROR: toomanyrequests: pull rate limit Its" in answers[0]["Reason"]
    )


def test_an_unreadable_log_does_not_prevent_the_answer(fakes: Fakes, cloudformation) -> None:
    url, answers = cloudformation
    image_build.handler(request_of(url), None)
    end(fakes, "FAULT", logs={"deepLink": "https://console/log", "groupName": "g", "streamName": "s"})
    assert answers[0]["Reason"].endswith("Its log: https://console/log")


@pytest.mark.parametrize("character", ["x", "\u2501", "\x1b", "\U0001f680", "\ud800"])
def test_a_long_reason_loses_its_middle_and_says_why_the_build_failed(
    fakes: Fakes, cloudformation, character: str
) -> None:
    """The characters: a letter, a bar of pip's progress, the beginning of a color, an emoji, and half of one."""
    url, answers = cloudformation
    image_build.handler(request_of(url), None)
    phases = [{"phaseType": "BUILD", "phaseStatus": "FAILED", "contexts": [{"message": "exit status 1"}]}]
    fakes.lines = [character * 9000, "No space left on device"]
    logs = {"deepLink": "https://console/log", "groupName": "g", "streamName": "s"}
    end(fakes, "TIMED_OUT", phases=phases, logs=logs)
    (answer,) = answers
    assert "TIMED_OUT in BUILD: exit status 1 It said last:" in answer["Reason"]
    assert answer["Reason"].endswith("No space left on device Its log: https://console/log")
    assert len(json.dumps(answer, ensure_ascii=False).encode()) > 4000, "as much is kept as CloudFormation takes"


def test_a_reason_of_other_letters_is_not_cut_where_it_fits(fakes: Fakes, cloudformation) -> None:
    url, answers = cloudformation
    image_build.handler(request_of(url), None)
    fakes.lines = ["\u2501" * 1000]
    end(fakes, "FAILED", logs={"deepLink": "https://console/log", "groupName": "g", "streamName": "s"})
    assert fakes.lines[0] in answers[0]["Reason"]


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED"])
def test_a_build_that_a_person_started_is_not_answered(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    puts: list[Any] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda request, timeout: puts.append(request))
    fakes.started = [{"environmentVariablesOverride": []}]
    end(fakes, status)
    assert puts == []
    assert capsys.readouterr().out == "", "it is not logged either"

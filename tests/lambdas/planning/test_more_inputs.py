"""A request with several files applies the checks of the first file to each of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cosmos_batch.catalogue.limits import INPUT_SIZE_LIMIT
from cosmos_batch.contract.environment import PlanEnvironment
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.parameters import FILES_LIMIT
from tests.lambdas.cloud import Cloud
from tests.lambdas.planning.test_plan import job, plan, refused

FIRST = "s3://assets/shots/before.png"


@pytest.fixture(autouse=True)
def versions(configure: Callable[..., None], cloud: Cloud) -> dict[str, str | None]:
    configure(PlanEnvironment)
    keys = ("shots/before.png", "shots/after.png", "shots/a/b.png", "clips/c.mp4")
    return {key: cloud.put(key, key.encode()) for key in keys}


def planned(*more: str, **request: Any) -> Job:
    return job(plan(**{"input": FIRST, "prompt": "What changed?", "parameters": {"moreInputs": list(more)}, **request}))


def test_names_and_uris_become_exact_states_in_their_order(versions: dict[str, str | None]) -> None:
    job_ = planned("s3://assets/clips/c.mp4", "after.png", "a/b.png")
    assert [(file.key, file.version_id, file.size) for file in job_.inputs] == [
        (key, versions[key], len(key))
        for key in ("shots/before.png", "clips/c.mp4", "shots/after.png", "shots/a/b.png")
    ]
    assert job_.subject == "before.png and 3 more"
    assert job_.document.key.startswith("shots/before_CosmosReason_"), "the first one names the document"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("missing.png", "s3://assets/shots/missing.png does not exist"),
        ("s3://elsewhere/c.png", "moreInputs: s3://elsewhere/c.png lies outside of the configured buckets"),
        ("s3://", "moreInputs: 's3://': "),
        ("notes.txt", "moreInputs: the format .txt of s3://assets/shots/notes.txt is not supported"),
        ("a/", "moreInputs: s3://assets/shots/a/ is a folder"),
        ("../clips/c.mp4", "s3://assets/shots/../clips/c.mp4 does not exist"),
        ("empty.png", "s3://assets/shots/empty.png is empty"),
    ],
)
def test_each_further_file_is_refused_as_the_first_would_be(cloud: Cloud, more: str, message: str) -> None:
    cloud.put("shots/empty.png", b"")
    error = refused(input=FIRST, parameters={"moreInputs": ["after.png", more]})
    assert error.code == "InvalidInput" and message in error.message


def test_all_files_of_a_request_must_fit_on_a_workers_disk_together(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = cloud.s3.head_object
    half = {"ContentLength": INPUT_SIZE_LIMIT // 2}
    monkeypatch.setattr(cloud.s3, "head_object", lambda **arguments: {**real(**arguments), **half})
    assert len(planned("after.png").inputs) == 2
    error = refused(input=FIRST, parameters={"moreInputs": ["after.png"] * 2})
    assert "the 3 files have" in error.message and "20 GiB together" in error.remedy


def test_there_is_a_limit_to_their_number() -> None:
    assert len(planned(*["after.png"] * (FILES_LIMIT - 1)).inputs) == FILES_LIMIT
    assert "parameters.moreInputs: " in refused(parameters={"moreInputs": ["a.png"] * FILES_LIMIT}).message
    assert "parameters.moreInputs[0]: " in refused(parameters={"moreInputs": [""]}).message


def test_a_cut_is_allowed_if_one_of_the_files_is_a_video() -> None:
    job_ = planned("s3://assets/clips/c.mp4", parameters={"moreInputs": ["s3://assets/clips/c.mp4"], "start": 1})
    assert job_.parameters.start == 1
    assert "an image has no time" in refused(input=FIRST, parameters={"moreInputs": ["after.png"], "start": 1}).message


@pytest.mark.parametrize("names", ["after.png", ' ["after.png"]', ["after.png"]])
def test_metadata_may_name_one_file_or_a_list(names: object) -> None:
    result = job(plan(input=FIRST, metadata={"moreInputs": names}))
    assert [file.key for file in result.more_inputs] == ["shots/after.png"]


@pytest.mark.parametrize("names", ["[1]", "[", 7, {"a": 1}])
def test_metadata_that_names_nothing_is_refused(names: object) -> None:
    assert "moreInputs" in refused(input=FIRST, metadata={"moreInputs": names}).message


def test_the_largest_job_fits_into_a_message(cloud: Cloud) -> None:
    name = "k" * 1000 + ".png"
    cloud.put(name)
    job_ = planned(*[f"s3://assets/{name}"] * (FILES_LIMIT - 1), prompt="ü" * 8000)
    assert len(json.dumps(job_.model_dump(mode="json"))) < 200 * 1024

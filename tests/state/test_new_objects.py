"""Objects that only the first of several writers may write."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from cosmos_batch.state.new_objects import CONFLICTS, write_once


class FaultyS3:
    """A client of moto's S3 whose next writes are answered with these error codes, after or instead of the write."""

    def __init__(self, real: Any, faults: list[str], writes: bool = False) -> None:
        self._real = real
        self._faults = faults
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def put_object(self, **call: Any) -> Any:
        if not self._faults:
            return self._real.put_object(**call)
        if self._writes:
            self._real.put_object(**call)
        raise ClientError({"Error": {"Code": self._faults.pop()}}, "PutObject")


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="state")
        yield client


def test_the_first_writer_decides_and_all_are_told_what_is_there(s3: Any) -> None:
    assert write_once(s3, "state", "claim", b"first") == b"first"
    assert write_once(s3, "state", "claim", b"second") == b"first"


def test_a_write_that_meets_another_one_is_repeated(s3: Any) -> None:
    assert write_once(FaultyS3(s3, ["ConditionalRequestConflict"] * 3), "state", "claim", b"mine") == b"mine"
    assert s3.get_object(Bucket="state", Key="claim")["Body"].read() == b"mine"


def test_a_write_that_meets_another_one_each_time_is_an_error(s3: Any) -> None:
    with pytest.raises(RuntimeError, match="s3://state/claim could not be written"):
        write_once(FaultyS3(s3, ["ConditionalRequestConflict"] * CONFLICTS), "state", "claim", b"mine")


def test_a_write_whose_answer_was_lost_counts_as_ours(s3: Any) -> None:
    assert write_once(FaultyS3(s3, ["PreconditionFailed"], writes=True), "state", "claim", b"mine") == b"mine"


def test_another_error_is_raised(s3: Any) -> None:
    with pytest.raises(ClientError, match="AccessDenied"):
        write_once(FaultyS3(s3, ["AccessDenied"]), "state", "claim", b"mine")

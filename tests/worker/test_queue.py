"""A message of the queue is read as a job, as one for a newer worker, or as an error."""

import json

import pytest

from cosmos_batch.worker.queue import InvalidMessage, NewerSchema, read_message


def test_a_message_of_newer_code_is_distinguished_from_an_invalid_message() -> None:
    with pytest.raises(NewerSchema):
        read_message({"Body": json.dumps({"schemaVersion": 6, "taskToken": "t", "job": {"new": "shape"}})})
    with pytest.raises(InvalidMessage) as raised:
        read_message({"Body": json.dumps({"schemaVersion": 1, "taskToken": "t", "job": {"new": "shape"}})})
    assert raised.value.task_token == "t"
    assert raised.value.error.code == "Internal"
    with pytest.raises(InvalidMessage) as raised:
        read_message({"Body": "hello"})
    assert raised.value.task_token is None

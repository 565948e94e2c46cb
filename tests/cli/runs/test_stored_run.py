"""The lines, shards and summary of a run, read from the state bucket."""

import io
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.response import StreamingBody

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError, WrongCall
from cosmos_batch.cli.runs import stored_run as stored_runs
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.contract.run_keys import ERRORS
from tests.support.run_objects import answered, failed, put_run


def test_lines_come_shard_by_shard_with_errors_after_answers(deployment: Deployment) -> None:
    put_run(deployment.clients("s3"), "r", [[answered("a"), failed("b"), answered("c")], 7, [answered("d")]])
    objects = stored_run(deployment, "r")
    assert [line.id for line in objects.lines()] == ["a", "c", "b", "d"]
    assert [line.id for line in objects.lines(ERRORS)] == ["b"]
    assert [shard.items for shard in objects.shards()] == [3, 7, 1]
    assert objects.summary() is None


def test_an_object_whose_connection_breaks_is_read_again(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3, pauses = deployment.clients("s3"), list[float]()
    put_run(s3, "r", [[answered("a")]])
    real, asked = s3.get_object, list[str]()

    def breaks(**call: str) -> dict[str, Any]:
        """Break the first two answers with the object that is read first; other objects may be read beside it."""
        answer: dict[str, Any] = real(**call)
        asked.append(call["Key"])
        if call["Key"] == asked[0] and asked.count(asked[0]) <= 2:
            answer["Body"] = StreamingBody(io.BytesIO(b"half"), content_length=100)
        return answer

    monkeypatch.setattr(s3, "get_object", breaks)
    monkeypatch.setattr(stored_runs, "time", SimpleNamespace(sleep=pauses.append))
    assert [line.id for line in stored_run(deployment, "r").lines()] == ["a"]
    assert pauses == [1.0, 4.0]


def test_a_line_separator_within_an_answer_ends_no_line(deployment: Deployment) -> None:
    text = "one\u2028two\x85three\x0bfour\nfive"
    put_run(deployment.clients("s3"), "r", [[answered("a", text), answered("b")]])
    assert [line.answer for line in stored_run(deployment, "r").lines()] == [text, "A car turns."]


def test_a_line_that_is_none_is_named(deployment: Deployment) -> None:
    s3 = deployment.clients("s3")
    put_run(s3, "r", [[answered("a")]])
    s3.put_object(Bucket="state", Key="runs/r/results/00001.jsonl", Body=answered("b").model_dump_json() + "\n{}")
    with pytest.raises(CliError, match=r"Line 2 of s3://state/runs/r/results/00001\.jsonl .*\bid: is missing"):
        list(stored_run(deployment, "r").lines())


def test_a_run_that_is_not_there_is_named(deployment: Deployment) -> None:
    with pytest.raises(CliError, match="There is no run r here"):
        stored_run(deployment, "r").request()
    with pytest.raises(WrongCall, match="is no id of a run"):
        stored_run(deployment, "../jobs")


def test_the_memory_for_lines_does_not_grow_with_the_run(deployment: Deployment) -> None:
    shard = [answered(f"{number}", "x" * 20_000) for number in range(20)]
    put_run(deployment.clients("s3"), "r", [shard] * 60)
    tracemalloc.start()
    count = sum(1 for _ in stored_run(deployment, "r").lines())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1200
    assert peak < 15_000_000, "all lines together have 24 MB"

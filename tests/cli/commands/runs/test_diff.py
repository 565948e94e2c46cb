"""The command that compares two runs."""

import json
import tracemalloc
from typing import Any

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.contract.result import Output
from cosmos_batch.contract.runs import ResultLine
from tests.support.run_objects import answered, failed, put_run


def diff(deployment: Deployment, first: list[ResultLine], second: list[ResultLine], *options: str) -> int:
    put_run(deployment.clients("s3"), "one", [first])
    put_run(deployment.clients("s3"), "two", [second])
    return main(["runs", "diff", "one", "two", *options])


def as_json(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return printed


FIRST = [
    answered("same", " A car.\n"), answered("changed", "A car."), answered("worse", "A car."), failed("better"),
    failed("bad"), answered("gone", "A car."), answered("data", "{}", data={"a": 1, "b": 2}),
]  # fmt: skip
SECOND = [
    answered("same", "A car."), answered("changed", "A van."), failed("worse"), answered("better", "A van."),
    failed("bad"), answered("new", "A van."), answered("data", '{"b": 2, "a": 1}', data={"b": 2, "a": 1}),
]  # fmt: skip


def test_every_kind_of_difference_is_printed(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff(deployment, FIRST, SECOND, "--json") == 0
    printed = as_json(capsys)
    assert printed["counts"] == {
        "changed": 1, "fails in both": 1, "fails now": 1, "is answered now": 1, "only in the first": 1,
        "only in the second": 1, "same": 2,
    }  # fmt: skip
    changes = {one["id"]: one for one in printed["differences"]}
    assert set(changes) == {"changed", "worse", "better", "gone", "new"}
    assert changes["changed"]["first"] == {"id": "changed", "answer": "A car.", "error": None}
    assert changes["changed"]["second"] == {"id": "changed", "answer": "A van.", "error": None}
    assert changes["worse"]["second"] == {"id": "worse", "answer": None, "error": "InvalidInput"}
    assert changes["gone"]["second"] is None and changes["new"]["first"] is None


def test_a_person_reads_counts_and_the_first_differences(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(deployment, FIRST, SECOND, "--limit", "2") == 0
    printed = capsys.readouterr()
    assert "        2  same" in printed.out and printed.out.count("\n  + ") == 2
    assert "better  is answered now\n  - error: InvalidInput\n  + A van." in printed.out
    assert "3 more" in printed.err and "one has not ended" in printed.err


def test_items_may_belong_together_by_their_files(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    first = [
        answered("x1", "A car.", input="s3://assets/a"),
        answered("x2", input="s3://assets/b", variant={"seed": 1}),
    ]
    second = [
        answered("y1", "A van.", input="s3://assets/a"),
        answered("y2", input="s3://assets/b", variant={"seed": 1}),
    ]
    assert diff(deployment, first, second) == 0
    assert "--by input" in capsys.readouterr().err
    assert diff(deployment, first, second, "--by", "input", "--json") == 0
    assert as_json(capsys)["counts"] == {"changed": 1, "same": 1}


def test_a_run_that_does_not_exist_is_missed(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    put_run(deployment.clients("s3"), "one", [FIRST])
    for names in (("one", "none"), ("none", "one")):
        assert main(["runs", "diff", *names]) == 1
        assert "There is no run none here." in capsys.readouterr().err


def made(item: str, sha256: str | None, run: str) -> ResultLine:
    """Return the line of an item for which a document and a video were written, as a run names them."""
    document = Output(uri=f"s3://assets/{run}/{item}.json", size=9, content_type="application/json", sha256=run)
    video = Output(uri=f"s3://assets/{run}/{item}.mp4", size=9, content_type="video/mp4", sha256=sha256)
    return answered(item, None, input=None, variant={"prompt": 1, "seed": 7}, outputs=[document, video])


@pytest.mark.parametrize(
    ("first", "second", "change"),
    [("aa", "aa", "same"), ("aa", "bb", "changed"), (None, None, "changed"), ("aa", None, "changed")],
)
def test_generated_files_agree_by_their_contents(
    deployment: Deployment,
    capsys: pytest.CaptureFixture[str],
    first: str | None,
    second: str | None,
    change: str,
) -> None:
    """An earlier release has not recorded contents: nobody can say that two files of it agree."""
    item = "prompt#prompt=1,seed=7"
    for by in ("id", "input"):
        options = ("--json", "--by", by)
        assert diff(deployment, [made(item, first, "one")], [made(item, second, "two")], *options) == 0
        assert as_json(capsys)["counts"] == {change: 1}


def test_a_file_of_several_items_cannot_tell_them_apart(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [answered(name, input="s3://assets/a") for name in ("x", "y")]
    assert diff(deployment, lines, lines, "--by", "input") == 1
    assert "Several items of a run are about s3://assets/a" in capsys.readouterr().err


def test_the_memory_of_a_comparison_does_not_grow_with_the_runs(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    for run, letter in (("one", "x"), ("two", "y")):
        shards = [[answered(f"{shard}-{item}", letter * 20_000) for item in range(20)] for shard in range(30)]
        put_run(deployment.clients("s3"), run, shards)
    tracemalloc.start()
    assert main(["runs", "diff", "one", "two", "--limit", "0"]) == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "600  changed" in capsys.readouterr().out
    assert peak < 15_000_000, "all answers together have 24 MB"

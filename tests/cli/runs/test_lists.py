"""Inputs from lists: manifests of this machine, of S3 and of standard input, and S3 inventories."""

import codecs
import errno
import gzip
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from botocore.exceptions import ClientError
from pyarrow import parquet

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.runs import disk_buffers, s3_inputs
from cosmos_batch.cli.runs.disk_buffers import SeenIds
from cosmos_batch.cli.runs.inputs import InputCounts
from cosmos_batch.cli.runs.local_inputs import CONTROL_CHARACTER, UNREADABLE, UNREADABLE_FOLDER, walk
from cosmos_batch.cli.runs.manifest_lines import lines_of
from cosmos_batch.cli.runs.run_plan import PlannedRun, plan_run
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.planning import input_files
from cosmos_batch.planning.runs.manifest import LINE_LIMIT
from cosmos_batch.planning.runs.selection import OLD_VERSION, OTHER_KIND
from tests.cli.runs.conftest import ask
from tests.cli.runs.test_plan import STRANGE_KEYS

Items = Callable[..., Sequence[RunItem]]
Plan = Callable[..., PlannedRun]
Put = Callable[..., None]


def manifest(folder: Path, *lines: dict[str, Any] | str) -> str:
    path = folder / "requests.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return str(path)


def test_a_manifest_has_a_request_on_each_line(items: Items, put: Put, tmp_path: Path) -> None:
    put("a.mp4", "b.mp4")
    name = manifest(
        tmp_path,
        {"id": "1", "input": "s3://assets/a.mp4", "prompt": "One?"},
        "",
        {"id": "2", "input": "s3://assets/b.mp4", "parameters": {"fps": 1}},
    )
    first, second = items(name, "--prompt", "What?")
    assert (first.id, first.prompt, first.size) == ("1", "One?", 7)
    assert first.etag, "the object was looked at"
    assert second.prompt is None and second.parameters is not None and second.parameters.fps == 1


def test_a_manifest_may_lie_in_s3_or_come_on_standard_input(
    items: Items, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a.mp4")
    put("lists/requests.jsonl", body=b'{"input": "s3://assets/a.mp4"}')
    assert [item.input for item in items("s3://assets/lists/requests.jsonl")] == ["s3://assets/a.mp4"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"s3://assets/a.mp4\n")))
    for _ in range(2):
        assert [item.input for item in items("-")] == ["s3://assets/a.mp4"], "it can be read again"


def test_a_list_of_windows_is_read_from_its_first_line_on(items: Items, put: Put, tmp_path: Path) -> None:
    put("a.mp4", "b.mp4")
    (tmp_path / "list.jsonl").write_bytes(codecs.BOM_UTF8 + b"s3://assets/a.mp4\r\ns3://assets/b.mp4\r\n")
    assert [item.input for item in items(str(tmp_path / "list.jsonl"))] == ["s3://assets/a.mp4", "s3://assets/b.mp4"]


def test_every_wrong_line_is_named_before_anything_starts(
    plan: Plan, put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put("a.mp4")
    put("empty.mp4", body=b"")
    name = manifest(
        tmp_path,
        {"id": "1", "input": "s3://assets/a.mp4"},
        '{"id": "2", "input":',
        {"id": "1", "input": "s3://assets/a.mp4", "prompt": "Another?"},
        {"id": "4", "inptu": "s3://assets/a.mp4"},
        {"id": "5", "input": "s3://assets/gone.mp4"},
        {"id": "6", "input": "s3://elsewhere/a.mp4"},
        {"id": "7", "input": "s3://assets/empty.mp4"},
    )
    with pytest.raises(WrongCall, match="6 problems") as caught:
        plan(name)
    assert "--skip-invalid" in caught.value.remedy
    printed = sorted(capsys.readouterr().err.splitlines())
    assert [line.partition(": ")[0] for line in printed] == [f"{name}, line {number}" for number in range(2, 8)]
    assert "is used twice, first in" in printed[1] and "line 1." in printed[1]
    assert "Did you mean `input`?" in printed[2]
    assert "s3://assets/gone.mp4 does not exist" in printed[3]


def test_the_further_files_of_a_line_are_looked_at_before_anything_is_uploaded(
    plan: Plan, put: Put, tmp_path: Path, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    put("a.png", "b.png")
    put("empty.png", body=b"")
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "new.png").write_bytes(b"content")
    name = manifest(
        tmp_path,
        {"id": "1", "inputs": ["s3://assets/a.png", "s3://assets/b.png"]},
        {"id": "2", "inputs": ["s3://assets/a.png", "s3://assets/gone.png", "s3://assets/empty.png"]},
        {"id": "3", "input": "s3://assets/a.png", "parameters": {"moreInputs": ["b.png"]}},
        {"id": "4", "input": "s3://assets/a.png", "parameters": {"moreInputs": ["beside.png"]}},
        {"id": "5", "input": "s3://assets/a.png", "parameters": {"moreInputs": ["s3://missing/x.png"]}},
    )
    with pytest.raises(WrongCall, match="4 problems"):
        plan(name, str(tmp_path / "clips"))
    printed = sorted(capsys.readouterr().err.splitlines())
    assert [line.removeprefix(f"{name}, line ").partition(". ")[0] for line in printed] == [
        "2: inputs: s3://assets/empty.png is empty",
        "2: inputs: s3://assets/gone.png does not exist",
        "4: inputs: s3://assets/beside.png does not exist",
        "5: inputs: s3://missing/x.png lies outside of the configured buckets",
    ]
    assert deployment.clients("s3").list_objects_v2(Bucket="assets", Prefix="uploads/")["KeyCount"] == 0


def test_the_states_of_all_files_of_a_line_are_kept_to_be_compared_later(
    items: Items, put: Put, deployment: Deployment, tmp_path: Path
) -> None:
    put("a.png", "b.png")
    [item] = items(manifest(tmp_path, {"id": "1", "inputs": ["s3://assets/a.png", "s3://assets/b.png"]}))
    etags = [deployment.clients("s3").head_object(Bucket="assets", Key=name)["ETag"] for name in ("a.png", "b.png")]
    assert [item.etag, *item.more_etags] == etags


def test_all_files_of_a_line_together_may_be_too_large(
    plan: Plan, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put("a.png", "b.png")
    monkeypatch.setattr(input_files, "INPUT_SIZE_LIMIT", 10)
    with pytest.raises(WrongCall, match="1 problem"):
        plan(manifest(tmp_path, {"id": "1", "inputs": ["s3://assets/a.png", "s3://assets/b.png"]}))
    assert "line 1: moreInputs: the 2 files have 14 bytes" in capsys.readouterr().err


def test_a_file_that_all_items_share_is_looked_at_once(
    plan: Plan, put: Put, tmp_path: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a.png", "b.png", "reference.png")
    lines = [{"id": name, "input": f"s3://assets/{name}.png", "parameters": {"seed": 1}} for name in "ab"]
    looked, head = [], deployment.clients("s3").head_object
    monkeypatch.setattr(
        deployment.clients("s3"), "head_object", lambda **named: [looked.append(named["Key"]), head(**named)][1]
    )
    plan(manifest(tmp_path, *lines), "--with", "s3://assets/reference.png")
    assert sorted(looked) == ["a.png", "b.png", "reference.png"]
    with pytest.raises(WrongCall, match=r"s3://assets/gone\.png does not exist"):
        plan("s3://assets/a.png", "s3://assets/b.png", "--with", "s3://assets/gone.png")


def test_the_controls_and_actions_of_a_generators_line_are_looked_at(
    deployment: Deployment, put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put("clip.mp4", "edge.mp4")
    depth = {"mode": "transfer", "controls": {"edge": {"path": "edge.mp4"}, "depth": {"path": "depth.mp4"}}}
    actions = {"mode": "forward_dynamics", "domainName": "av", "actionPath": "s3://assets/actions.json"}
    name = manifest(
        tmp_path,
        {"id": "1", "input": "s3://assets/clip.mp4", "prompt": "Night.", "parameters": depth},
        {"id": "2", "input": "s3://assets/clip.mp4", "prompt": "Night.", "parameters": actions},
    )
    deployment.pipelines.append("cosmos3-nano")
    with pytest.raises(WrongCall, match="2 problems"):
        plan_run(deployment, ask(deployment, name, "--pipeline", "cosmos3-nano"))
    printed = capsys.readouterr().err
    assert "line 1: controls.depth: s3://assets/depth.mp4 does not exist" in printed
    assert "line 2: actionPath: s3://assets/actions.json does not exist" in printed


def test_the_others_go_on_if_that_is_asked_for(items: Items, put: Put, tmp_path: Path) -> None:
    put("a.mp4")
    name = manifest(tmp_path, {"id": "1", "input": "s3://assets/a.mp4"}, "{", {"id": "2", "input": "s3://assets/b.mp4"})
    assert [item.id for item in items(name, "--skip-invalid")] == ["1"]


def test_of_very_many_named_objects_only_the_first_are_looked_at(
    plan: Plan, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a.mp4")
    monkeypatch.setattr(s3_inputs, "HEADS_LIMIT", 1)
    lines = [{"id": str(number), "input": f"s3://assets/{number or 'a'}.mp4"} for number in range(3)]
    assert plan(manifest(tmp_path, *lines)).estimate.unchecked == 2


def test_an_input_that_may_not_be_read_is_named(
    deployment: Deployment, put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Closed:
        """A fake of S3 that lets nobody read; moto has no policies here."""

        def head_object(self, **_: object) -> None:
            raise ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "HeadObject")

    name = manifest(tmp_path, {"id": "1", "input": "s3://assets/a.mp4"})
    closed = replace(deployment, clients=lambda service: Closed() if service == "s3" else deployment.clients(service))
    with pytest.raises(WrongCall, match="1 problem in"):
        plan_run(closed, ask(closed, name))
    assert f"{name}, line 1: input: s3://assets/a.mp4 may not be read" in capsys.readouterr().err


def test_a_manifest_that_is_gone_is_named(plan: Plan) -> None:
    with pytest.raises(WrongCall, match=r"missing\.jsonl cannot be read"):
        plan("missing.jsonl")
    with pytest.raises(WrongCall, match=r"s3://assets/missing\.jsonl cannot"):
        plan("s3://assets/missing.jsonl")


def test_a_manifest_that_may_not_be_read_is_named_with_what_to_ask_for(
    plan: Plan, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(**_: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetObject")

    monkeypatch.setattr(deployment.clients("s3"), "get_object", closed)
    with pytest.raises(WrongCall, match=r"s3://other/list\.jsonl cannot be read.*AccessDenied") as refused:
        plan("s3://other/list.jsonl")
    assert "your rights" in refused.value.remedy


def test_lines_are_split_wherever_chunks_end() -> None:
    text = b"one\r\n\n  \ntwo\nthree"
    for size in range(1, len(text)):
        chunks = iter([text[start : start + size] for start in range(0, len(text), size)])
        lines = [(number, line.strip()) for number, line in lines_of(lambda _, chunks=chunks: next(chunks, b""))]
        assert lines == [(1, b"one"), (4, b"two"), (5, b"three")]


def test_a_line_without_an_end_is_cut() -> None:
    source = io.BytesIO(b"x" * (3 * LINE_LIMIT) + b"\nnext\n")
    (_, first), (number, second) = lines_of(source.read)
    assert len(first) > LINE_LIMIT and number == 2 and second == b"next"


def test_seen_ids_remember_where_the_first_was() -> None:
    seen = SeenIds()
    assert seen.add("é", "line 1") is None
    assert seen.add("e", "line 2") is None
    assert seen.add("é", "line 3") == "line 1"
    seen.close()


SCHEMA = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, ETag"


def inventory(deployment: Deployment, file_format: str, content: bytes, schema: str = SCHEMA) -> str:
    s3 = deployment.clients("s3")
    s3.create_bucket(Bucket="inventories")
    s3.put_object(Bucket="inventories", Key="data/1", Body=content)
    text = {
        "sourceBucket": "assets",
        "destinationBucket": "arn:aws:s3:::inventories",
        "fileFormat": file_format,
        "fileSchema": schema,
        "files": [{"key": "data/1", "size": len(content), "MD5checksum": "x"}],
    }
    s3.put_object(Bucket="inventories", Key="day/manifest.json", Body=json.dumps(text))
    return "s3://inventories/day/manifest.json"


def encoded(key: str) -> str:
    from urllib.parse import quote_plus

    return quote_plus(key, safe="/")


def test_an_inventory_of_csv_is_read(items: Items, plan: Plan, deployment: Deployment) -> None:
    rows = [f'"assets","{encoded(key)}","v","true","false","7","abc"' for key in STRANGE_KEYS]
    rows += ['"assets","old.mp4","v","false","false","7","abc"', '"assets","gone.mp4","v","true","true","",""']
    rows += ['"assets","notes.txt","v","true","false","7","abc"']
    name = inventory(deployment, "CSV", gzip.compress("\n".join(rows).encode()))
    found = items(name)
    assert [item.input for item in found] == [f"s3://assets/{key}" for key in STRANGE_KEYS]
    assert (found[0].etag, found[0].size) == ('"abc"', 7)
    estimate = plan(name).estimate
    assert estimate.left_out == {OLD_VERSION: 2, OTHER_KIND: 1}
    assert estimate.left_out_names == {OTHER_KIND: ["s3://assets/notes.txt"]}, "nobody misses an old version"


def test_an_inventory_of_parquet_is_read(items: Items, deployment: Deployment) -> None:
    table = pyarrow.table(
        {
            "bucket": ["assets", "assets"],
            "key": ["a b+%.mp4", "old.mp4"],
            "is_latest": [True, False],
            "is_delete_marker": [False, False],
            "size": [7, 7],
            "e_tag": ["abc", "abc"],
        }
    )
    file = io.BytesIO()
    parquet.write_table(table, file)
    found = items(inventory(deployment, "Parquet", file.getvalue()))
    assert [(item.input, item.etag) for item in found] == [("s3://assets/a b+%.mp4", '"abc"')]


def test_an_inventory_without_sizes_is_refused(plan: Plan, deployment: Deployment) -> None:
    """Size is an optional field of an inventory."""
    name = inventory(deployment, "CSV", gzip.compress(b'"assets","a.mp4"'), "Bucket, Key")
    with pytest.raises(WrongCall, match="has no sizes"):
        plan(name)


def test_another_json_file_is_no_inventory(plan: Plan, put: Put) -> None:
    put("x/manifest.json", body=b"{}")
    with pytest.raises(WrongCall, match="no manifest of an S3 Inventory"):
        plan("s3://assets/x/manifest.json")


def test_a_folder_of_any_size_is_read_in_the_order_of_s3_and_sorted_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_buffers, "SORTED_IN_MEMORY", 7)
    names = [f"{number:03}.png" for number in range(40)] + ["a", "a!", "a b/c", "a-", "ü"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = [file.name for file in walk(tmp_path, InputCounts())]
    assert found == sorted(names, key=str.encode)


def test_a_file_whose_name_has_a_line_break_is_left_out_of_a_folder_by_name(tmp_path: Path) -> None:
    for name in ("a\nb.png", "c.png", "d\ne/f.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    counts = InputCounts()
    assert [file.name for file in walk(tmp_path, counts)] == ["c.png"]
    assert dict(counts.left_out_names) == {CONTROL_CHARACTER: ["'a\\nb.png'", "'d\\ne/f.png'"]}


def test_what_this_person_may_not_read_is_left_out_of_a_folder_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The permissions are injected, because those of the file system do not hold for root."""
    for name in ("a.png", "closed/b.png", "unsearchable/c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    listed, looked_at, allowed = os.scandir, Path.is_file, os.access

    def refused(path: Path, folder: str) -> Path:
        if path.is_relative_to(tmp_path / folder):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return path

    monkeypatch.setattr(os, "scandir", lambda path: listed(refused(Path(path), "closed")))
    monkeypatch.setattr(Path, "is_file", lambda path: looked_at(refused(path, "unsearchable")))
    monkeypatch.setattr(os, "access", lambda path, mode: "unsearchable" not in str(path) and allowed(path, mode))
    counts = InputCounts()
    assert [file.name for file in walk(tmp_path, counts)] == ["a.png"]
    assert dict(counts.left_out_names) == {
        UNREADABLE_FOLDER: [str(tmp_path / "closed")],
        UNREADABLE: [str(tmp_path / "unsearchable" / "c.png")],
    }


@pytest.mark.parametrize("named", ["d\ne", "d\ne/f.png"])
def test_a_folder_whose_name_has_a_line_break_is_refused_however_it_is_named(
    plan: Plan, items: Items, tmp_path: Path, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("d\ne/f.png", "c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"content")
    with pytest.raises(WrongCall, match="1 problem in the inputs"):
        plan(str(tmp_path / named), str(tmp_path / "c.png"))
    assert "has a line break or another control character. Rename the file or folder." in capsys.readouterr().err
    assert [item.id for item in items(str(tmp_path / named), str(tmp_path / "c.png"), "--skip-invalid")] == ["c.png"]

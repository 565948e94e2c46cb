"""The plan of a run over prefixes and files, and the objects that it writes."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Barrier

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError, WrongCall
from cosmos_batch.cli.runs import progress_counter
from cosmos_batch.cli.runs.plan_report import plan_lines
from cosmos_batch.cli.runs.run_plan import PlannedRun
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import RunItem, RunRequest
from cosmos_batch.planning.runs.shards import FIRST_SHARD_ITEMS
from tests.support import nvidia_files
from tests.support.runs import read_items, read_shards

Items = Callable[..., Sequence[RunItem]]
Plan = Callable[..., PlannedRun]
Put = Callable[..., None]

STRANGE_KEYS = [
    "clips/a b.mp4",
    "clips/a%20b.mp4",
    "clips/a+b.mp4",
    "clips/#1?x=y.mp4",
    "clips/クリップ🎬.mp4",
    "clips/'\"\\.mp4",
    "clips//double.mp4",
    "clips/../up.mp4",
]


def test_a_run_over_a_prefix_has_an_item_for_each_file(items: Items, put: Put) -> None:
    put("clips/a.mp4", "clips/deep/b.png", "other/c.mp4")
    first, second = items("s3://assets/clips/", "--prompt", "What?")
    assert (first.id, first.input, first.size) == ("clips/a.mp4", "s3://assets/clips/a.mp4", 7)
    assert first.etag and first.prompt is None, "the run's request has the prompt"
    assert second.id == "clips/deep/b.png"


def test_keys_of_every_kind_are_taken_as_they_are(items: Items, put: Put) -> None:
    put(*STRANGE_KEYS)
    assert sorted(item.id for item in items("s3://assets/clips/")) == sorted(STRANGE_KEYS)


def test_folders_and_our_outputs_and_other_formats_are_left_out_and_counted(
    plan: Plan, put: Put, deployment: Deployment
) -> None:
    put("clips/a.mp4", "clips/a.mp4.metadata.json", "clips/notes.txt", "clips/a_CosmosReason_20261120-120000.json")
    put("clips/a_Cosmos3_nano_20261120-120000.mp4", "clips/a_CosmosError_20261120-120000.json")
    put("clips/cosmos3-nano-20261120-120000.mp4", "clips/a_Cosmos3_nano_20261120-120000.mp4.previewFile.gif")
    put("clips/", "clips/empty.mp4", "clips/sub/", body=b"")
    planned = plan("s3://assets/clips/")
    planned.write()
    assert [item.id for item in read_items(deployment.clients("s3"), "state", planned.request.id)] == ["clips/a.mp4"]
    assert planned.estimate.left_out == {
        "folders": 2,
        "our own outputs": 5,
        "files of other kinds": 2,
        "empty files": 1,
    }


def test_patterns_choose_files_by_their_path_below_the_prefix(items: Items, put: Put) -> None:
    put("clips/ep1/front.mp4", "clips/ep1/rear.mp4", "clips/ep2/front.mp4", "clips/bad/front.mp4")
    chosen = items("s3://assets/clips/", "--include", "*/front.mp4", "--exclude", "bad/*")
    assert [item.id for item in chosen] == ["clips/ep1/front.mp4", "clips/ep2/front.mp4"]


def test_a_prefix_without_files_is_refused_with_what_is_there(plan: Plan, put: Put) -> None:
    with pytest.raises(WrongCall, match="no file to ask about"):
        plan("s3://assets/nothing/")
    put("clips/a.txt", "clips/b.txt")
    with pytest.raises(WrongCall, match="files of other kinds: 2"):
        plan("s3://assets/clips/")


def test_another_bucket_is_refused(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WrongCall):
        plan("s3://elsewhere/clips/")
    assert "outside of the configured buckets" in capsys.readouterr().err


def test_a_bucket_that_does_not_exist_is_named(deployment: Deployment, plan: Plan) -> None:
    deployment.asset_roots.append("missing")
    with pytest.raises(CliError, match="no bucket missing"):
        plan("s3://missing/clips/")


def test_named_objects_are_looked_at(items: Items, plan: Plan, put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    put("a.mp4", "b.mp4")
    assert [item.id for item in items("s3://assets/a.mp4", "s3://assets/b.mp4")] == ["a.mp4", "b.mp4"]
    with pytest.raises(WrongCall, match="2 problems"):
        plan("s3://assets/a.mp4", "s3://assets/gone.mp4", "s3://assets/clips")
    printed = capsys.readouterr().err
    assert "s3://assets/gone.mp4 does not exist" in printed and "end it with /" in printed
    assert "remove the line" not in printed, "nobody wrote a line"


def test_what_cannot_be_used_is_left_out_if_that_is_asked_for(items: Items, put: Put) -> None:
    put("a.mp4")
    assert len(items("s3://assets/a.mp4", "s3://assets/gone.mp4", "--skip-invalid")) == 1


def test_the_same_file_named_twice_is_refused(plan: Plan, put: Put, capsys: pytest.CaptureFixture[str]) -> None:
    put("clips/a.mp4")
    with pytest.raises(WrongCall):
        plan("s3://assets/clips/", "s3://assets/clips/a.mp4")
    assert "is used twice, first in s3://assets/clips/" in capsys.readouterr().err


def test_a_folder_of_this_machine_is_uploaded_once(
    items: Items, plan: Plan, tmp_path: Path, deployment: Deployment
) -> None:
    for name in ("b/x.mp4", "b.mp4", "a b.mp4", "b-c/y.mp4", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    assert len(plan(str(tmp_path)).uploads) == 4, "a plan uploads nothing"
    time.sleep(1.1)  # S3 knows seconds alone: a file that changed in the second of its upload is uploaded again
    first = items(str(tmp_path))
    assert [item.id for item in first] == ["a b.mp4", "b-c/y.mp4", "b.mp4", "b/x.mp4"]
    planned = plan(str(tmp_path))
    assert len(planned.uploads) == 0
    (tmp_path / "b.mp4").write_bytes(b"other content")
    assert len(plan(str(tmp_path)).uploads) == 1
    assert [item.input for item in items(str(tmp_path))] == [item.input for item in first]


def test_files_are_uploaded_side_by_side_with_progress(
    plan: Plan, tmp_path: Path, deployment: Deployment, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / name).write_bytes(name.encode())
    planned = plan(str(tmp_path))
    s3, both = deployment.clients("s3"), Barrier(2)
    upload = s3.upload_file

    def upload_with_the_other(*arguments: object, **options: object) -> None:
        both.wait(60)
        upload(*arguments, **options)

    monkeypatch.setattr(s3, "upload_file", upload_with_the_other)
    monkeypatch.setattr(progress_counter, "_LOG_SECONDS", 0.0)
    planned.write()
    assert "2 of 2 files uploaded" in capsys.readouterr().err


def test_the_folders_of_the_inputs_are_mirrored_below_the_output(plan: Plan, put: Put, tmp_path: Path) -> None:
    put("clips/ep1/a.mp4")
    output = ("--output", "s3://assets/answers/")
    assert plan("s3://assets/clips/", *output).request.input_root == "s3://assets/clips/"
    (tmp_path / "a.mp4").write_bytes(b"content")
    planned = plan(str(tmp_path), *output)
    planned.write()
    assert planned.request.input_root is not None
    assert planned.request.input_root.startswith("s3://assets/uploads/")
    assert plan("s3://assets/clips/").request.input_root is None


def test_named_files_of_this_machine_keep_their_folders(items: Items, tmp_path: Path) -> None:
    for folder in ("ep1", "ep2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cam.mp4").write_bytes(b"content")
    found = items(str(tmp_path / "ep2/cam.mp4"), str(tmp_path / "ep1/cam.mp4"))
    assert [item.id for item in found] == ["ep1/cam.mp4", "ep2/cam.mp4"]


def test_a_file_that_changes_after_the_plan_is_not_uploaded(plan: Plan, tmp_path: Path) -> None:
    clip = tmp_path / "a.mp4"
    clip.write_bytes(b"content")
    planned = plan(str(clip))
    clip.write_bytes(b"longer content")
    with pytest.raises(CliError, match="changed after the plan"):
        planned.write()


def test_items_are_split_by_pipeline_into_shards(plan: Plan, put: Put, deployment: Deployment) -> None:
    put(*(f"clips/{number:03}.mp4" for number in range(FIRST_SHARD_ITEMS + 1)))
    planned = plan("s3://assets/clips/", "--pipeline", "cosmos-reason2-2b", "--pipeline", "cosmos-reason2-8b")
    planned.write()
    s3, run = deployment.clients("s3"), planned.request.id
    assert [(ref.shard, ref.pipeline, ref.items) for ref in read_shards(s3, "state", run)] == [
        ("00000", "cosmos-reason2-2b", FIRST_SHARD_ITEMS),
        ("00001", "cosmos-reason2-8b", FIRST_SHARD_ITEMS),
        ("00002", "cosmos-reason2-2b", 1),
        ("00003", "cosmos-reason2-8b", 1),
    ]
    assert planned.estimate.items == 2 * (FIRST_SHARD_ITEMS + 1)
    written = s3.get_object(Bucket="state", Key=f"runs/{run}/run.json")["Body"].read()
    assert RunRequest.model_validate_json(written) == planned.request


def test_prompts_and_seeds_are_swept(items: Items, put: Put) -> None:
    put("a.mp4")
    found = items("s3://assets/a.mp4", "--prompt", "One?", "--prompt", "Two?", "--seeds", "3,7-8", "--temperature", "1")
    assert len(found) == 6
    assert found[-1].id == "a.mp4#prompt=2,seed=8"
    assert found[-1].variant == {"prompt": 2, "seed": 8}
    assert found[-1].prompt == "Two?"
    assert found[-1].parameters is not None
    assert (found[-1].parameters.seed, found[-1].parameters.temperature) == (8, 1)


def test_each_prompt_is_read_from_its_file(items: Items, plan: Plan, put: Put, tmp_path: Path) -> None:
    put("a.mp4")
    for name in ("One", "Two"):
        (tmp_path / f"{name}.txt").write_text(f"{name}?")
    (tmp_path / "brief.txt").write_text("Be brief.")
    both = ("--prompt", f"@{tmp_path}/One.txt", "--prompt", f"@{tmp_path}/Two.txt")
    assert [item.prompt for item in items("s3://assets/a.mp4", *both)] == ["One?", "Two?"]
    brief = ("--system-prompt", f"@{tmp_path}/brief.txt")
    assert plan("s3://assets/a.mp4", *brief).request.system_prompt == "Be brief."
    with pytest.raises(WrongCall, match=r"The prompt is the name of a file, Two\.txt"):
        plan("s3://assets/a.mp4", "--prompt", "One?", "--prompt", "Two.txt")


def test_prompts_with_system_prompts_of_their_own_are_refused(
    items: Items, plan: Plan, put: Put, tmp_path: Path
) -> None:
    put("a.mp4")
    question = nvidia_files.question(tmp_path)
    with pytest.raises(WrongCall, match="have one system prompt, and --prompt @"):
        plan("s3://assets/a.mp4", "--prompt", "One?", "--prompt", f"@{question}")
    both = items("s3://assets/a.mp4", "--prompt", "One?", "--prompt", f"@{question}", "--system-prompt", "x")
    assert [item.prompt for item in both] == ["One?", "What can be the next immediate action?"]


def test_an_output_on_this_machine_is_refused_with_the_command_that_saves_answers_here(plan: Plan, put: Put) -> None:
    put("clips/a.mp4")
    with pytest.raises(WrongCall, match="answers/ is on this machine") as refused:
        plan("s3://assets/clips/", "--output", "answers/")
    assert "runs export RUN --format jsonl --output answers/" in refused.value.remedy


def test_files_that_are_left_out_are_named_in_the_plan(plan: Plan, put: Put) -> None:
    put("clips/a.mp4", "clips/take.wmv", "clips/a_CosmosReason_20261120-120000.json")
    put("clips/empty.mp4", "clips/sub/", body=b"")
    planned = plan("s3://assets/clips/")
    lines = [line for line in plan_lines("run", planned.estimate) if "left out" in line]
    assert lines == [
        "  left out empty files: 1 (s3://assets/clips/empty.mp4)",
        "  left out files of other kinds: 1 (s3://assets/clips/take.wmv)",
        "  left out folders: 1",
        "  left out our own outputs: 1",
    ]


def test_a_problem_of_an_object_below_a_prefix_names_that_object(
    plan: Plan, put: Put, capsys: pytest.CaptureFixture[str]
) -> None:
    put("clips/a.mp4", "clips/b.png", "clips/c.png")
    with pytest.raises(WrongCall, match="2 problems"):
        plan("s3://assets/clips/", "--start", "1")
    assert capsys.readouterr().err.splitlines() == [
        f"s3://assets/clips/{name}: start: an image has no time to cut. Leave start and end out."
        for name in ("b.png", "c.png")
    ]


def test_a_question_that_fits_no_file_is_refused_once(
    plan: Plan, put: Put, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put("clips/a.mp4", "clips/b.png", "clips/c.mp4")
    with pytest.raises(Failure, match="task: ") as refused:
        plan("s3://assets/clips/", "--task", "2d-grounding")
    assert refused.value.error.code == "InvalidInput" and capsys.readouterr().err == ""
    requests = tmp_path / "requests.jsonl"
    requests.write_text('{"input": "s3://assets/clips/a.mp4", "prompt": "the red cube"}\n')
    assert plan(str(requests), "--task", "2d-grounding").estimate.items == 1, "its lines have prompts of their own"

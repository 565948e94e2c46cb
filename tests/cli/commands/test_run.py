"""`run` saves or prints every answer, whatever happens to the others, and says which model answers."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cosmos_batch.cli import configuration, model_access, progress
from cosmos_batch.cli.commands import demo, run
from cosmos_batch.cli.commands.submit import Submitted
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_result import JobResult
from cosmos_batch.cli.main import main
from cosmos_batch.cli.output import OutputTarget
from cosmos_batch.cli.runs.run_plan import plan_run
from cosmos_batch.cli.runs.run_request import RunSpec
from cosmos_batch.contract.error import Error
from cosmos_batch.planning.configuration import load_config
from tests.cli.conftest import STARTED

REAL_ANSWER = run.answer
ERROR = Error(code="Internal", message="It broke.", remedy="Ask again.")
UPLOADS = ("uploads/20261120-120000-00000000", "uploads/20261120-120001-11111111")


@pytest.fixture
def answers(deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Provide a function that sets the documents with which jobs of the next `run` end."""
    (tmp_path / "clip.mp4").write_bytes(b"content")
    monkeypatch.chdir(tmp_path)

    def end_with(*keys: str) -> None:
        for number, key in enumerate(keys):
            deployment.clients("s3").put_object(Bucket="assets", Key=key, Body=json.dumps({"result": number}).encode())
        results = [JobResult(document_uri=f"s3://assets/{key}", file_uris=[f"s3://assets/{key}"]) for key in keys]
        monkeypatch.setattr(run, "answer_files", lambda *_: iter(results))

    monkeypatch.setattr(run, "local_deployment", lambda *_, **__: nullcontext(deployment))
    return end_with


def saved(folder: Path) -> dict[str, int]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): json.loads(path.read_text())["result"] for path in paths}


def test_answers_come_out_under_the_paths_of_their_files(answers: Callable[..., None], tmp_path: Path) -> None:
    answers(*(f"{folder}/{name}/cam.json" for folder, name in zip(UPLOADS, ("ep1", "ep2"), strict=True)))
    assert main(["run", "clip.mp4", "clip.mp4", "--output", "answers/"]) == 0
    assert saved(tmp_path / "answers") == {"ep1/cam.json": 0, "ep2/cam.json": 1}


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_no_answer_replaces_another_of_the_same_call(
    force: list[str], answers: Callable[..., None], tmp_path: Path
) -> None:
    """Files of two buckets may have one key, and a file may be named twice."""
    answers(*(f"{folder}/cam.json" for folder in UPLOADS))
    assert main(["run", "clip.mp4", "clip.mp4", "--output", "answers/", *force]) == 0
    assert saved(tmp_path / "answers") == {"cam.json": 0, "cam-2.json": 1}


def test_an_answer_that_cannot_be_saved_is_printed_and_the_others_are_saved(
    answers: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(*(f"{folder}/{name}.json" for folder, name in zip(UPLOADS, ("one", "two"), strict=True)))
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "one.json").write_text('{"result": "mine"}')
    assert main(["run", "clip.mp4", "clip.mp4", "--output", "answers"]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ['{"result": 0}', "answers/two.json"]
    assert "answers/one.json exists, and was kept" in printed.err and "--force" in printed.err
    assert saved(tmp_path / "answers") == {"one.json": "mine", "two.json": 1}


@pytest.mark.parametrize("output", ["clip.mp4", "clip.mp4/", "/proc/answers/", f"new/{'x' * 256}/", "answers.json"])
def test_an_output_that_cannot_be_written_is_refused_before_anything_starts(
    output: str, answers: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`answers.json` is one file, and there are two answers."""
    monkeypatch.setattr(run, "local_deployment", lambda *_, **__: pytest.fail("a cloud was started"))
    before = sorted(Path.cwd().rglob("*"))
    files = ["clip.mp4", "clip.mp4"] if output == "answers.json" else ["clip.mp4"]
    assert main(["run", *files, "--output", output]) == 2
    assert output in capsys.readouterr().err
    assert sorted(Path.cwd().rglob("*")) == before, "no empty folder is left"


def test_a_call_that_is_refused_leaves_no_empty_folder(
    answers: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers()
    monkeypatch.setattr(configuration, "CONFIG", tmp_path / "none.json")
    monkeypatch.setattr(run, "local_deployment", lambda _, config_file, **__: config_file())
    assert main(["run", "clip.mp4", "--model", str(tmp_path), "--output", "deep/answers/"]) == 2
    assert not (tmp_path / "deep").exists()


def test_files_that_cannot_be_used_are_left_out_and_the_others_are_answered(
    answers: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the option the first check refuses the call; with it, files of this machine and in S3 are named."""
    asked: list[str] = []
    answers(f"{UPLOADS[0]}/one.json")
    answer = run.answer_files

    def plan_and_answer(deployment: Deployment, run_: RunSpec, target: OutputTarget | None) -> Iterator[JobResult]:
        with closing(plan_run(deployment, run_)):
            asked.extend(run_.sources)
        return answer(deployment, run_, target)

    monkeypatch.setattr(run, "answer_files", plan_and_answer)
    files = ["clip.mp4", "none.mp4", "s3://assets/none.mp4"]
    assert main(["run", *files]) == 2
    assert "--skip-invalid" in capsys.readouterr().err and asked == []
    assert main(["run", "--skip-invalid", *files]) == 0
    printed = capsys.readouterr()
    assert asked == ["clip.mp4", "s3://assets/none.mp4"], "the plan leaves out what is not in S3"
    assert json.loads(printed.out) == {"result": 0}
    assert "none.mp4 does not exist" in printed.err and "s3://assets/none.mp4 does not exist" in printed.err
    assert main(["run", "--skip-invalid", "none.mp4"]) == 2, "nothing is left to be answered"


def test_a_quiet_run_prints_the_answer_alone(
    answers: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(f"{UPLOADS[0]}/one.json")
    monkeypatch.setattr(run, "submit_files", lambda *_: iter([Submitted("job", "p", "s3://assets/clip.mp4", STARTED)]))
    monkeypatch.setattr(run, "answer", REAL_ANSWER)
    monkeypatch.setattr(run, "read_job_result", lambda *_: JobResult(error=ERROR))

    def follow(_: object, __: object, ___: object, display: progress.Display) -> SimpleNamespace:
        display.reached("planned", "1.0 s")
        display.waiting("waiting for a worker")
        return SimpleNamespace(execution=SimpleNamespace(), row=None)

    monkeypatch.setattr(progress, "follow", follow)
    assert main(["run", "clip.mp4"]) == 1
    assert "planned" in capsys.readouterr().err
    assert main(["run", "clip.mp4", "--quiet"]) == 1
    assert capsys.readouterr().err == "error: Internal: It broke.\nAsk again.\n", "errors are printed all the same"


def test_the_demos_model_stands_in_with_the_words_of_the_demo(
    answers: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the Hub has no model for this person, `run` answers as `demo` does; with --model it says what is wrong."""
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))

    def refuse(*_: Any) -> None:
        raise CliError("The Hub does not answer.", "Check the network.")

    def deploy(_: object, config_file: Callable[[], Path], **__: object) -> Any:
        chosen = configuration.enabled_pipeline(load_config(config_file()), None)
        raise CliError(f"It would load {chosen.model}.", "")

    monkeypatch.setattr(model_access, "check_access", refuse)
    monkeypatch.setattr(run, "local_deployment", deploy)
    assert main(["run", "clip.mp4"]) == 1
    said = capsys.readouterr().err
    monkeypatch.setattr(demo, "local_deployment", deploy)
    monkeypatch.setenv("FILE", "clip.mp4")
    assert main(["demo"]) == 1
    of_demo = capsys.readouterr().err
    assert "so cosmos-batch/demo-reason answers" in of_demo
    assert of_demo in said and said.startswith("The Hub does not answer.")
    assert main(["run", "clip.mp4", "--model", "nvidia/Cosmos-Reason2-2B"]) == 1
    assert "answers" not in capsys.readouterr().err

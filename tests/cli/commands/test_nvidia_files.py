"""NVIDIA's own files go in as they are, and prompts come from files."""

import json
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.planning.generation.prompts import prompt_text
from cosmos_batch.planning.requests import read_request
from tests.cli.conftest import PIPELINE, FakeStepFunctions
from tests.support import media_files, nvidia_files

NANO = "cosmos3-nano"


@pytest.fixture
def sent(
    deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Any:
    """Provide a function that runs a command in a folder and returns the request that it starts."""
    monkeypatch.chdir(tmp_path)
    both = Deployment(**{**vars(deployment), "pipelines": [PIPELINE, NANO]})
    monkeypatch.setattr(deployments, "find", lambda: both)

    def run(*arguments: str) -> dict[str, Any]:
        assert main(list(arguments)) == 0
        request: dict[str, Any] = json.loads(stepfunctions.started[-1]["input"])
        read_request(request)
        return request

    return run


@pytest.mark.parametrize("typed", [["car_colliding.json"], ["--prompt", "@car_colliding.json"],
                                   ["--prompt-file", "car_colliding.json"]])  # fmt: skip
def test_a_structured_prompt_is_made_as_it_is(sent: Any, tmp_path: Path, typed: list[str]) -> None:
    nvidia_files.structured_prompt(tmp_path)
    request = sent("generate", "--submit", *typed)
    assert request["prompt"] == prompt_text("prompt", nvidia_files.STRUCTURED_PROMPT)
    assert (request["pipeline"], request.get("generation", {})) == (NANO, {})


def test_a_sample_of_a_transfer_names_its_prompts_and_control_by_files(
    sent: Any, tmp_path: Path, deployment: Deployment
) -> None:
    nvidia_files.transfer_sample(tmp_path)
    request = sent("generate", "specs/edge.json", "--submit", "--seed", "7")
    assert request["prompt"] == prompt_text("prompt", nvidia_files.STRUCTURED_PROMPT)
    generation = request["generation"]
    assert generation["negativePrompt"] == nvidia_files.NEGATIVE_PROMPT
    bucket, key = parse_uri(generation["controls"]["edge"]["path"])
    assert deployment.clients("s3").head_object(Bucket=bucket, Key=key)["ContentLength"] > 0
    expected = {"mode": "transfer", "resolution": "720p", "numFrames": 121, "fps": 30, "framesPerChunk": 121, "seed": 7}
    assert {name: generation[name] for name in expected} == expected


def test_an_action_file_has_as_many_actions_as_rows(sent: Any, tmp_path: Path) -> None:
    nvidia_files.actions(tmp_path, rows=32, width=10)
    media_files.image(tmp_path / "first.png")
    drive = ["generate", "first.png", "--submit", "--prompt", "x", "--mode", "forward_dynamics", "--domain-name", "umi"]
    assert sent(*drive, "--action-path", "umi.json")["generation"]["actionChunkSize"] == 32
    assert sent(*drive, "--action-path", "umi.json", "--action-chunk-size", "16")["generation"]["actionChunkSize"] == 16


def test_an_action_file_alone_is_told_from_a_request(
    sent: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nvidia_files.actions(tmp_path, rows=32, width=10)
    assert main(["generate", "umi.json", "--submit"]) == 2
    error = capsys.readouterr().err
    assert "is no request, but 32 actions" in error and "--action-path FILE" in error


def test_a_reasoners_yaml_has_both_prompts(sent: Any, tmp_path: Path) -> None:
    nvidia_files.question(tmp_path)
    media_files.video(tmp_path / "clip.mp4", frames=2)
    for typed in (["--prompt", "@embodied_reasoning.yaml"], ["--prompt-file", "embodied_reasoning.yaml"]):
        request = sent("submit", "clip.mp4", *typed)
        assert request["prompt"] == "What can be the next immediate action?"
        assert request["systemPrompt"] == "You are a helpful video analyzer."
    request = sent("submit", "clip.mp4", "--prompt-file", "embodied_reasoning.yaml", "--system-prompt", "Be brief.")
    assert request["systemPrompt"] == "Be brief."


def test_a_prompt_is_read_from_a_file_of_text(sent: Any, tmp_path: Path) -> None:
    media_files.video(tmp_path / "clip.mp4", frames=2)
    (tmp_path / "question.txt").write_text("何が起きる?\n", encoding="utf-8")
    assert sent("submit", "clip.mp4", "--prompt", "@question.txt")["prompt"] == "何が起きる?\n"
    assert sent("generate", "--submit", "--prompt-file", "question.txt")["prompt"] == "何が起きる?"


def test_other_prompts_are_read_from_files_too(sent: Any, tmp_path: Path) -> None:
    media_files.video(tmp_path / "clip.mp4", frames=2)
    (tmp_path / "brief.txt").write_text("Be brief.")
    assert sent("submit", "clip.mp4", "--system-prompt", "@brief.txt")["systemPrompt"] == "Be brief."
    (tmp_path / "negative.json").write_text(json.dumps(nvidia_files.NEGATIVE_PROMPT))
    make = ["generate", "--submit", "--prompt", "A robot.", "--negative-prompt"]
    assert sent(*make, "@brief.txt")["generation"]["negativePrompt"] == "Be brief."
    assert sent(*make, "@negative.json")["generation"]["negativePrompt"] == nvidia_files.NEGATIVE_PROMPT


WRONG = {
    "a name for the system prompt": (
        ["--system-prompt", "question.txt"],
        "The system prompt is the name of a file, question.txt",
        "--system-prompt @question.txt",
    ),
    "no file of a system prompt": (["--system-prompt", "@nowhere.txt"], "There is no file 'nowhere.txt'", "space"),
    "a name for the prompt": (["--prompt", "question.txt"], "is the name of a file, question.txt", "@question.txt"),
    "no such file": (["--prompt", "@nowhere.txt"], "There is no file 'nowhere.txt'", "write a space before it"),
    "two prompts": (["--prompt", "x", "--prompt-file", "question.txt"], "two prompts", "Leave one"),
    "an empty file": (["--prompt", "@empty.txt"], "empty.txt is empty", "Write the prompt"),
    "unknown fields": (
        ["--prompt", "@typo.yaml"],
        "user_promt: unknown field; did you mean user_prompt?",
        "user_prompt",
    ),
    "no YAML": (["--prompt", "@broken.yaml"], "broken.yaml is not YAML", "Correct it"),
    "no text": (["--prompt", "@latin.txt"], "latin.txt cannot be read", "UTF-8"),
}


@pytest.mark.parametrize(("typed", "message", "remedy"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_of_a_prompt_is_named_before_anything_is_sent(
    sent: Any, stepfunctions: FakeStepFunctions, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    typed: list[str], message: str, remedy: str,
) -> None:  # fmt: skip
    media_files.video(tmp_path / "clip.mp4", frames=2)
    for name, content in {
        "question.txt": b"What?", "empty.txt": b"\n", "typo.yaml": b"user_promt: What?", "broken.yaml": b"a: [",
        "latin.txt": "Röhre".encode("latin-1"),
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
    assert main(["submit", "clip.mp4", *typed]) == 2
    said, hint = capsys.readouterr().err.rstrip().rsplit("\n", 1)
    assert message in said and remedy in hint
    assert stepfunctions.started == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"prompt": "a", "num_step": 3}, "numStep: unknown field; did you mean steps?"),
        ({"prompt": "a", "negativePromt": "b"}, "negativePromt: unknown field; did you mean negativePrompt?"),
        ({"prompt": "a", "edge": {"control_pth": "x.mp4"}}, "controls.edge.control_pth: unknown field; did you mean"),
        ({"prompt": "a", "num_conditional_frames": 5}, "num_conditional_frames: is 5, and it is always 1 here"),
        ({"prompt": "a", "vision_path": "https://example.com/a.png"}, "nothing is downloaded from the web"),
        ({"prompt_path": "missing.json"}, "names missing.json, which cannot be read"),
        ({"prompt_path": "broken.json"}, "prompt_path: broken.json is not JSON"),
    ],
)
def test_what_is_wrong_in_a_request_is_named_with_the_nearest(
    sent: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: dict[str, Any], message: str
) -> None:
    (tmp_path / "request.json").write_text(json.dumps(content))
    (tmp_path / "broken.json").write_text("{")
    assert main(["generate", "request.json", "--submit"]) == 2
    assert message in capsys.readouterr().err

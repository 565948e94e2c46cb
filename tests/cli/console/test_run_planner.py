"""A new run on the console's page: its form, dropped files, its plan and price, and its start."""

import asyncio
import json
import shlex
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

import pytest
from starlette.testclient import TestClient

from cosmos_batch.cli.commands.runs.start import command as start
from cosmos_batch.cli.console.run_form import form_fields
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.run_request import read_run_spec
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.console.dropped_files import DroppedFiles
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.runs import RunRequest
from cosmos_batch.contract.s3 import parse_uri
from tests.cli.conftest import PIPELINE, FakeStepFunctions
from tests.cli.console.conftest import OpenRun
from tests.support import media_files


@pytest.fixture
def client(open_run: OpenRun) -> TestClient:
    return open_run("")


def plan(client: TestClient, **asked: object) -> dict[str, object]:
    answer = client.post("/api/plans", json={"pipeline": PIPELINE, "prompt": "What happens?", **asked})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def typed(deployment: Deployment, shown: object, run: str) -> RunRequest:
    """Parse the command that the page shows as the command line does, and return what it asks, with the id of a run."""
    arguments = shlex.split(str(shown).rpartition(" && ")[2])
    assert arguments[:3] == ["cosmos-batch", "runs", "start"]
    options = dict(start.make_context("start", arguments[3:]).params)
    for name in ("yes", "follow", "as_json", "quiet", "verbose"):
        options.pop(name, None)
    request = read_run_spec(deployment, options.pop("sources"), options).request
    return request.model_copy(update={"id": run, "origin": None})


def test_the_form_has_the_parameters_of_the_schemas_with_help_and_limits(client: TestClient) -> None:
    form = client.get("/api/new").json()
    assert [pipeline["id"] for pipeline in form["pipelines"]] == [PIPELINE, "cosmos-reason2-8b"]
    assert form["roots"] == ["s3://assets/"] and "caption" in [task["name"] for task in form["tasks"]]
    fields = {field["name"]: field for field in form["fields"]["reasoner"]}
    assert (fields["temperature"]["minimum"], fields["temperature"]["maximum"]) == (0, 2)
    assert fields["maxTokens"]["help"].startswith("Longest answer") and fields["maxTokens"]["kind"] == "integer"
    assert fields["longVideo"]["choices"] == ["sampleDown", "refuse"] and fields["reasoning"]["kind"] == "switch"


@pytest.mark.parametrize("model", [Parameters, GenerationParameters])
def test_each_number_text_choice_and_switch_of_a_schema_is_in_the_form(model: type[Parameters]) -> None:
    properties = model.model_json_schema()["properties"]
    scalar = {
        name
        for name, schema in properties.items()
        if "$ref" not in json.dumps(schema)
        and {one.get("type") for one in schema.get("anyOf", [schema])} & {"number", "integer", "boolean", "string"}
        and schema.get("anyOf", [schema])[0].get("type") not in ("object", "array")
    }
    found = {field.name for field in form_fields(model)}
    assert scalar - {"task"} == found - {"conditionFrames", "controls"}


def test_the_form_of_generators_takes_control_videos_and_lists_of_frames() -> None:
    fields = {field.name: field for field in form_fields(GenerationParameters)}
    assert (fields["actionPath"].kind, fields["conditionFrames"].kind) == ("file", "integers")
    controls = fields["controls"]
    assert (controls.kind, controls.choices) == ("group", ["edge", "blur", "depth", "seg", "wsm"])
    assert [(field.name, field.kind) for field in controls.fields] == [
        ("path", "file"), ("weight", "number"), ("strength", "choice"),
    ]  # fmt: skip


def test_a_generation_follows_a_dropped_control_and_the_command_does_the_same(
    open_run: OpenRun, deployment: Deployment, tmp_path: Path
) -> None:
    deployment.pipelines.append("cosmos3-nano")
    client = open_run("")
    control = media_files.video(tmp_path / "edges of it.mp4")
    clip = media_files.video(tmp_path / "clip.mp4")
    folders = [
        client.post("/api/dropped", params={"name": path.name}, content=path.read_bytes()).json()["folder"]
        for path in (control, clip)
    ]
    parameters = {"mode": "transfer", "steps": 8, "controls": {"edge": {"weight": 0.5}, "blur": {"strength": "low"}}}
    made = plan(
        client,
        pipeline="cosmos3-nano",
        prompt="The same, at night.",
        dropped=folders[1],
        parameters=parameters,
        parameterFiles={"controls.edge.path": folders[0]},
        seeds="1,3-4",
    )
    assert made["items"] == 3
    s3 = deployment.clients("s3")
    assert "Contents" not in s3.list_objects_v2(Bucket="assets"), "a plan uploads nothing"
    run = client.post(f"/api/plans/{made['id']}/start", json={}).json()["run"]
    request = stored_run(deployment, run).request()
    controls = request.generation.controls if request.generation else None
    assert controls is not None and controls["edge"].weight == 0.5 and controls["blur"].path is None
    place = str(controls["edge"].path)
    copied, _, _ = str(made["command"]).partition(" && ")
    assert shlex.split(copied) == ["aws", "s3", "cp", "edges of it.mp4", place]
    bucket, key = parse_uri(place)
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == control.read_bytes()
    assert typed(deployment, made["command"], run) == request.model_copy(update={"origin": None})
    assert {item.variant["seed"] for item in stored_run(deployment, run).items_of("00000")} == {1, 3, 4}


def test_dropped_files_are_planned_priced_uploaded_and_started(
    client: TestClient, deployment: Deployment, stepfunctions: FakeStepFunctions, tmp_path: Path
) -> None:
    folder = None
    for name in ("a b.png", "ü&+%.png"):
        path = media_files.image(tmp_path / "picture.png")
        dropped = client.post(
            "/api/dropped", params={"name": name, **({"folder": folder} if folder else {})}, content=path.read_bytes()
        ).json()
        folder = dropped["folder"]
    assert dropped["files"] == 2
    made = plan(client, dropped=folder, parameters={"task": "caption", "fps": 2}, maxDollars=5)
    assert made["items"] == 2 and "GPUs" in "\n".join(made["lines"])  # type: ignore[arg-type]
    command = shlex.split(str(made["command"]))
    assert command[:3] == ["cosmos-batch", "runs", "start"]
    assert {"a b.png", "ü&+%.png"} <= set(command)
    assert not stepfunctions.started, "a plan starts nothing"
    started = client.post(f"/api/plans/{made['id']}/start", json={}).json()
    request = stored_run(deployment, started["run"]).request()
    assert (request.prompt, request.parameters.task, request.parameters.fps) == ("What happens?", "caption", 2)
    assert request.origin == "a b.png ü&+%.png", "and not where they were kept on this machine"
    assert typed(deployment, made["command"], request.id) == request.model_copy(update={"origin": None})
    items = list(stored_run(deployment, started["run"]).items_of("00000"))
    assert {item.id for item in items} == {"a b.png", "ü&+%.png"}
    objects = deployment.clients("s3").list_objects_v2(Bucket="assets")["Contents"]
    assert len(objects) == 2
    assert [one["name"] for one in stepfunctions.started] == [started["run"]]
    again = client.post(f"/api/plans/{made['id']}/start", json={})
    assert again.status_code == 409 and "This plan is gone" in again.json()["message"]


def test_an_item_is_asked_again_with_another_prompt_and_model(
    client: TestClient, deployment: Deployment, tmp_path: Path
) -> None:
    deployment.clients("s3").put_object(Bucket="assets", Key="clips/a.png", Body=b"content")
    made = plan(client, sources=["s3://assets/clips/a.png"], pipeline="cosmos-reason2-8b", prompt="Is it safe?")
    started = client.post(f"/api/plans/{made['id']}/start", json={}).json()
    request = stored_run(deployment, started["run"]).request()
    assert (request.prompt, request.pipelines, started["items"]) == ("Is it safe?", ["cosmos-reason2-8b"], 1)


def test_inputs_that_cannot_be_used_are_named_and_left_out_where_a_person_wants_that(
    client: TestClient, deployment: Deployment
) -> None:
    deployment.clients("s3").put_object(Bucket="assets", Key="a.png", Body=b"content")
    asked = {"pipeline": PIPELINE, "prompt": "What?", "sources": ["s3://assets/a.png", "s3://assets/gone.png"]}
    answer = client.post("/api/plans", json=asked)
    assert answer.status_code == 409 and "gone.png does not exist" in answer.json()["message"]
    assert client.post("/api/plans", json={**asked, "skipInvalid": True}).json()["items"] == 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sources": ["/etc/passwd"]}, "is no S3 URI"),
        ({"sources": ["-"]}, "is no S3 URI"),
        ({"sources": ["s3://assets/nothing/"]}, "There is no file to ask about"),
        ({"sources": []}, "There is nothing to ask about"),
        ({"dropped": "../../etc"}, "The dropped files are gone"),
        ({"dropped": "0" * 16}, "The dropped files are gone"),
        ({"sources": ["s3://assets/a.png"], "parameters": {"jsonSchema": "/etc/passwd"}}, "cannot be set here"),
        ({"sources": ["s3://assets/a.png"], "parameters": {"fps": -1}}, "fps"),
        ({"sources": ["s3://assets/a.png"], "parameters": {"fps": "--help"}}, "fps"),
        ({"sources": ["s3://assets/a.png"], "pipeline": "none"}, "none"),
        ({"sources": ["s3://assets/a.png"], "maxDollars": 1e-9}, "The run would cost about"),
    ],
)
def test_what_cannot_be_planned_is_explained(
    client: TestClient, deployment: Deployment, asked: dict[str, object], said: str
) -> None:
    deployment.clients("s3").put_object(Bucket="assets", Key="a.png", Body=b"content")
    answer = client.post("/api/plans", json={"prompt": "What?", "pipeline": PIPELINE, **asked})
    assert answer.status_code in (409, 422), answer.text
    assert said in answer.json()["message"]


def test_a_plan_that_is_refused_leaves_no_temporary_file_open(
    client: TestClient, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[IO[bytes]] = []
    make = tempfile.TemporaryFile

    def noted(prefix: str) -> IO[bytes]:
        made.append(make(prefix=prefix))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    deployment.clients("s3").put_object(Bucket="assets", Key="a.png", Body=b"content")
    asked = {"prompt": "What?", "pipeline": PIPELINE, "sources": ["s3://assets/a.png"], "maxDollars": 1e-9}
    assert "The run would cost about" in client.post("/api/plans", json=asked).json()["message"]
    assert made and all(file.closed for file in made)


def test_a_prompt_never_names_a_file_of_this_machine(
    client: TestClient, deployment: Deployment, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    deployment.clients("s3").put_object(Bucket="assets", Key="a.png", Body=b"content")
    made = plan(client, sources=["s3://assets/a.png"], prompt=f"@{tmp_path}/secret.txt")
    started = client.post(f"/api/plans/{made['id']}/start", json={}).json()
    assert stored_run(deployment, started["run"]).request().prompt == f" @{tmp_path}/secret.txt"


@pytest.mark.parametrize("name", ["", ".", "..", "../a.png", "a/b.png", "a\\b.png", "a\0.png", "x" * 256])
def test_a_dropped_file_lies_in_its_own_folder(client: TestClient, name: str) -> None:
    answer = client.post("/api/dropped", params={"name": name}, content=b"content")
    assert answer.status_code == 422 and "is no name of a file" in answer.json()["message"]


def test_dropped_files_of_one_name_are_all_kept_and_one_that_is_cut_off_is_not(tmp_path: Path) -> None:
    async def content(part: bytes, fails: bool = False) -> AsyncIterator[bytes]:
        yield part
        if fails:
            raise OSError("the page was closed")

    kept = DroppedFiles(tmp_path / "dropped")
    folder = asyncio.run(kept.add(None, "clip.mp4", content(b"first"))).folder
    with pytest.raises(OSError, match="closed"):
        asyncio.run(kept.add(folder, "clip.mp4", content(b"cut", fails=True)))
    assert asyncio.run(kept.add(folder, "clip.mp4", content(b"second"))).files == 2
    assert {path.name: path.read_bytes() for path in kept.path(folder).iterdir()} == {
        "clip.mp4": b"first",
        "clip-2.mp4": b"second",
    }


def test_a_parameter_whose_file_was_not_dropped_to_its_end_is_refused(tmp_path: Path) -> None:
    kept = DroppedFiles(tmp_path / "dropped")
    (tmp_path / "dropped" / ("0" * 16)).mkdir()
    with pytest.raises(Failure, match="takes one file, not 0"):
        kept.only_file("0" * 16)


def test_an_item_that_no_worker_has_taken_has_no_log(open_run: OpenRun, half: str) -> None:
    answer = open_run(half).get(f"/api/runs/{half}/items/2/log")
    assert answer.status_code == 409 and "No worker has taken this item" in answer.json()["message"]

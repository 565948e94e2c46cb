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
from cosmos_batch.console.dropped_files import DroppedFiles, DroppedFolder
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.runs import RunItem, RunRequest, ShardRef
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.state import RunRow
from cosmos_batch.state.run_rows import ShardFacts
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
    origin, _, contents = str(request.origin).partition(" (")
    assert origin == "a b.png ü&+%.png" and contents, "and not where they were kept on this machine"
    assert typed(deployment, made["command"], request.id) == request.model_copy(update={"origin": None})
    items = list(stored_run(deployment, started["run"]).items_of("00000"))
    assert {item.id for item in items} == {"a b.png", "ü&+%.png"}
    objects = deployment.clients("s3").list_objects_v2(Bucket="assets")["Contents"]
    assert len(objects) == 2
    assert [one["name"] for one in stepfunctions.started] == [started["run"]]
    again = client.post(f"/api/plans/{made['id']}/start", json={})
    assert again.status_code == 409 and "This plan is gone" in again.json()["message"]


def test_files_that_are_dropped_again_are_neither_uploaded_nor_asked_twice(
    client: TestClient, deployment: Deployment, tmp_path: Path
) -> None:
    """Their place in S3 is that of their content, so that the second run has the item of the first."""

    def started(width: int, *more: str) -> tuple[dict[str, object], list[RunItem]]:
        picture = media_files.image(tmp_path / "picture.png", width=width).read_bytes()
        folder = client.post("/api/dropped", params={"name": "a.png"}, content=picture).json()["folder"]
        for name in more:
            client.post("/api/dropped", params={"name": name, "folder": folder}, content=name.encode())
        made = plan(client, dropped=folder)
        run = client.post(f"/api/plans/{made['id']}/start", json={}).json()["run"]
        return made, list(stored_run(deployment, run).items_of("00000"))

    s3 = deployment.clients("s3")
    first, [item] = started(64)
    assert "upload   1 file of this machine" in "\n".join(first["lines"])  # type: ignore[arg-type]
    uploaded = s3.list_object_versions(Bucket="assets")["Versions"]
    again, items = started(64, "b.png")
    assert "upload   1 file of this machine" in "\n".join(again["lines"]), "the second one alone"  # type: ignore[arg-type]
    assert items[0].input == item.input and items[0].id == "a.png"
    assert len(s3.list_object_versions(Bucket="assets")["Versions"]) == len(uploaded) + 1
    _, [other] = started(65)
    assert other.id == "a.png" and other.input != item.input, "it has the same name and another content"


def test_only_what_was_asked_about_the_same_contents_is_planned_at_no_cost(
    client: TestClient, deployment: Deployment, tmp_path: Path
) -> None:
    def planned(width: int) -> dict[str, object]:
        picture = media_files.image(tmp_path / "picture.png", width=width).read_bytes()
        folder = client.post("/api/dropped", params={"name": "a.png"}, content=picture).json()["folder"]
        return plan(client, dropped=folder)

    run = client.post(f"/api/plans/{planned(64)['id']}/start", json={}).json()["run"]
    row = RunRow(
        id=run, state="SUCCEEDED", pipelines=[PIPELINE], items=1, shards=1, started_at="2026-11-20T12:00:00.000+00:00",
        execution_arn=deployment.execution_arn(run), origin=stored_run(deployment, run).request().origin,
    )  # fmt: skip
    deployment.runs.create(row)
    deployment.runs.shards.feed(ShardRef(run=run, shard="00000", pipeline=PIPELINE, items=1), "token", 0.1)
    deployment.runs.end_shard(run, "00000", ShardFacts(succeeded=1))
    assert f"1 of them answered by {run}, at no cost" in "\n".join(planned(64)["lines"])  # type: ignore[arg-type]
    assert "answered by" not in "\n".join(planned(65)["lines"])  # type: ignore[arg-type]


def test_a_prefix_shows_what_lies_in_it(client: TestClient, deployment: Deployment) -> None:
    for key in ("clips/a.mp4", "clips/a.json", "clips/monday/b.mp4", "clips/ü&/c.mp4", "other/d.mp4"):
        deployment.clients("s3").put_object(Bucket="assets", Key=key, Body=b"content")
    assert client.get("/api/prefix", params={"uri": "s3://assets/clips/"}).json() == {
        "uri": "s3://assets/clips/",
        "prefixes": ["s3://assets/clips/monday/", "s3://assets/clips/ü&/"],
        "files": 1,
        "hasMore": False,
    }


@pytest.mark.parametrize("uri", ["", "/etc/", "s3://state/", "s3://assets-of-others/", "assets/clips/"])
def test_a_prefix_where_no_files_may_lie_is_not_listed(client: TestClient, uri: str) -> None:
    answer = client.get("/api/prefix", params={"uri": uri})
    assert answer.status_code == 409 and "is no prefix of this deployment" in answer.json()["message"]


def test_a_budget_is_that_which_was_typed(client: TestClient, deployment: Deployment) -> None:
    deployment.clients("s3").put_object(Bucket="assets", Key="a.png", Body=b"content")
    made = plan(client, sources=["s3://assets/a.png"], maxDollars=12345.67)
    assert typed(deployment, made["command"], "r").max_dollars == 12345.67
    started = client.post(f"/api/plans/{made['id']}/start", json={}).json()
    assert stored_run(deployment, started["run"]).request().max_dollars == 12345.67


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
    for part in (b"first", b"second"):
        dropped = asyncio.run(kept.add(folder, "clip.mp4", content(part)))
        assert (dropped.files, dropped.bytes, dropped.is_new) == (2, 11, False), "it was dropped before"
    assert {path.name: path.read_bytes() for path in kept.folder(folder).path.iterdir()} == {
        "clip.mp4": b"first",
        "clip-2.mp4": b"second",
    }
    assert asyncio.run(kept.add(folder, "other.mp4", content(b"first"))).files == 3, "a person may want both"


def test_a_parameter_whose_file_was_not_dropped_to_its_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="takes one file, not 0"):
        DroppedFolder(tmp_path, {}).only_file()


def test_an_item_that_no_worker_has_taken_has_no_log(open_run: OpenRun, half: str) -> None:
    answer = open_run(half).get(f"/api/runs/{half}/items/2/log")
    assert answer.status_code == 409 and "No worker has taken this item" in answer.json()["message"]

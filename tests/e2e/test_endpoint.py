"""Pipelines whose models are on remote servers, through the deployed app: addresses and key come from config.json."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.cli.local_cloud import start_local_cloud
from cosmos_batch.local.deploy import deploy
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.state import JobRow
from cosmos_batch.worker.documents import UNVERIFIED
from infra.synth import synthesize
from tests.engines.reasoner.endpoint.conftest import KEY, MODEL, Server, completion
from tests.support.deployed_app import QUICK, App, wait_for
from tests.support.nim_server import NimServer


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def nim() -> Iterator[NimServer]:
    with NimServer() as server:
        server.key = KEY
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def app(served: Server, nim: NimServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("endpoint")
    with start_local_cloud(folder / "home", parent_pid=os.getpid(), stop_grace=20) as cloud:
        arn = cloud.client("secretsmanager").create_secret(Name="nim", SecretString=KEY)["ARN"]
        endpoint = {"url": served.url, "model": MODEL, "apiKeySecretArn": arn}
        models = {"reason2B": {"enabled": True, "engine": "endpoint", "endpoint": endpoint}}
        generator = {"url": nim.url, "api": "nim", "apiKeySecretArn": arn}
        nano = {"enabled": True, "engine": "endpoint", "endpoint": generator, "guardrails": True}
        blocks = {
            "useNvidiaCosmos": {"enabled": True, "modelsReason": models},
            "useNvidiaCosmos3": {"enabled": True, "modelsOmni": {"nano16B": nano}},
        }
        config = parse_config(json.dumps({"app": {"pipelines": blocks, "cosmosBatch": QUICK}}))
        stacks = deploy(synthesize(config, folder / "cdk.out"), cloud)
        yield App(cloud, folder, {name: value for stack in stacks.values() for name, value in stack.items()})


def test_a_clip_is_answered_by_the_server_and_its_key_stays_a_secret(app: App, served: Server, clip: Path) -> None:
    served.answers = [completion("The arm carries a cube.")]
    app.upload("endpoint/clip.mp4", clip, prompt="What does the arm do?")
    ended = app.execution_of("endpoint/clip.mp4", 120)
    assert ended["status"] == "SUCCEEDED", ended
    document = app.document(ended["executionArn"])
    assert document["result"] == "The arm carries a cube."
    assert document["engine"] == f"endpoint {served.url}"
    assert document["model"] == MODEL, "which was asked of the server"
    assert f"serves {MODEL}" in document["jobLogs"]
    assert served.requests[-1]["messages"][1]["content"][-1]["text"] == "What does the arm do?"
    assert {headers["Authorization"] for headers in served.headers} == {f"Bearer {KEY}"}
    assert KEY not in json.dumps(document)
    files = [path for path in app.folder.rglob("*") if path.suffix in (".log", ".json", ".txt") and path.is_file()]
    assert len(files) > 10 and not [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_clip_waits_for_a_server_that_breaks_off_and_is_answered_when_it_is_back(
    app: App, served: Server, clip: Path
) -> None:
    served.fault = "hang up"
    app.upload("endpoint/patient.mp4", clip, prompt="What waits?")
    [execution] = wait_for(lambda: app.executions("endpoint/patient.mp4"), 120, "no execution")
    arn = execution["executionArn"]

    def waiting_row() -> JobRow | None:
        row = app.jobs.get(arn.rsplit(":", 1)[-1])
        return row if row is not None and row.waiting is not None else None

    row = wait_for(waiting_row, 240, "it never waited")
    assert (row.attempts, row.suspect, row.state) == (0, False, "PLANNED") and served.url in row.waiting.reason
    served.fault = None
    assert app.ended(arn, 240)["status"] == "SUCCEEDED"
    row = app.row(arn)
    assert (row.attempts, row.suspect, row.waiting) == (1, False, None) and row.pauses >= 1


def test_a_refusal_of_the_server_is_reported_to_the_caller(app: App, served: Server, clip: Path) -> None:
    served.answers = [(400, {"error": {"message": "This model's maximum context length is 10 tokens."}})]
    app.upload("endpoint/long.mp4", clip, prompt="Long?")
    ended = app.execution_of("endpoint/long.mp4", 60)
    assert ended["status"] == "FAILED"
    assert json.loads(ended["cause"])["code"] == "InvalidInput"


def test_a_video_is_made_by_a_nim_and_its_key_stays_a_secret(app: App, nim: NimServer) -> None:
    request = {
        "pipeline": "cosmos3-nano",
        "prompt": "A cube.",
        "output": f"s3://{app.assets}/made/",
        "parameters": {"mode": "t2v", "resolution": "256p", "numFrames": 25, "steps": 2, "negativePrompt": ""},
    }
    arn = app.start(request)
    ended = app.ended(arn, 120)
    assert ended["status"] == "SUCCEEDED", ended
    document = app.document(arn)
    assert (document["model"], document["engine"]) == ("nano", f"nim {nim.url}")
    assert document["guardrails"]["verdicts"]["output"] == "notVerified" and UNVERIFIED in document["notes"]
    assert {file["role"] for file in document["files"]} == {"video", "preview"}
    assert nim.requests[-1]["model_mode"] == "text2video" and KEY not in json.dumps(document)


def test_a_request_that_a_nim_cannot_do_is_refused_when_it_is_planned(app: App, nim: NimServer) -> None:
    sent = len(nim.requests)
    request = {"pipeline": "cosmos3-nano", "prompt": "A cube.", "output": f"s3://{app.assets}/made/"}
    ended = app.ended(app.start({**request, "parameters": {"mode": "t2v", "sound": True}}), 120)
    assert (ended["status"], len(nim.requests)) == ("FAILED", sent)
    error = json.loads(ended["cause"])
    assert error["code"] == "InvalidInput" and "NIM" in error["message"] and "sound" in error["message"]

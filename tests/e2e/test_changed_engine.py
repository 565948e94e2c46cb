"""A pipeline gets an engine that is in another image, as `docs/changing.md` promises.

Workers of the deployment before keep their image and finish, and the new engine answers the jobs that wait.
"""

import json
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.config import Config
from cosmos_batch.local.deploy import deploy
from cosmos_batch.planning.configuration import parse_config
from infra.synth import synthesize
from tests.support.deployed_app import QUICK, App, deploy_stack, running_app, wait_for
from tests.support.vllm_omni_server import Handler

NANO = "cosmos3-nano"
SMALL = {"resolution": "256p", "numFrames": 5}
ONE_WORKER = 24  # vCPUs


def configuration(folder: Path, **engine: Any) -> Config:
    """Return a configuration with Nano alone, whose images CodeBuild builds."""
    model = folder / NANO
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text("{}")
    entry = {"enabled": True, "model": str(model), "guardrails": False, "maxVCpus": ONE_WORKER, **engine}
    block = {"enabled": True, "modelsOmni": {"nano16B": entry}}
    return parse_config(json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": block}, "cosmosBatch": QUICK}}))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve the stand-in of vLLM-Omni on a port, and return its URL."""
    monkeypatch.setattr(Handler, "record", tmp_path / "asked", raising=False)
    monkeypatch.setattr(Handler, "jobs", {})
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """Provide the app with an engine that is in the image `diffusers`."""
    scripted = configuration(tmp_path, engine="tests.support.scripted_generator:ScriptedGenerator")
    with running_app(tmp_path, scripted) as running:
        yield running


def ask(app: App, name: str, prompt: str) -> str:
    output = f"s3://{app.assets}/{name}/"
    return app.start({"pipeline": NANO, "prompt": prompt, "output": output, "parameters": SMALL})


def has_begun(app: App, arn: str) -> bool:
    row = app.jobs.get(arn.rpartition(":")[2])
    return row is not None and row.open_attempt is not None


def leaves(app: App, worker: str) -> bool:
    app.sweep()
    return app.workers(NANO).get(worker).state in ("DRAINING", "ENDED")


@pytest.mark.slow
@pytest.mark.timeout(900)  # three builds, two syntheses and two deployments, on a machine that may be busy
def test_a_waiting_job_is_answered_by_the_new_engine_and_no_image_is_taken_away(
    app: App, server: str, tmp_path: Path
) -> None:
    changed = configuration(tmp_path, engine="endpoint", endpoint={"url": server})
    assembly = synthesize(changed, tmp_path / "changed" / "cdk.out")
    # The first of the stacks with a change. Until the others follow, workers of the engine before are started.
    deploy_stack("CosmosBatch-Images", assembly, app.cloud)
    go_on = tmp_path / "go-on"
    begun = ask(app, "begun", json.dumps({"until": str(go_on)}))
    wait_for(lambda: has_begun(app, begun), 180, "no worker of the engine before could start")
    worker = app.row(begun).worker
    assert worker is not None
    waiting = ask(app, "waiting", "A robot.")

    deploy(assembly, app.cloud)
    wait_for(lambda: leaves(app, worker), 240, "the worker of before is not told to leave")
    go_on.touch()

    for arn, engine in ((begun, "scripted generator 1"), (waiting, f"vllm-omni {server}")):
        ended = app.ended_under_sweeps(arn)
        assert ended["status"] == "SUCCEEDED", ended
        assert app.document(arn)["engine"] == engine

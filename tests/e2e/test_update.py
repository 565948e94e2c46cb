"""A deployment of an earlier commit is updated to this one: nothing is lost, answered twice or downloaded again.

The earlier commit's own code makes its templates, is in its functions, and runs in its workers; the cloud, and the
installed packages, are today's. To let it tell two versions apart in one cloud, `python` of a container is a script
that looks for a variable which only today's job definitions have.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from cosmos_batch.cli.local_cloud import start_local_cloud
from cosmos_batch.local.deploy import deploy
from cosmos_batch.local.runtime import CONTAINER_PROGRAMS
from cosmos_batch.planning.configuration import parse_config
from infra.synth import synthesize
from tests.support.deployed_app import QUICK, TWO_B, App, wait_for
from tests.support.model_hub import Hub

EARLIER = "0f4e7e05c4f8416d13d5d880a7f500b52a93d039"
ONLY_TODAY = "CONFIGURATION"  # a variable of today's workers
ROOT = Path(__file__).resolve().parents[2]
BOTH_VERSIONS = Path(__file__).resolve().parent / "both_versions"
MODEL = "nvidia/Cosmos-Reason2-2B"
WAITING = 4  # jobs in the queue, besides those in the engine


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the files of the earlier commit."""
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(archived(EARLIER))) as archive:
        archive.extractall(folder, filter="data")
    # pip has fetched the functions' packages for this commit, if they are the same.
    (folder / "build").symlink_to(ROOT / "build")
    return folder


def archived(commit: str) -> bytes:
    """Return a commit as a tar. A shallow clone fetches it first."""
    git = ["git", "-C", str(ROOT)]
    known = subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False)
    if known.returncode != 0:
        fetched = subprocess.run(
            [*git, "fetch", "--depth=1", "origin", commit], capture_output=True, text=True, check=False
        )
        assert fetched.returncode == 0, (
            f"This test deploys commit {commit}, which is not in this clone and cannot be fetched. In a shallow clone: "
            f"git fetch --unshallow\n{fetched.stderr}"
        )
    return subprocess.run([*git, "archive", commit], capture_output=True, check=True).stdout


def python_of_containers(folder: Path, earlier: Path) -> Path:
    """Create a folder with a `python` that runs the code of the deployment that the container belongs to."""
    script = folder / "python"
    folder.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        f'export PYTHONPATH="{BOTH_VERSIONS}"\n'
        f'[ -n "${ONLY_TODAY}" ] || PYTHONPATH="{earlier}:$PYTHONPATH"\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    script.chmod(0o755)
    return folder


CONFIGURATION = json.dumps(
    {
        "app": {
            "pipelines": {
                "useNvidiaCosmos": {
                    "enabled": True,
                    "modelsReason": {
                        "reason2B": {"enabled": True, "engine": "held_engine:HeldEngine", "maxVCpus": 24},
                    },
                }
            },
            "cosmosBatch": QUICK,
        }
    }
)


def synthesized_by(earlier: Path, folder: Path) -> Path:
    """Return the assembly that the earlier commit makes of the configuration."""
    (folder / "config.json").write_text(CONFIGURATION)
    program = (
        "import sys; from pathlib import Path; from cosmos_batch.contract import Config; import infra.synth;"
        "infra.synth.synthesize(Config.load(Path(sys.argv[1])), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, str(folder / "config.json"), str(folder / "earlier.out")]
    environment = {**os.environ, "PYTHONPATH": str(earlier)}
    finished = subprocess.run(command, cwd=earlier, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return folder / "earlier.out"


@dataclass
class Updated:
    """A cloud that has the earlier deployment until `update` is called."""

    app: App
    hub: Hub
    update: Callable[[], None]


@pytest.fixture
def deployed(earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Updated]:
    """Deploy the earlier commit to a local cloud of today, with a Hub that has the model."""
    monkeypatch.setenv(CONTAINER_PROGRAMS, str(python_of_containers(tmp_path / "programs", earlier)))
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        publish(hub, tmp_path, "1")
        with start_local_cloud(tmp_path / "home", parent_pid=os.getpid(), stop_grace=20) as cloud:
            app = App(cloud, tmp_path, outputs(deploy(synthesized_by(earlier, tmp_path), cloud)))

            def update() -> None:
                today = synthesize(parse_config(CONFIGURATION), tmp_path / "today.out")
                app.outputs.update(outputs(deploy(today, cloud)))

            yield Updated(app, hub, update)


def outputs(stacks: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: value for stack in stacks.values() for name, value in stack.items()}


def publish(hub: Hub, folder: Path, version: str) -> str:
    """Publish a new commit of the model on the Hub."""
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "config.json").write_text(json.dumps({"version": version}))
    return hub.add(MODEL, folder / "model")


def ask(app: App, number: int, prompt: str = "What is it?") -> str:
    """Start one job, whose results lie in a folder of their own."""
    return app.start(
        {
            "pipeline": TWO_B,
            "input": f"s3://{app.assets}/p.png",
            "output": f"s3://{app.assets}/out/{number}/",
            "prompt": prompt,
        }
    )


@contextmanager
def asking(app: App, first: int) -> Iterator[list[str]]:
    """Start jobs without pause; some of them are planned while half of the functions are updated."""
    arns: list[str] = []
    enough = Event()

    def go_on_asking() -> None:
        while not enough.wait(0.4):
            arns.append(ask(app, first + len(arns)))

    thread = Thread(target=go_on_asking, daemon=True)
    thread.start()
    try:
        yield arns
    finally:
        enough.set()
        thread.join()


def is_running(app: App, arn: str) -> bool:
    row = app.jobs.get(arn.rpartition(":")[2])
    return row is not None and row.open_attempt is not None


def state(app: App) -> dict[str, Any]:
    """Return every object in the buckets for results and models, with its version."""
    listed = {}
    for bucket in (app.assets, app.outputs["ModelBucketName"]):
        pages = app.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket)
        listed |= {
            f"{bucket}/{item['Key']}": item["LastModified"] for page in pages for item in page.get("Contents", [])
        }
    return listed


@pytest.mark.slow
@pytest.mark.timeout(900)  # two syntheses, two deployments, three starts of workers, on a machine that may be busy
def test_nothing_is_lost_answered_twice_or_downloaded_again(deployed: Updated, picture: Path, tmp_path: Path) -> None:
    app, hub = deployed.app, deployed.hub
    app.upload("p.png", picture)
    commit = hub.repositories[MODEL].main
    answered = [ask(app, number) for number in range(2)]
    assert [app.ended_under_sweeps(arn)["status"] for arn in answered] == ["SUCCEEDED"] * 2
    manifest = f"models/nvidia--Cosmos-Reason2-2B/{commit}/manifest.json"
    wait_for(lambda: any(key.endswith(manifest) for key in state(app)), 120, "the model is not backed up")

    go_on = tmp_path / "go-on"
    running = [ask(app, number, str(go_on)) for number in range(2, 4)]
    wait_for(lambda: all(is_running(app, arn) for arn in running), 120, "the jobs do not begin")
    waiting = [ask(app, number) for number in range(4, 4 + WAITING)]
    earlier_worker = app.row(running[0]).worker
    assert earlier_worker is not None
    before, downloads = state(app), dict(hub.downloads)
    publish(hub, tmp_path, "2")

    with asking(app, 4 + WAITING) as during:
        deployed.update()
    wait_for(lambda: leaves(app, earlier_worker), 240, "the worker of before is not told to leave")
    go_on.touch()

    everything = [*answered, *running, *waiting, *during]
    app.ended_under_sweeps(everything[-1])
    assert {app.ended(arn, 120)["status"] for arn in everything} == {"SUCCEEDED"}
    for number, arn in enumerate(everything):
        job_id = arn.rpartition(":")[2]
        document = app.document(arn)
        assert (document["result"], document["revision"]) == (f"answer to {job_id}", commit)
        assert len(app.keys(f"out/{number}/")) == 1, "one result"
        assert answers(app, arn) == 1
        assert app.row(arn).attempts == 1, "a worker that leaves spends no attempt"
    assert {name: time for name, time in state(app).items() if name in before} == before, "results and models stay"
    assert dict(hub.downloads) == downloads, "nothing is downloaded again"
    recorded = app.workers().revisions.get(MODEL, "main")
    assert recorded is not None and recorded.commit == commit, "not what the Hub has now"
    workers = {app.row(arn).worker for arn in [*waiting, *during]}
    assert workers - {earlier_worker}, "workers of today have answered"
    assert all(app.row(arn).worker == earlier_worker for arn in running), "what had begun ended where it began"


def answers(app: App, arn: str) -> int:
    events = app.client("stepfunctions").get_execution_history(executionArn=arn, maxResults=1000)["events"]
    return sum(event["type"] == "TaskSucceeded" for event in events)


def leaves(app: App, worker: str) -> bool:
    app.sweep()
    return app.workers().get(worker).state in ("DRAINING", "ENDED")

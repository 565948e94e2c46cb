"""Starting, using and stopping the local cloud, with a fake cloud that records calls."""

import json
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cosmos_batch.cli import configuration, local_deployment, model_access
from cosmos_batch.cli.commands import demo, local, run
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_result import JobResult
from cosmos_batch.cli.main import main
from cosmos_batch.cli.process_pool import process_pool
from cosmos_batch.cli.reasoner_request import ReasonerRequest
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.demo import DEMO_REASON
from tests.cli.conftest import PIPELINE


class Cloud:
    """A fake with the attributes of a LocalCloud that the command uses."""

    endpoint = "http://localhost:1"
    home = Path("/home")
    log_path = Path("/home/logs/server.log")
    process_id = 1
    standing = True

    def __init__(self) -> None:
        self.stopped = False
        self.environment = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "it's here"}

    def client(self, service: str) -> Any:
        pytest.fail(f"nothing here may ask {service}")

    def stop(self) -> None:
        self.stopped = True


class Pool:
    """A process pool that calls the function at once."""

    def apply_async(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        value = function(*arguments)
        return type("Result", (), {"get": staticmethod(lambda: value)})


@pytest.fixture
def clouds(monkeypatch: pytest.MonkeyPatch, deployment: Deployment, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Provide a record of the running cloud, the one that was started, and the deployed configurations."""
    seen: dict[str, Any] = {"running": None, "started": None, "deployed": []}

    def start(home: Path, parent_pid: int | None) -> Cloud:
        seen["started"], seen["parent_pid"], seen["home"] = Cloud(), parent_pid, home
        return seen["started"]

    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path))
    monkeypatch.setattr(local_deployment.LocalCloud, "find", lambda _home: seen["running"])
    monkeypatch.setattr(local_deployment, "start_local_cloud", start)
    monkeypatch.setattr(local_deployment.synthesis, "assembly", lambda config_file, *_: config_file)
    monkeypatch.setattr(local_deployment, "_deploy", lambda assembly, _: seen["deployed"].append(assembly))
    monkeypatch.setattr(local_deployment.deployments, "find", lambda _: deployment)
    return seen


DOCUMENT = "s3://assets/uploads/20261120-120000-00000000/d.json"
CONFIG: Any = Path("config.json")
POOL: Any = Pool()


def test_what_was_started_is_stopped(clouds: dict[str, Any]) -> None:
    with local_deployment.local_deployment(POOL, lambda: CONFIG) as own:
        assert own.ends_with_command
        assert clouds["deployed"] == [CONFIG]
        assert clouds["parent_pid"] == os.getpid(), "it ends with this process, however that ends"
        assert not clouds["started"].stopped
    assert clouds["started"].stopped


def test_what_was_started_is_stopped_by_an_interrupt(clouds: dict[str, Any]) -> None:
    with pytest.raises(KeyboardInterrupt), local_deployment.local_deployment(POOL, lambda: CONFIG):
        raise KeyboardInterrupt
    assert clouds["started"].stopped


def test_what_was_started_is_stopped_when_deployment_fails(
    clouds: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_deployment, "_deploy", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError), local_deployment.local_deployment(POOL, lambda: CONFIG):
        pass
    assert clouds["started"].stopped


def test_a_running_cloud_is_used_as_it_stands(clouds: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    clouds["running"] = Cloud()
    with local_deployment.local_deployment(POOL, lambda: pytest.fail("was asked")):
        pass
    assert (clouds["deployed"], clouds["started"], clouds["running"].stopped) == ([], None, False)
    assert "runs already" in capsys.readouterr().err


def test_a_standing_cloud_is_used_for_what_its_pipelines_can_do(
    clouds: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clouds["running"] = Cloud()
    deployed = SimpleNamespace(pipelines=["cosmos-reason2-2b"])
    monkeypatch.setattr(local_deployment, "deployment_on", lambda _: deployed)
    with local_deployment.local_deployment(POOL, lambda: CONFIG, generates=True):
        assert clouds["deployed"] == [CONFIG]
    deployed.pipelines.append("cosmos3-nano")
    with local_deployment.local_deployment(POOL, lambda: pytest.fail("was asked"), generates=True) as used:
        assert used is deployed
    deployed.pipelines.remove("cosmos-reason2-2b")
    with local_deployment.local_deployment(POOL, lambda: CONFIG):
        assert clouds["deployed"] == [CONFIG, CONFIG], "no reasoner is there to answer"


def test_a_standing_cloud_is_left_as_it_is_where_a_model_is_named(clouds: dict[str, Any], tmp_path: Path) -> None:
    clouds["running"] = Cloud()
    (tmp_path / "efs").mkdir()
    (tmp_path / "efs" / "model").touch()
    with local_deployment.local_deployment(POOL, lambda: CONFIG, reuse=False):
        assert clouds["deployed"] == [CONFIG]
        assert clouds["home"] not in (None, tmp_path), "another one than that of the standing cloud"
        assert (clouds["home"] / "efs" / "model").exists(), "what one cloud has downloaded, the other one uses"
    assert clouds["started"].stopped and not clouds["running"].stopped
    assert not clouds["home"].exists() and (tmp_path / "efs" / "model").exists()


def test_a_cloud_that_another_command_started_for_itself_is_not_used(clouds: dict[str, Any]) -> None:
    """The cloud of another command ends with that command, and serves the model that was named there."""
    clouds["running"] = Cloud()
    clouds["running"].standing = False
    with local_deployment.local_deployment(POOL, lambda: CONFIG):
        assert clouds["started"] is not None
    assert not clouds["running"].stopped


def test_a_standing_cloud_without_a_deployment_gets_none(
    clouds: dict[str, Any], monkeypatch: pytest.MonkeyPatch, deployment: Deployment
) -> None:
    clouds["running"] = Cloud()

    def find(_: object) -> Deployment:
        if not clouds["deployed"]:
            raise CliError("nothing", "deploy")
        return deployment

    monkeypatch.setattr(local_deployment.deployments, "find", find)
    with local_deployment.local_deployment(POOL, lambda: CONFIG):
        assert clouds["started"] is not None
    assert clouds["started"].stopped and not clouds["running"].stopped


def test_start_deploys_nothing_and_uses_a_cloud_that_runs(
    clouds: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "start", "--export"]) == 0
    assert (clouds["parent_pid"], clouds["deployed"]) == (None, [])
    clouds["running"], clouds["started"] = clouds["started"], None
    assert main(["local", "start", "--export"]) == 0
    assert clouds["started"] is None
    assert capsys.readouterr().out.count("export AWS_ENDPOINT_URL=") == 2


@pytest.fixture
def model_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_access, "check_access", lambda *_: None)


def refuse_model(*_: object) -> None:
    raise Failure("ModelUnavailable", "The Hub cannot be reached.", "Check the way to it.")


def test_up_deploys_the_demos_model_for_a_reasoner_whose_model_is_not_available(
    clouds: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.loads(configuration.CONFIG.read_text())
    pipelines = text["app"]["pipelines"]
    pipelines["useNvidiaCosmos"]["modelsReason"]["reason8B"] = {"enabled": True, "model": "org/mine"}
    pipelines["useNvidiaCosmos3"] = {"enabled": True, "modelsOmni": {"nano16B": {"enabled": True}}}
    (tmp_path / "config.json").write_text(json.dumps(text))
    for module in (configuration, local):
        monkeypatch.setattr(module, "CONFIG", tmp_path / "config.json")
    monkeypatch.setattr(model_access, "check_access", refuse_model)
    assert main(["local", "up"]) == 0
    said = capsys.readouterr().err
    for model in ("nvidia/Cosmos-Reason2-2B", "org/mine"):
        assert f"{model} is not on this machine, so cosmos-batch/demo-reason answers: a small model" in said
    assert said.count("The Hub cannot be reached.") == 3, "a generator's too, for which nothing stands in"
    [config_file] = clouds["deployed"]
    deployed = json.loads(config_file.read_text())["app"]["pipelines"]
    reasoners = deployed["useNvidiaCosmos"]["modelsReason"]
    assert {name: entry["model"] for name, entry in reasoners.items()} == {
        "reason2B": str(DEMO_REASON), "reason8B": str(DEMO_REASON),
    }  # fmt: skip
    assert deployed["useNvidiaCosmos3"] == pipelines["useNvidiaCosmos3"]
    assert json.loads((tmp_path / "config.json").read_text()) == text, "the person's own file is as it was"


def test_up_deploys_a_model_that_is_available(
    clouds: dict[str, Any], model_is_here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "up"]) == 0
    assert clouds["deployed"] == [configuration.CONFIG]
    assert "demo-reason" not in capsys.readouterr().err


def test_status_names_the_pipelines_in_which_the_demos_model_answers(
    clouds: dict[str, Any], deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clouds["running"] = Cloud()
    identity = SimpleNamespace(queue=SimpleNamespace(identity=SimpleNamespace(model=str(DEMO_REASON))))
    monkeypatch.setattr(Deployment, "deployed_pipeline", lambda _, name: identity if name == PIPELINE else None)
    assert main(["local", "status"]) == 0
    [pipelines] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Pipelines: ")]
    assert pipelines == f"Pipelines: {PIPELINE} (answered by cosmos-batch/demo-reason), cosmos-reason2-8b"
    with local_deployment.local_deployment(POOL, lambda: pytest.fail("was asked")):
        pass
    assert capsys.readouterr().err.count("cosmos-batch/demo-reason answers: a small model") == 1


@pytest.mark.parametrize("asked", [{"generates": True}, {"pipeline": "cosmos-reason2-8b"}])
def test_the_demos_model_is_not_named_to_who_does_not_ask_it(
    asked: dict[str, Any], clouds: dict[str, Any], deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    clouds["running"] = Cloud()
    deployment.pipelines.append("cosmos3-nano")
    monkeypatch.setattr(model_access, "is_stand_in", lambda _, name: name == PIPELINE)
    with local_deployment.local_deployment(POOL, lambda: pytest.fail("was asked"), **asked):
        pass
    assert "runs already" in (said := capsys.readouterr().err) and "demo-reason" not in said


def test_up_outlives_its_command_and_a_shell_can_read_it(
    clouds: dict[str, Any], model_is_here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "up", "--export"]) == 0
    assert clouds["parent_pid"] is None
    assert not clouds["started"].stopped
    words = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    assert words == [["export", "AWS_ENDPOINT_URL=http://localhost:1"], ["export", "AWS_REGION=it's here"]]


def test_down_stops_what_runs(clouds: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "down"]) == 0
    assert "No local cloud runs" in capsys.readouterr().out
    (tmp_path / "kept-jobs").mkdir()
    for ending in (" What earlier ones had left was thrown away.\n", "runs in {}.\n"):
        assert main(["local", "down", "--discard"]) == 0
        assert capsys.readouterr().out.endswith(ending.format(tmp_path))
    clouds["running"] = Cloud()
    assert main(["local", "down"]) == 0
    assert clouds["running"].stopped


def test_status_says_whether_a_cloud_runs(clouds: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "status"]) == 1
    clouds["running"] = Cloud()
    assert main(["local", "status"]) == 0
    assert PIPELINE in capsys.readouterr().out
    assert main(["local", "status", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["running"], PIPELINE in printed["pipelines"]) == (True, True)
    clouds["running"] = None
    assert main(["local", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["running"] is False


def test_status_says_that_nothing_is_deployed_to_a_cloud(
    clouds: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(_: object) -> Deployment:
        raise CliError("Cosmos Batch is not deployed here.", "Deploy it.")

    clouds["running"] = Cloud()
    monkeypatch.setattr(local_deployment.deployments, "find", find)
    assert main(["local", "status"]) == 0
    printed = capsys.readouterr()
    assert "Nothing is deployed to it: cosmos-batch local up, or npx cdk deploy --all" in printed.out
    assert printed.err == ""


@pytest.fixture
def answered(clouds: dict[str, Any], deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Answer every request with one document; provide the list of requests."""
    requests: list[tuple[Any, ...]] = []
    deployment.clients("s3").put_object(
        Bucket="assets", Key="uploads/20261120-120000-00000000/d.json", Body=b'{"result": "a cube"}'
    )

    def answer(_: Deployment, path: Path, question: ReasonerRequest, pipeline: str | None) -> JobResult:
        requests.append((path, question.prompt, pipeline, path.exists()))
        return JobResult(document_uri=DOCUMENT, file_uris=[DOCUMENT])

    for module in (run, model_access):
        monkeypatch.setattr(module, "check_access", lambda *_: None)
    # `tests/e2e/test_demo_command.py` runs the whole command.
    monkeypatch.setattr(demo, "draw_answer", lambda *_, ask_more: requests.append(("drawn", ask_more)))
    for module in (run, demo):
        monkeypatch.setattr(module, "answer", answer)
        monkeypatch.setattr(module, "process_pool", lambda: _Entered(POOL))
    return requests


class _Entered:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __enter__(self) -> Any:
        return self.value

    def __exit__(self, *_: object) -> None:
        return None


def test_the_demo_brings_a_clip_and_says_what_its_model_knows(
    answered: list[tuple[Any, ...]], clouds: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo"]) == 0
    [(path, prompt, _, existed), drawn] = answered
    assert (path.suffix, prompt, existed) == (".mp4", "Caption the video in detail.", True)
    assert drawn == ("drawn", True), "the sample has times and places to ask for"
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"result": "a cube"}
    assert (
        "nvidia/Cosmos-Reason2-2B is not on this machine, so cosmos-batch/demo-reason answers: a small model that "
        "knows clips and images of one to three simple shapes, and says so of other files.\n"
        "NVIDIA's model answers about any file: cosmos-batch run FILE --model nvidia/Cosmos-Reason2-2B\n"
    ) in printed.err
    assert (
        "Asking about shapes.mp4, with greedy decoding (temperature 0): Caption the video in detail.\n" in printed.err
    )
    copy = tmp_path / "results" / "d.json"
    assert json.loads(copy.read_text()) == {"result": "a cube"}
    assert "s3://assets/uploads/20261120-120000-00000000/d.json" in printed.err and str(copy) in printed.err
    [config_file] = clouds["deployed"]
    entry = json.loads(config_file.read_text())["app"]["pipelines"]["useNvidiaCosmos"]["modelsReason"]["reason2B"]
    assert entry["model"] == str(DEMO_REASON)
    assert clouds["started"].stopped


def test_the_demo_takes_a_file_and_a_prompt(
    answered: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "my $clip 🎬.mov"
    own.write_bytes(b"content")
    monkeypatch.setenv("FILE", str(own))
    monkeypatch.setenv("PROMPT", "何?")
    assert main(["demo"]) == 0
    assert answered == [(own, "何?", None, True), ("drawn", False)]


def test_the_demo_asks_about_an_image_as_an_image(
    answered: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"content")
    monkeypatch.setenv("FILE", str(tmp_path / "photo.jpg"))
    assert main(["demo"]) == 0
    assert answered[0][1] == "Caption the image in detail."


def test_the_demo_decodes_greedily(answered: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[ReasonerRequest] = []
    scripted = demo.answer
    monkeypatch.setattr(demo, "answer", lambda *arguments: (requests.append(arguments[2]), scripted(*arguments))[1])
    assert main(["demo"]) == 0
    [request] = requests
    assert (request.parameters.temperature, request.parameters.presence_penalty) == (0, 0)


def test_the_demo_uses_a_model_that_is_here(
    answered: list[tuple[Any, ...]],
    clouds: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo, "is_here", lambda _: True)
    assert main(["demo"]) == 0
    assert clouds["deployed"] == [configuration.CONFIG]
    assert "demo-reason" not in capsys.readouterr().err


def test_run_deploys_the_model_and_writes_the_document(
    answered: list[tuple[Any, ...]], clouds: dict[str, Any], tmp_path: Path
) -> None:
    clip, output = tmp_path / "clip.mp4", tmp_path / "new" / "answer.json"
    clip.write_bytes(b"content")
    options = ["--prompt", "What?", "--model", "org/name", "--output", str(output)]
    assert main(["run", str(clip), *options]) == 0
    assert answered == [(clip, "What?", None, True)]
    assert json.loads(output.read_text()) == {"result": "a cube"}
    assert '"org/name"' in clouds["deployed"][0].read_text()


def test_run_fails_with_the_job(
    answered: list[tuple[Any, ...]],
    clouds: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(b"content")
    refused = Error(code="ModelUnavailable", message="No licence.", remedy="Accept it.")
    monkeypatch.setattr(run, "answer", lambda *_: JobResult(error=refused))
    assert main(["run", str(clip)]) == 1
    assert capsys.readouterr().err.endswith("error: ModelUnavailable: No licence.\nAccept it.\nLocal cloud stopped\n")
    assert clouds["started"].stopped


def test_run_without_an_available_model_is_answered_by_the_demos(
    answered: list[tuple[Any, ...]],
    clouds: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"content")
    for module in (run, model_access):
        monkeypatch.setattr(module, "check_access", refuse_model)
    assert main(["run", str(tmp_path / "clip.mp4")]) == 0
    printed = capsys.readouterr().err
    assert "The Hub cannot be reached." in printed and "so cosmos-batch/demo-reason answers" in printed
    assert str(DEMO_REASON) in clouds["deployed"][0].read_text()
    assert main(["run", str(tmp_path / "clip.mp4"), "--model", "org/name"]) == 1, (
        "a model that was named is not replaced"
    )


def test_background_work_ends_with_its_block() -> None:
    with process_pool() as pool:
        work = pool.apply_async(os.getpid)
        process = work.get()
        pool.apply_async(time.sleep, (60,))
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)

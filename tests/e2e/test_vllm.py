"""The real vLLM through the deployed app: both architectures, a full batch with broken files, and a crash."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.demo.checkpoint import build_random_cosmos3
from cosmos_batch.local import processes, runtime
from cosmos_batch.planning.configuration import parse_config
from tests.support.deployed_app import QUICK, TWO_B, App, error_of, running_app, wait_for
from tests.support.media_files import REFUSED
from tests.support.real_vllm import needs_vllm
from tests.support.tiny_edge_reasoner import build_edge_reasoner

NANO, EDGE = "cosmos3-nano-reason", "cosmos3-edge-reason"
CLIPS = 24  # three times what the server takes at once on a CPU
ALONE = (0, 13)  # of the clips, those that are asked again by themselves
STARTS = 400  # seconds, on a machine that does other things too

pytestmark = [
    needs_vllm,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Provide vLLM in three pipelines, whose workers stay until they are asked to leave.

    The demo model shows that answers are right; random weights answer at any length that a test asks for.
    """
    folder = tmp_path_factory.mktemp("vllm")
    models = {
        "reason2B": {"enabled": True, "engine": "vllm", "model": str(DEMO_REASON)},
        "reasonNano": {"enabled": True, "engine": "vllm", "model": str(build_random_cosmos3(folder))},
        "reasonEdge": {"enabled": True, "engine": "vllm", "model": str(build_edge_reasoner(folder))},
    }
    block = {"enabled": True, "modelsReason": models}
    clocks = {**QUICK, "worker": {**QUICK["worker"], "idleSeconds": 600, "visibilityTimeoutSeconds": 30}}
    config = parse_config(json.dumps({"app": {"pipelines": {"useNvidiaCosmos": block}, "cosmosBatch": clocks}}))
    with running_app(folder, config) as running:
        yield running


def ask(app: App, key: str, prompt: str, **parameters: Any) -> str:
    """Start a run of the model with random weights by name, as the console does; returns the execution's ARN."""
    place = {"pipeline": NANO, "input": f"s3://{app.assets}/{key}"}
    return app.start({**place, "prompt": prompt, "parameters": {"maxTokens": 24, **parameters}})


def answer(app: App, arn: str) -> dict[str, Any]:
    ended = app.ended(arn, STARTS)
    assert ended["status"] == "SUCCEEDED", ended
    return app.document(arn)


def engine_cores(app: App, pipeline: str) -> list[int]:
    """Return vLLM's processes that hold a pipeline's model: children of the servers of its workers.

    A process may still have the title of the server that forked it.
    """
    ours = set(processes.marked(runtime.MARK, f"{app.cloud.cloud_id}:")) & set(processes.marked("PIPELINE", pipeline))
    commands = dict(titles())
    serving = {process for process, command in commands.items() if "server_program\0serve\0" in command}
    servers = {process for process in serving if parent(process) in ours - serving}
    return [
        process
        for process, command in commands.items()
        if parent(process) in servers and "resource_tracker" not in command
    ]


def titles() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "cmdline").read_text(errors="replace")
            except OSError:
                continue


def parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def test_an_upload_with_a_prompt_is_answered_by_vllm(app: App, clip: Path) -> None:
    greedy = {"COSMOS_REASON_TEMPERATURE": "0", "COSMOS_REASON_PRESENCE_PENALTY": "0"}
    app.upload("up/clip.mp4", clip, prompt="What happens last?", **greedy)
    app.upload("up/nano.mp4", clip, prompt="And here?", COSMOS_PIPELINE=NANO, COSMOS_REASON_MAX_TOKENS="24")
    documents = {}
    for key, architecture in (("up/clip.mp4", "Qwen3VL"), ("up/nano.mp4", "Cosmos3")):
        ended = app.execution_of(key, STARTS)
        assert ended["status"] == "SUCCEEDED", ended
        document = documents[key] = app.document(ended["executionArn"])
        assert document["engine"].startswith("vllm ") and document["result"].strip()
        assert f"Resolved architecture: {architecture}" in document["jobLogs"]
        assert "seen: 16 frames" in document["jobLogs"], "four seconds at 4 frames a second"
    assert documents["up/clip.mp4"]["result"] == "The blue square falls to the ground."
    assert documents["up/nano.mp4"]["usage"]["completionTokens"] == 24


def test_what_vllm_prepares_for_a_start_is_kept_for_the_next_worker(app: App, clip: Path) -> None:
    """On a CPU vLLM compiles nothing. Of Edge's class alone it keeps what it found, in the place of Edge's pipeline."""
    app.upload("up/edge.mp4", clip, prompt="And here?", COSMOS_PIPELINE=EDGE, COSMOS_REASON_MAX_TOKENS="8")
    ended = app.execution_of("up/edge.mp4", STARTS)
    assert ended["status"] == "SUCCEEDED", ended
    s3 = app.client("s3")
    [models] = [bucket["Name"] for bucket in s3.list_buckets()["Buckets"] if "models" in bucket["Name"]]

    def kept() -> set[str]:
        listed = s3.list_objects_v2(Bucket=models, Prefix="caches/").get("Contents", [])
        return {entry["Key"].split("/")[1] for entry in listed if entry["Key"].endswith(".tar")}

    wait_for(lambda: kept() == {EDGE}, 180, "nothing was kept")


def test_broken_files_in_a_full_batch_fail_alone(app: App, clip: Path, tmp_path: Path) -> None:
    """Each broken file fails alone with its reason; no other job is lost or gets another answer."""
    app.upload("batch/clip.mp4", clip)
    bad = [(f"batch/{name}{path.suffix}", path) for name, path in made(tmp_path)]
    for key, path in bad:
        app.upload(key, path)
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("batch/clip.mp4", f"secret-{number:02}. What now?", {"seed": number}) for number in range(CLIPS)
    ]
    wrong: list[tuple[str, str, dict[str, Any]]] = [(key, "What is wrong here?", {}) for key, _ in bad]
    wrong += [
        ("batch/clip.mp4", "word " * 5000, {}),
        ("batch/clip.mp4", "What?", {"jsonSchema": {"type": "banana"}}),
        *(("batch/clip.mp4", "What?", {"fps": fps}) for fps in (0, -1, 1e9)),
    ]
    mixed = sorted(
        [*enumerate(requests), *((place * 2, one) for place, one in enumerate(wrong))], key=lambda one: one[0]
    )
    with ThreadPoolExecutor(8) as threads:
        arns = list(threads.map(lambda one: (one[1], ask(app, one[1][0], one[1][1], **one[1][2])), mixed))
    documents = {prompt: answer(app, arn) for (_, prompt, _), arn in arns if prompt.startswith("secret")}
    for (key, prompt, _), arn in arns:
        if not prompt.startswith("secret"):
            error = error_of(app.ended(arn, STARTS))
            assert error["code"] == "InvalidInput" and not error["retryable"], (key, error)
    assert len(documents) == CLIPS
    for prompt, document in documents.items():
        assert document["usage"]["completionTokens"] == 24
        assert "secret-" not in json.dumps(document).replace(prompt, ""), "of another's"
        assert document["jobLogs"].count("answer: ") == 1
    for number in ALONE:
        key, prompt, parameters = requests[number]
        assert answer(app, ask(app, key, prompt, **parameters))["result"] == documents[prompt]["result"]


def made(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write and yield each kind of broken file."""
    for number, (make, _) in enumerate(REFUSED.values()):
        own = folder / str(number)
        own.mkdir()
        path = make(own)
        if path.stat().st_size:  # S3's own size says that a file is empty, before a worker is asked
            yield f"bad-{number}", path


def test_an_engine_that_is_killed_in_mid_answer_answers_all_after_its_restart(app: App, clip: Path) -> None:
    app.upload("killed/clip.mp4", clip)
    arns = [ask(app, "killed/clip.mp4", f"Say much, {number}.", maxTokens=200) for number in range(4)]
    wait_for(lambda: len(list(app.cloud.home.rglob("*.seen.clip"))) >= 2, STARTS, "no two clips were handed over")
    before = engine_cores(app, NANO)
    assert before
    began = {row.worker for row in map(app.row, arns) if row.worker is not None}
    for process in before:
        os.kill(process, signal.SIGKILL)
    documents = [answer(app, arn) for arn in arns]
    assert [document["userPrompt"] for document in documents] == [f"Say much, {number}." for number in range(4)]
    assert {row.worker for row in map(app.row, arns)} == began, "the worker lives on"
    assert engine_cores(app, NANO) and not set(before) & set(engine_cores(app, NANO))


def test_stopping_a_worker_stops_its_engine(app: App) -> None:
    cores = engine_cores(app, TWO_B) + engine_cores(app, NANO)
    servers = [parent(core) for core in cores]
    assert len(cores) == 2
    for pipeline in (TWO_B, NANO):
        for worker in app.live_workers(pipeline):
            app.client("batch").terminate_job(jobId=worker, reason="enough")
    wait_for(lambda: not app.live_workers(TWO_B) + app.live_workers(NANO), 180, "they did not end")
    wait_for(lambda: not any(map(processes.alive, [*cores, *servers])), 180, "vLLM is still there")

"""A cloud is started, found and stopped, and leaves no process behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.local import cloud as cloud_module
from cosmos_batch.local import processes, runtime
from cosmos_batch.local.cloud import LocalCloud, LocalCloudError
from tests.local.support import wait_until

# Starts a cloud in argv[1] that ends with this process if argv[2] is "bound", prints its id, and waits.
STARTER = """
import os, sys, time
from pathlib import Path
from cosmos_batch.local.cloud import LocalCloud
cloud = LocalCloud.start(Path(sys.argv[1]), parent_pid=os.getpid() if sys.argv[2] == "bound" else None)
print(cloud.cloud_id, flush=True)
time.sleep(600)
"""


def processes_of(cloud_id: str) -> list[int]:
    return processes.marked(runtime.MARK, f"{cloud_id}:")


def start_job(cloud: LocalCloud, script: str) -> None:
    """Run ``script`` as a job, in a compute environment created by CloudFormation."""
    cloud.register_images({"image": {"entrypoint": ["python", "-c", script]}})
    compute = {"Type": "FARGATE", "MaxvCpus": 4, "Subnets": ["s"], "SecurityGroupIds": ["g"]}
    properties = {"ComputeEnvironmentName": "ce", "Type": "MANAGED", "ComputeResources": compute}
    template = {"Resources": {"E": {"Type": "AWS::Batch::ComputeEnvironment", "Properties": properties}}}
    cloud.client("cloudformation").create_stack(StackName="s", TemplateBody=json.dumps(template))
    batch = cloud.client("batch")
    order = [{"order": 1, "computeEnvironment": "ce"}]
    batch.create_job_queue(jobQueueName="q", priority=1, state="ENABLED", computeEnvironmentOrder=order)
    requirements = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}]
    container = {"image": "image", "resourceRequirements": requirements}
    batch.register_job_definition(jobDefinitionName="d", type="container", containerProperties=container)
    batch.submit_job(jobName="job", jobQueue="q", jobDefinition="d")


# A job that ignores SIGTERM and has a child in a session of its own.
STUBBORN = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True);"
    "time.sleep(600)"
)


def test_a_cloud_is_found_and_leaves_no_process(tmp_path: Path) -> None:
    cloud = LocalCloud.start(tmp_path, parent_pid=os.getpid())
    running = LocalCloud.find(tmp_path)
    assert running and (running.port, running.process_id) == (cloud.port, cloud.process_id)
    assert cloud.environment["AWS_ENDPOINT_URL"] == f"http://localhost:{cloud.port}"
    with pytest.raises(LocalCloudError, match=r"runs in .* already"):
        LocalCloud.start(tmp_path)
    start_job(cloud, STUBBORN)
    wait_until(lambda: len(processes_of(cloud.cloud_id)) == 2)
    cloud.stop()
    assert processes_of(cloud.cloud_id) == []
    assert not processes.alive(cloud.process_id)
    assert LocalCloud.find(tmp_path) is None


@pytest.mark.parametrize("victim", ["server", "starter"])
def test_a_killed_parent_or_server_ends_every_process(tmp_path: Path, victim: str) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path), "bound"]
    starter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert starter.stdout
    cloud_id = starter.stdout.readline().strip()
    cloud = LocalCloud.find(tmp_path)
    assert cloud
    start_job(cloud, STUBBORN)
    wait_until(lambda: len(processes_of(cloud_id)) == 2)
    os.kill(cloud.process_id if victim == "server" else starter.pid, signal.SIGKILL)
    wait_until(lambda: not processes_of(cloud_id) and not processes.alive(cloud.process_id))
    starter.kill()
    starter.wait()


def test_a_cloud_without_a_parent_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path), "free"]
    starter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert starter.stdout
    starter.stdout.readline()
    starter.kill()
    starter.wait()
    time.sleep(1)
    cloud = LocalCloud.find(tmp_path)
    assert cloud
    cloud.stop()


def test_a_port_in_use_is_an_error_that_quotes_the_log(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(LocalCloudError, match=r"(?s)did not start.*server.log.*in use"):
            LocalCloud.start(tmp_path, port=taken.getsockname()[1])


def test_a_cloud_that_is_merely_slow_is_not_reported_with_the_exit_code_of_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cosmos_batch.local.cloud.START_SECONDS", 0.0)
    with pytest.raises(LocalCloudError, match=r"did not answer within 0 s and was stopped") as raised:
        LocalCloud.start(tmp_path)
    assert "exit code" not in str(raised.value)


def test_an_interrupt_between_fork_and_answer_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cosmos_batch.local.cloud._spawn", interrupted_after(cloud_module._spawn))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            LocalCloud.start(tmp_path)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert not processes_that_mention(tmp_path)


def interrupted_after(spawn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that starts the server, and is interrupted before it can say which process that is."""

    def spawn_and_be_interrupted(*arguments: Any) -> Any:
        process = spawn(*arguments)
        signal.raise_signal(signal.SIGINT)
        return process

    return spawn_and_be_interrupted


def processes_that_mention(folder: Path) -> list[Path]:
    """Return the processes whose command line contains the folder."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode() in _content(path)]


def test_a_stale_state_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "cloud.json").write_text('{"id": "x", "pid": 1, "port": 9}')
    assert LocalCloud.find(tmp_path) is None


def test_an_interrupt_while_a_cloud_starts_leaves_no_process(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path), "standing"],
        stdout=subprocess.PIPE,
        # A shell that runs the tests in the background has them ignore this signal, and Python inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_until(lambda: (tmp_path / "logs" / "server.log").exists())
    starter.send_signal(signal.SIGINT)
    assert starter.wait() != 0
    # It was killed, and may take a moment to be gone.
    wait_until(lambda: not processes_that_mention(tmp_path))


def test_a_second_interrupt_leaves_no_process_of_a_cloud_that_is_being_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = LocalCloud.start(tmp_path, parent_pid=os.getpid())
    start_job(cloud, STUBBORN)
    wait_until(lambda: len(processes_of(cloud.cloud_id)) == 2)
    end = cloud_module._end

    def end_and_be_interrupted(process_id: int) -> None:
        signal.raise_signal(signal.SIGINT)
        end(process_id)

    monkeypatch.setattr(cloud_module, "_end", end_and_be_interrupted)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            cloud.stop()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert processes_of(cloud.cloud_id) == [] and not processes.alive(cloud.process_id)
    assert LocalCloud.find(tmp_path) is None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""

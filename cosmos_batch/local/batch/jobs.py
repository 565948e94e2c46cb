"""Batch jobs: they wait for capacity, run as containers, are tried again, and end with an event."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from moto.batch import models

from cosmos_batch.local import backends, recorded_calls, runtime
from cosmos_batch.local.batch.capacity import CAPACITY, Allotment
from cosmos_batch.local.containers import log_streams, mounts
from cosmos_batch.local.containers.container import Container
from cosmos_batch.local.containers.images import IMAGES, ImageNotFoundError
from cosmos_batch.local.eventbridge import delivery

EXITED = "Essential container in task exited"
TIMED_OUT = "Job attempt duration exceeded timeout"

# Variables of an image that describe its file system, which does not exist here.
DESCRIBES_THE_IMAGE = {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"}


class BatchJob(models.Job):
    """A job whose container is a process.

    Exit code 0 is SUCCEEDED and any other FAILED; a job that was terminated or ran out of time is FAILED whatever its
    exit code. ``retryStrategy.attempts`` is obeyed; ``evaluateOnExit`` and the time limits of the queue are not.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.stop = self.job_stopped = False
        self.job_stopped_reason: str | None = None
        self._container: Container | None = None
        self._allotment: Allotment | None = None
        self._lock = threading.Lock()
        super().__init__(*args, **kwargs)

    @property
    def status(self) -> str:
        """Return the state of the job. Only this class changes it; moto's polling is not used."""
        return self._status

    @status.setter
    def status(self, status: str) -> None:
        self._status = status

    def run(self) -> None:
        """Run the job from SUBMITTED to its end, in a thread of its own."""
        self._become("SUBMITTED")
        if self.depends_on and not self._wait_for_dependencies():
            return
        self._become("RUNNABLE")
        self._allotment = CAPACITY.acquire(self, float(self._get_container_property("vcpus", 1)), self._requested_gpus)
        if not self._allotment:
            self._end("FAILED", self.job_stopped_reason)
            return
        try:
            self._run_attempts()
        finally:
            CAPACITY.release(self._allotment)

    def _run_attempts(self) -> None:
        allowed = int((self.job_definition.retry_strategy or {}).get("attempts", 1))
        for number in range(1, allowed + 1):
            if number > 1:
                self._become("RUNNABLE")
            self._become("STARTING")
            reason, container_reason = self._attempt(number)
            self._finish_attempt(reason, container_reason)
            if self.stop or self.exit_code == 0:
                break
        succeeded = self.exit_code == 0 and not self.stop and reason != TIMED_OUT
        self._end("SUCCEEDED" if succeeded else "FAILED", self.job_stopped_reason or reason)

    def _attempt(self, number: int) -> tuple[str, str | None]:
        """Run the container once; return the status reason of the job and the reason of the container."""
        self.exit_code = None
        self.job_started_at = datetime.now()
        self.log_stream_name = self._stream_name
        self._start_attempt()
        try:
            self._start_container(number)
        except ImageNotFoundError as error:
            return f"CannotPullContainerError: {error}", f"CannotPullContainerError: {error}"
        except OSError as error:
            return f"CannotStartContainerError: {error}", f"CannotStartContainerError: {error}"
        self._become("RUNNING")
        assert self._container is not None
        self.exit_code = self._container.wait(self._get_attempt_duration())
        if self.exit_code is not None:
            return EXITED, None
        self._container.stop(runtime.current().stop_grace)
        self.exit_code = self._container.wait()
        return TIMED_OUT, None

    def _start_container(self, number: int) -> None:
        properties = self.job_definition.container_properties
        image = IMAGES.pull(properties["image"])
        directories = mounts.directories_of(properties)
        command = self._add_parameters_to_command(self._get_container_property("command", [])) or list(image.command)
        ignored = {*DESCRIBES_THE_IMAGE, *runtime.current().ignored_image_variables}
        environment = {
            **{name: value for name, value in image.environment.items() if name not in ignored},
            **{pair["name"]: pair["value"] for pair in self._environment_pairs()},
            **_secrets(properties),
            **recorded_calls.credentials_of(properties.get("jobRoleArn") or self._instance_role()),
            **self._allotted.environment,
            "AWS_BATCH_JOB_ID": self.job_id,
            "AWS_BATCH_JQ_NAME": self.job_queue.name,
            "AWS_BATCH_CE_NAME": self._allotted.compute_environment.name,
            "AWS_BATCH_JOB_ATTEMPT": str(number),
            "MOUNT_TABLE": str(self._write_mount_table(properties)),
        }
        argv = [mounts.rewrite(argument, directories) for argument in (*image.entrypoint, *command)]
        if not argv:
            raise OSError("the image has no ENTRYPOINT and no CMD, and the job has no command")
        with self._lock:
            # Under the lock, so that a job that is being terminated either starts no container or stops it.
            if self.stop:
                raise OSError("the job was terminated before it started")
            self._container = Container(
                f"batch-{self.job_id}-{number}",
                argv,
                {name: mounts.rewrite(value, directories) for name, value in environment.items()},
                image.workdir,
                self._log_writer(),
            )

    def _write_mount_table(self, properties: dict[str, Any]) -> Path:
        path = runtime.current().scratch / "mounts" / self.job_id
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(mounts.table_of(properties))
        return path

    def _environment_pairs(self) -> list[dict[str, str]]:
        """Return the variables of the job definition, then those of the job, which take precedence."""
        properties = self.job_definition.container_properties
        return [*properties.get("environment", []), *self.container_overrides.get("environment", [])]

    @property
    def _allotted(self) -> Allotment:
        assert self._allotment is not None, "the job has no capacity before it runs"
        return self._allotment

    @property
    def _requested_gpus(self) -> int:
        requirements = self.job_definition.container_properties.get("resourceRequirements", [])
        return sum(int(requirement["value"]) for requirement in requirements if requirement["type"] == "GPU")

    def _instance_role(self) -> str:
        return self._allotted.compute_environment.compute_resources.get("instanceRole", "batch-instance-role")

    def _log_writer(self) -> Callable[[str], None]:
        """Return the function that writes a line to the log stream and the log file of the job."""
        options = self.job_definition.container_properties.get("logConfiguration", {}).get("options", {})
        group = options.get("awslogs-group", self._log_group)
        self.log_stream_name = f"{options.get('awslogs-stream-prefix', self.job_definition.name)}/default/{self.job_id}"
        return log_streams.writer(group, self.log_stream_name, log_path(self.job_name, self.job_id))

    def _finish_attempt(self, reason: str, container_reason: str | None) -> None:
        assert self.latest_attempt is not None
        self.job_stopped_at = datetime.now()
        self._stop_attempt()
        self.latest_attempt["statusReason"] = self.job_stopped_reason or reason
        if self.exit_code is not None:
            self.latest_attempt["container"]["exitCode"] = self.exit_code
        if container_reason:
            self.latest_attempt["container"]["reason"] = container_reason

    def terminate(self, reason: str) -> None:
        """Send SIGTERM now and SIGKILL after the grace period; a job that waits for capacity ends at once."""
        with self._lock:
            if self.stop or self.job_stopped:
                return
            self.stop, self.job_stopped_reason = True, reason
            container = self._container
        CAPACITY.wake()
        if container:
            threading.Thread(target=container.stop, args=(runtime.current().stop_grace,), daemon=True).start()

    def kill(self) -> None:
        """Kill the processes of the job at once, because the cloud stops."""
        self.terminate("the local cloud was stopped")
        if self._container:
            self._container.kill()

    def _mark_stopped(self, success: bool = True) -> None:
        """End a job whose dependency failed. moto calls this."""
        self._end("SUCCEEDED" if success else "FAILED", self.job_stopped_reason or "Dependent Job failed")

    def _end(self, status: str, reason: str | None) -> None:
        self.job_stopped_reason, self.job_stopped_at = reason, datetime.now()
        self.job_stopped = True
        self._become(status)

    def _become(self, status: str) -> None:
        self.status = status
        event = delivery.new_event("aws.batch", "Batch Job State Change", self.describe(), [self.arn])
        delivery.publish(event)

    def describe_short(self) -> dict[str, Any]:
        """Return the job as ListJobs shows it."""
        described = super().describe_short()
        described["status"] = self._status
        if self.job_started_at.year == 1970:
            described.pop("startedAt", None)
        else:
            described["startedAt"] = models.datetime2int_milliseconds(self.job_started_at)
        return described

    def _container_details(self) -> dict[str, Any]:
        details = super()._container_details()
        properties = self.job_definition.container_properties
        details["image"] = properties["image"]
        details["environment"] = [*self._environment_pairs(), {"name": "AWS_BATCH_JOB_ID", "value": self.job_id}]
        details["jobRoleArn"] = properties.get("jobRoleArn", "")
        details["resourceRequirements"] = properties.get("resourceRequirements", [])
        last = self.latest_attempt["container"] if self.latest_attempt else {}
        return {**details, **{name: last[name] for name in ("exitCode", "reason") if name in last}}

    def _get_container_property(self, p: str, default: Any) -> Any:
        if p == "environment":
            return self._environment_pairs()
        if p == "vcpus":
            overrides = self.container_overrides.get("resourceRequirements", [])
            overridden = [requirement["value"] for requirement in overrides if requirement["type"] == "VCPU"]
            if overridden:
                return float(overridden[0])
        return super()._get_container_property(p, default)


def _secrets(properties: dict[str, Any]) -> dict[str, str]:
    store = backends.secrets()
    return {
        secret["name"]: store.get_secret_value(secret["valueFrom"], None, None)["SecretString"]
        for secret in properties.get("secrets", [])
    }


def log_path(job_name: str, job_id: str) -> Path:
    """Return the path of the file with the output of a job."""
    return runtime.current().logs / "batch" / f"{job_name}-{job_id}.log"


def kill_all() -> None:
    """Kill the processes of every job."""
    for job in list(backends.batch()._jobs.values()):
        if isinstance(job, BatchJob) and not job.job_stopped:
            job.kill()

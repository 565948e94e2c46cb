"""CodeBuild builds: the source is unpacked, the commands of the buildspec run, and the end is an event."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from cosmos_batch.local import backends, recorded_calls, runtime
from cosmos_batch.local.codebuild import inputs
from cosmos_batch.local.codebuild.buildspec import Buildspec, PhaseCommands
from cosmos_batch.local.codebuild.record import BuildRecord, PhaseError
from cosmos_batch.local.containers import log_streams
from cosmos_batch.local.containers.container import Container
from cosmos_batch.local.eventbridge import delivery
from cosmos_batch.local.programs import install

# Each command has a shell of its own that takes over directory and variables from the shell before, as in CodeBuild: an
# `exit` ends a command and not the build. Assignments are exported, so that the next shell takes them over too.
_COMMAND = """set -a
[ ! -f "$1/env" ] || . "$1/env"
export CODEBUILD_BUILD_SUCCEEDING="$3"
cd "$(cat "$1/directory")"
eval "$2"
status=$?
export -p > "$1/env"
pwd > "$1/directory"
exit $status
"""


class Build:
    """A build that runs in a thread of its own. The parameters are those of ``BuildRecord``."""

    def __init__(self, project: dict[str, Any], number: int, overrides: dict[str, Any]) -> None:
        self.record = BuildRecord(project, number, overrides)
        self._deadline = time.monotonic() + 60 * float(self.record.minutes)
        self._stopped = threading.Event()
        self._container: Container | None = None
        self._container_id = f"codebuild-{self.record.uuid}"
        self._root = runtime.current().scratch / "containers" / self._container_id
        self._environment: dict[str, str] = {}
        self._masked: set[str] = set()
        self._succeeding = True
        log_path = runtime.current().logs / "codebuild" / self.record.project_name / f"{self.record.uuid}.log"
        self._write = log_streams.writer(self.record.log_group, self.record.log_stream, log_path)

    def start(self) -> None:
        """Start the thread of the build."""
        for name in ("SUBMITTED", "QUEUED"):
            self.record.begin(name).end("SUCCEEDED")
        delivery.publish(self.record.event())
        threading.Thread(target=self._run, daemon=True, name=self.record.id).start()

    def stop(self) -> None:
        """Kill the command that runs. The build ends as STOPPED in its own thread."""
        self._stopped.set()
        if self._container:
            self._container.kill()

    def _run(self) -> None:
        succeeded = (
            self._in_phase("PROVISIONING", self._provision)
            and self._in_phase("DOWNLOAD_SOURCE", self._download)
            and self._run_phases(self._spec)
            and self._in_phase("UPLOAD_ARTIFACTS", lambda: None)
        )
        self._in_phase("FINALIZING", lambda: None)
        self.record.end("SUCCEEDED" if succeeded else self._failure())
        delivery.publish(self.record.event())

    def _run_phases(self, spec: Buildspec) -> bool:
        """Run the phases until one fails. POST_BUILD runs also after a failed BUILD."""
        for name, commands in spec.phases.items():
            done = self._in_phase(name.upper(), partial(self._run_commands, commands))
            self._succeeding = self._succeeding and done
            if self._over() or not (self._succeeding or name == "build"):
                break
        return self._succeeding

    def _in_phase(self, name: str, work: Callable[[], None]) -> bool:
        """Do the work of a phase; return whether it succeeded."""
        phase = self.record.begin(name)
        try:
            work()
        except PhaseError as error:
            self._log(f"Phase complete: {name} State: {self._failure()}")
            self._log(f"Phase context status code: {error.code} Message: {error}")
            phase.end(self._failure(), error)
            return False
        phase.end("SUCCEEDED")
        return True

    def _failure(self) -> str:
        """Return the status of a build that does not succeed."""
        if self._stopped.is_set():
            return "STOPPED"
        return "TIMED_OUT" if time.monotonic() > self._deadline else "FAILED"

    def _over(self) -> bool:
        return self._failure() != "FAILED"

    def _provision(self) -> None:
        record, directory = self.record, self._root / "src"
        directory.mkdir(parents=True)
        (self._root / "directory").write_text(str(directory))
        privileged = str(record.environment.get("privilegedMode", False)).lower() == "true"
        path = runtime.container_environment(self._container_id)["PATH"]
        self._environment = {
            **recorded_calls.credentials_of(record.role),
            **runtime.IN_REGION,
            "PATH": f"{install(self._root / 'bin', privileged)}:{path}",
            "CI": "true",
            "CODEBUILD_CI": "true",
            "CODEBUILD_BUILD_ID": record.id,
            "CODEBUILD_BUILD_ARN": record.arn,
            "CODEBUILD_BUILD_NUMBER": str(record.number),
            "CODEBUILD_BUILD_IMAGE": record.environment["image"],
            "CODEBUILD_INITIATOR": "local",
            "CODEBUILD_LOG_PATH": record.log_stream,
            "CODEBUILD_SRC_DIR": str(directory),
            "CODEBUILD_START_TIME": str(int(1000 * record.started)),
        }

    def _download(self) -> None:
        role_inputs = inputs.BuildInputs(self.record.role)
        role_inputs.unpack(self.record.source, self._root / "src")
        self._spec = inputs.read_buildspec(self.record.source, self._root / "src")
        variables = inputs.variables(self._spec, self.record.environment)
        for name, (kind, value) in variables.items():
            self._environment[name] = role_inputs.value_of(kind, value)
            if kind != "PLAINTEXT":
                self._masked.add(self._environment[name])

    def _run_commands(self, phase: PhaseCommands) -> None:
        try:
            for command in phase.commands:
                self._run_command(command)
        finally:
            for command in phase.finally_:
                self._run_command(command)

    def _run_command(self, command: str) -> None:
        if self._over():
            raise PhaseError("BUILD_ENDED", f"{command} was not started: the build was stopped or has timed out")
        self._log(f"Running command {command}")
        self._container = Container(
            self._container_id,
            ["bash", "-c", _COMMAND, "codebuild", str(self._root), command, str(int(self._succeeding))],
            self._environment,
            "/",
            self._log_output,
        )
        if self._stopped.is_set():  # The stop came between two commands, when no process could be killed.
            self._container.kill()
        code = self._container.wait(max(0.0, self._deadline - time.monotonic()))
        if code is None:
            self._container.kill()
            self._container.wait()
            raise PhaseError("BUILD_TIMED_OUT", f"Build has timed out while executing command: {command}")
        if code:
            reason = "build stopped" if self._stopped.is_set() else f"exit status {code}"
            raise PhaseError("COMMAND_EXECUTION_ERROR", f"Error while executing command: {command}. Reason: {reason}")

    def _log(self, line: str) -> None:
        self._log_output(f"[Container] {datetime.now(UTC):%Y/%m/%d %H:%M:%S} {line}")

    def _log_output(self, line: str) -> None:
        """Log a line with the values of secrets and parameters masked."""
        for secret in filter(None, self._masked):
            line = line.replace(secret, "***")
        self._write(line)


class Builds:
    """The builds of the cloud by id, in the order of their start."""

    def __init__(self) -> None:
        self._builds: dict[str, Build] = {}

    def start(self, project_name: str, overrides: dict[str, Any]) -> BuildRecord:
        """Start a build of an existing project; ``overrides`` are the members of StartBuild."""
        project = backends.builds().codebuild_projects[project_name].project_metadata
        build = Build(project, len(self.of_project(project_name)) + 1, overrides)
        self._builds[build.record.id] = build
        build.start()
        return build.record

    def get(self, build_id: str) -> Build | None:
        """Return the build with an id, or None. An ARN is no id."""
        return self._builds.get(build_id)

    def of_project(self, name: str) -> list[str]:
        """Return the ids of the builds of a project, newest first."""
        return [build.record.id for build in reversed(self._builds.values()) if build.record.project_name == name]

    def ids(self) -> list[str]:
        """Return the ids of all builds, newest first."""
        return list(reversed(self._builds))


BUILDS = Builds()

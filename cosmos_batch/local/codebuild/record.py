"""The record of a CodeBuild build, as BatchGetBuilds and the event of its status show it."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Any

from cosmos_batch.local.eventbridge import delivery
from cosmos_batch.local.runtime import ACCOUNT, REGION

DEFAULT_TIMEOUT_MINUTES = 60


class PhaseError(RuntimeError):
    """A phase failed. ``code`` is the status code of CodeBuild for the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class PhaseRecord:
    """The record of one phase of a build: when it began and, once it has ended, how."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._began = time.time()
        self._ended: float | None = None
        self._status = ""
        self._error: PhaseError | None = None

    def end(self, status: str, error: PhaseError | None = None) -> None:
        """Record the status and the error of the end."""
        self._ended, self._status, self._error = time.time(), status, error

    def describe(self) -> dict[str, Any]:
        """Return the phase as BatchGetBuilds shows it."""
        if self._ended is None:
            return {"phaseType": self.name, "startTime": self._began}
        return {
            "phaseType": self.name,
            "phaseStatus": self._status,
            "startTime": self._began,
            "endTime": self._ended,
            "durationInSeconds": round(self._ended - self._began),
            "contexts": [{"statusCode": self._error.code, "message": str(self._error)}] if self._error else [],
        }

    def event(self) -> dict[str, Any]:
        """Return the phase as an event shows it."""
        if self._ended is None:
            return {"start-time": _event_time(self._began), "phase-type": self.name}
        return {
            "phase-context": [f"{self._error.code}: {self._error}"] if self._error else [],
            "start-time": _event_time(self._began),
            "end-time": _event_time(self._ended),
            "duration-in-seconds": round(self._ended - self._began),
            "phase-type": self.name,
            "phase-status": self._status,
        }


class BuildRecord:
    """A build as the API shows it.

    Parameters
    ----------
    project
        The project as BatchGetProjects describes it.
    number
        Number of the build within its project, from 1.
    overrides
        The members of StartBuild.
    """

    def __init__(self, project: dict[str, Any], number: int, overrides: dict[str, Any]) -> None:
        self.uuid = str(uuid.uuid4())
        self.project, self.number = project, number
        self.project_name: str = project["name"]
        self.id = f"{self.project_name}:{self.uuid}"
        self.arn = f"arn:aws:codebuild:{REGION}:{ACCOUNT}:build/{self.id}"
        self.role: str = project["serviceRole"]
        self.environment = _environment(project, overrides)
        self.source = _source(project, overrides)
        self.minutes = (
            overrides.get("timeoutInMinutesOverride") or project["timeoutInMinutes"] or DEFAULT_TIMEOUT_MINUTES
        )
        self.started = time.time()
        self.status = "IN_PROGRESS"
        self.phases: list[PhaseRecord] = []
        self._ended: float | None = None
        cloudwatch = project.get("logsConfig", {}).get("cloudWatchLogs", {})
        self.log_group: str = cloudwatch.get("groupName", f"/aws/codebuild/{self.project_name}")
        self.log_stream = "/".join(filter(None, (cloudwatch.get("streamName"), self.uuid)))

    def begin(self, name: str) -> PhaseRecord:
        """Record that a phase began."""
        self.phases.append(PhaseRecord(name))
        return self.phases[-1]

    def end(self, status: str) -> None:
        """Record that the build ended."""
        self.begin("COMPLETED")
        self._ended, self.status = time.time(), status

    def describe(self) -> dict[str, Any]:
        """Return the build as BatchGetBuilds shows it."""
        described = {
            "id": self.id,
            "arn": self.arn,
            "buildNumber": self.number,
            "startTime": self.started,
            "currentPhase": self.phases[-1].name,
            "buildStatus": self.status,
            "buildComplete": self._ended is not None,
            "projectName": self.project_name,
            "phases": [phase.describe() for phase in list(self.phases)],
            "source": self.source,
            "artifacts": {"location": ""},
            "environment": self.environment,
            "serviceRole": self.role,
            "logs": {"groupName": self.log_group, "streamName": self.log_stream, "deepLink": self._deep_link},
            "timeoutInMinutes": int(self.minutes),
            "initiator": "local",
        }
        return described if self._ended is None else {**described, "endTime": self._ended}

    def event(self) -> delivery.Event:
        """Return the event of the status of the build."""
        information = {
            "artifact": {"location": ""},
            "environment": {
                "image": self.environment["image"],
                "privileged-mode": self.environment.get("privilegedMode", False),
                "compute-type": self.environment["computeType"],
                "type": self.environment["type"],
                "environment-variables": self.environment.get("environmentVariables", []),
            },
            "timeout-in-minutes": self.minutes,
            "build-complete": self._ended is not None,
            "initiator": "local",
            "build-start-time": _event_time(self.started),
            "source": {name: self.source[name] for name in ("location", "type") if name in self.source},
            "logs": {"group-name": self.log_group, "stream-name": self.log_stream, "deep-link": self._deep_link},
            "phases": [phase.event() for phase in self.phases],
        }
        detail = {
            "build-status": self.status,
            "project-name": self.project_name,
            "build-id": self.arn,
            "additional-information": information,
            "current-phase": self.phases[-1].name,
            "current-phase-context": "[]",
            "version": "1",
        }
        return delivery.new_event("aws.codebuild", "CodeBuild Build State Change", detail, [self.arn])

    @property
    def _deep_link(self) -> str:
        target = f"group={self.log_group};stream={self.log_stream}"
        return f"https://console.aws.amazon.com/cloudwatch/home?region={REGION}#logEvent:{target}"


def _source(project: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    overridden = {
        "type": overrides.get("sourceTypeOverride"),
        "location": overrides.get("sourceLocationOverride"),
        "buildspec": overrides.get("buildspecOverride"),
    }
    return {**project["source"], **{name: value for name, value in overridden.items() if value}}


def _environment(project: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Return the environment of the project with the variables of StartBuild, which take precedence."""
    pairs = [
        *project["environment"].get("environmentVariables", []),
        *(overrides.get("environmentVariablesOverride") or []),
    ]
    return {**project["environment"], "environmentVariables": list({pair["name"]: pair for pair in pairs}.values())}


def _event_time(moment: float) -> str:
    """Format epoch seconds as the events of CodeBuild do: ``Sep 1, 2017 4:12:29 PM``."""
    when = datetime.fromtimestamp(moment, UTC)
    return f"{when:%b} {when.day}, {when.year} {when.hour % 12 or 12}:{when:%M:%S %p}"

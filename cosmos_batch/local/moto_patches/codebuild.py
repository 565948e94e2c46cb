"""Patches of moto's CodeBuild: a build runs the commands of its buildspec."""

from __future__ import annotations

import json

from moto.codebuild.exceptions import ResourceNotFoundException
from moto.codebuild.responses import CodeBuildResponse
from moto.core.responses import ActionResult

from cosmos_batch.local import backends
from cosmos_batch.local.codebuild.build import BUILDS, Build
from cosmos_batch.local.moto_patches.registry import patch, replace
from cosmos_batch.local.runtime import ACCOUNT, REGION


@patch(
    "codebuild.builds-run",
    brings="A build runs the buildspec of its project with the overrides of StartBuild, and its end is an event.",
    moto="Keeps a record that has succeeded as soon as somebody reads it, and drops the overrides.",
    source="https://docs.aws.amazon.com/codebuild/latest/APIReference/API_StartBuild.html",
)
def _run_builds() -> None:
    replace(CodeBuildResponse, "start_build", _start_build)
    replace(CodeBuildResponse, "stop_build", _stop_build)
    replace(CodeBuildResponse, "batch_get_builds", _batch_get_builds)
    replace(CodeBuildResponse, "list_builds", lambda _: ActionResult({"ids": BUILDS.ids()}))
    replace(CodeBuildResponse, "list_builds_for_project", _list_builds_for_project)


def _start_build(self: CodeBuildResponse) -> ActionResult:
    members = json.loads(self.body)
    name = _project_name(members["projectName"])
    return ActionResult({"build": BUILDS.start(name, members).describe()})


def _stop_build(self: CodeBuildResponse) -> ActionResult:
    build = _build(self._get_param("id"))
    build.stop()
    return ActionResult({"build": build.record.describe()})


def _batch_get_builds(self: CodeBuildResponse) -> ActionResult:
    builds = {build_id: BUILDS.get(build_id) for build_id in self._get_param("ids")}
    return ActionResult(
        {
            "builds": [build.record.describe() for build in builds.values() if build],
            "buildsNotFound": [build_id for build_id, build in builds.items() if not build],
        }
    )


def _list_builds_for_project(self: CodeBuildResponse) -> ActionResult:
    return ActionResult({"ids": BUILDS.of_project(_project_name(self._get_param("projectName")))})


def _build(build_id: str) -> Build:
    build = BUILDS.get(build_id)
    if build is None:
        raise ResourceNotFoundException(f"Build {build_id} does not exist")
    return build


def _project_name(name_or_arn: str) -> str:
    name = name_or_arn.rpartition("project/")[2]
    if name not in backends.builds().codebuild_projects:
        arn = f"arn:aws:codebuild:{REGION}:{ACCOUNT}:project/{name}"
        raise ResourceNotFoundException(f"Project cannot be found: {arn}")
    return name

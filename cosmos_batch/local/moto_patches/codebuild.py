"""CodeBuild.

AWS: a build runs the buildspec of its project and tells EventBridge when it ends.

moto: a build is a record that has succeeded as soon as somebody looks; the overrides of StartBuild are dropped.

Mend: builds are ``codebuild.Build``; projects stay moto's.
"""

from __future__ import annotations

import json

from moto.codebuild.exceptions import ResourceNotFoundException
from moto.codebuild.responses import CodeBuildResponse
from moto.core.responses import ActionResult

from cosmos_batch.local import backends
from cosmos_batch.local.codebuild.build import BUILDS, Build
from cosmos_batch.local.runtime import ACCOUNT, REGION


def apply() -> None:
    """Install the mend."""
    CodeBuildResponse.start_build = _start_build
    CodeBuildResponse.stop_build = _stop_build
    CodeBuildResponse.batch_get_builds = _batch_get_builds
    CodeBuildResponse.list_builds = lambda _: ActionResult({"ids": BUILDS.ids()})
    CodeBuildResponse.list_builds_for_project = _list_builds_for_project


def _start_build(self: CodeBuildResponse) -> ActionResult:
    members = json.loads(self.body)
    name = _project_name(members["projectName"])
    return ActionResult({"build": BUILDS.start(name, members).describe()})


def _stop_build(self: CodeBuildResponse) -> ActionResult:
    build = _build(self._get_param("id"))
    build.stop()
    return ActionResult({"build": build.record.describe()})


def _batch_get_builds(self: CodeBuildResponse) -> ActionResult:
    found = {build_id: BUILDS.get(build_id) for build_id in self._get_param("ids")}
    return ActionResult(
        {
            "builds": [build.record.describe() for build in found.values() if build],
            "buildsNotFound": [build_id for build_id, build in found.items() if not build],
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

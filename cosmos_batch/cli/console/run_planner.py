"""Plans and starts runs that a person asks for on the console's page, with the code of `cosmos-batch runs start`."""

import hashlib
import json
import secrets
import shlex
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.catalogue.pipelines import pipeline_named
from cosmos_batch.cli.commands.runs.start import command
from cosmos_batch.cli.console.run_form import form_fields, run_form
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.doctor.checkup import check_up, finding_lines
from cosmos_batch.cli.doctor.findings import Verdict
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.options import flag
from cosmos_batch.cli.runs.executions import begin_run, check_is_new
from cosmos_batch.cli.runs.inputs import InputCounts
from cosmos_batch.cli.runs.local_inputs import LocalUploads
from cosmos_batch.cli.runs.plan_report import plan_lines
from cosmos_batch.cli.runs.run_plan import PlannedRun, plan_run
from cosmos_batch.cli.runs.run_request import read_run_spec
from cosmos_batch.cli.runs.s3_inputs import first_page
from cosmos_batch.console.dropped_files import DroppedFolder
from cosmos_batch.console.new_run_records import NewRun, NewRunForm, PlanShown, Prefix
from cosmos_batch.console.run_records import Started
from cosmos_batch.contract.parameters import NAMES, Parameters
from cosmos_batch.contract.s3 import S3Location, allowed

_SETTABLE = {"task", *(field.name for field in form_fields(Parameters))}
_OF_COMMAND = ("yes", "follow", "as_json", "quiet", "verbose")  # options of `runs start` that say nothing of the run


@dataclass(frozen=True)
class _Plan:
    """A run that can be started, the folder of its dropped files, and the uploads of files that parameters name."""

    planned: PlannedRun
    dropped: DroppedFolder | None
    files: LocalUploads

    def close(self) -> None:
        self.planned.close()
        self.files.close()


class RunPlanner:
    """Plans runs and starts them. It keeps the last plan, until that is started or another one is made."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._lock = Lock()
        self._plans: dict[str, _Plan] = {}

    def form(self) -> NewRunForm:
        """Return the choices for a new run of this deployment."""
        return run_form(self._deployment)

    def prefix(self, uri: str) -> Prefix:
        """Return the prefixes and the number of files in a prefix.

        Raises WrongCall for a prefix outside of the deployment's buckets, and CliError where S3 refuses.
        """
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        folder = S3Location(bucket, key)
        if not uri.startswith("s3://") or not allowed(folder, self._deployment.asset_roots):
            raise WrongCall(f"{uri} is no prefix of this deployment.", "Choose one of those that the page shows.")
        page = first_page(self._deployment.clients("s3"), folder)
        return Prefix(
            uri=uri,
            prefixes=[S3Location(bucket, one["Prefix"]).uri for one in page.get("CommonPrefixes", [])],
            files=sum(extension(one["Key"]) in EXTENSIONS for one in page.get("Contents", [])),
            has_more=page["IsTruncated"],
        )

    def plan(
        self, new_run: NewRun, dropped: DroppedFolder | None, parameter_files: Mapping[str, DroppedFolder]
    ) -> PlanShown:
        """Plan a run over S3 URIs and dropped files. Raises WrongCall, or Failure."""
        with ExitStack() as opened:
            plan, shown = self._make_plan(new_run, dropped, parameter_files, opened)
            with self._lock:
                for earlier in self._plans.values():
                    earlier.close()
                self._plans = {shown.id: plan}
            opened.pop_all()
        return shown

    def _make_plan(
        self,
        new_run: NewRun,
        dropped: DroppedFolder | None,
        parameter_files: Mapping[str, DroppedFolder],
        opened: ExitStack,
    ) -> tuple[_Plan, PlanShown]:
        """Return a plan, and what the page shows of it. What it keeps on this machine's disk is noted in `opened`."""
        digests = {path: digest for folder in parameter_files.values() for path, digest in folder.digests.items()}
        files = LocalUploads(self._deployment.clients("s3"), self._deployment.asset_roots, digests)
        opened.callback(files.close)
        named = {name: folder.only_file() for name, folder in parameter_files.items()}
        places = {name: _place(files, path) for name, path in named.items()}
        arguments = _arguments(new_run.model_copy(update={"parameters": _with_files(new_run.parameters, places)}))
        sources = [*_checked_sources(new_run.sources), *([str(dropped.path)] if dropped else [])]
        options = dict(command.make_context("start", [*arguments, "--", *sources]).params)
        for name in _OF_COMMAND:
            options.pop(name, None)
        spec = read_run_spec(self._deployment, options.pop("sources"), options, _origin(new_run.sources, dropped))
        planned = plan_run(self._deployment, spec, places.values(), dropped.digests if dropped else None)
        opened.callback(planned.close)
        planned.refuse_over_budget()
        findings = check_up(self._deployment, planned.request.pipelines)
        shown = PlanShown(
            id=secrets.token_hex(8),
            lines=list(plan_lines(planned.request.id, planned.estimate)),
            dollars=planned.estimate.dollars,
            items=planned.estimate.items,
            command=_typed(arguments, new_run.sources, dropped, {named[name]: places[name] for name in places}),
            findings=[line for one in findings if one.verdict != Verdict.OK for line in finding_lines(one)],
        )
        return _Plan(planned, dropped, files), shown

    def start(self, plan: str) -> Started:
        """Start a run as it was planned. Raises WrongCall where the plan is gone."""
        with self._lock:
            kept = self._plans.pop(plan, None)
        if kept is None:
            raise WrongCall("This plan is gone: it was started, or another one was made.", "Make the plan again.")
        run = kept.planned.request.id
        try:
            check_is_new(self._deployment, run)
            kept.files.upload()
            kept.planned.write()
        finally:
            kept.close()
        begin_run(self._deployment, run)
        if kept.dropped is not None:
            shutil.rmtree(kept.dropped.path, ignore_errors=True)
        return Started(run=run, items=kept.planned.estimate.items)


def _checked_sources(sources: list[str]) -> list[str]:
    """Return S3 URIs as they are. Raises WrongCall for others: the page names no files of this machine."""
    for source in sources:
        if not source.startswith("s3://"):
            raise WrongCall(f"{source} is no S3 URI.", "Name a prefix or file as s3://..., or drop files.")
    return sources


def _place(files: LocalUploads, path: Path) -> str:
    """Return the URI that a file will have once it is uploaded."""
    [listed] = files.files([path], InputCounts())
    return str(listed.item.input)


def _with_files(parameters: dict[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    """Return parameters with the URIs of files at paths such as `controls.edge.path`."""
    named = deepcopy(parameters)
    for path, uri in places.items():
        *above, name = path.split(".")
        target = named
        for one in above:
            target = target.setdefault(one, {})
        target[name] = uri
    return named


def _arguments(new_run: NewRun) -> list[str]:
    """Return the arguments of `runs start` that ask for the same. Raises WrongCall for an unknown parameter."""
    arguments = [] if new_run.pipeline is None else [f"--pipeline={new_run.pipeline}"]
    if new_run.prompt:
        # The command line reads a prompt that begins with @ from a file; the page names no files of this machine.
        arguments.append(f"--prompt={' ' * new_run.prompt.startswith('@')}{new_run.prompt}")
    if new_run.max_dollars is not None:
        arguments.append(f"--max-dollars={new_run.max_dollars:.15g}")  # no digit that was typed is lost
    if new_run.skip_invalid:
        arguments.append("--skip-invalid")
    if new_run.seeds:
        arguments.append(f"--seeds={new_run.seeds}")
    pipeline = pipeline_named(new_run.pipeline) if new_run.pipeline else None
    if pipeline is not None and pipeline.surface == "generator":
        return [*arguments, f"--parameters={json.dumps(new_run.parameters)}"] if new_run.parameters else arguments
    return [*arguments, *(_argument(name, value) for name, value in new_run.parameters.items())]


def _argument(name: str, value: object) -> str:
    if name not in _SETTABLE:
        raise WrongCall(f"{name} cannot be set here.", "Type the command, which takes all parameters.")
    option = flag(NAMES[name])
    if isinstance(value, bool):
        return option if value else f"--no-{option.removeprefix('--')}"
    return f"{option}={value}"


def _origin(sources: list[str], dropped: DroppedFolder | None) -> str:
    """Return the names of a run's inputs for people, with a digest of what was dropped.

    By it, the plan knows which earlier run has asked about the same inputs; another file may have the same name.
    """
    if dropped is None:
        return " ".join(sources)
    contents = sorted((path.name, digest) for path, digest in dropped.digests.items())
    digest = hashlib.sha256(json.dumps(contents).encode()).hexdigest()
    return f"{' '.join([*sources, *_names(dropped)])} (contents {digest[:12]})"


def _typed(arguments: list[str], sources: list[str], dropped: DroppedFolder | None, copied: Mapping[Path, str]) -> str:
    """Return the commands as a person would type them, with the names of dropped files alone."""
    start = ["cosmos-batch", "runs", "start", *arguments, *sources, *map(_as_file, _names(dropped))]
    copies = [["aws", "s3", "cp", _as_file(path.name), uri] for path, uri in copied.items()]
    return " && ".join(map(shlex.join, [*copies, start]))


def _names(dropped: DroppedFolder | None) -> list[str]:
    return sorted(path.name for path in dropped.digests) if dropped else []


def _as_file(name: str) -> str:
    """Return a file's name as a command line takes it: one that begins with a hyphen is no option."""
    return f"./{name}" if name.startswith("-") else name

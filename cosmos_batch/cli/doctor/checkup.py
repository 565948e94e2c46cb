"""Run all checks of a deployment, or of the pipelines that a run needs."""

from collections.abc import Sequence
from functools import partial

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.doctor.buckets import check_bucket
from cosmos_batch.cli.doctor.findings import Check, Finding, Verdict, run_checks
from cosmos_batch.cli.doctor.models import check_model
from cosmos_batch.cli.doctor.quotas import check_quotas
from cosmos_batch.cli.doctor.workers import check_capacity, check_memory, check_offerings
from cosmos_batch.cli.messages import inform, warn
from cosmos_batch.contract.s3 import UPLOAD_FOLDER

_MARKS = {Verdict.OK: "ok", Verdict.WARNING: "warning", Verdict.PROBLEM: "PROBLEM", Verdict.UNKNOWN: "unknown"}


def check_up(deployment: Deployment, names: Sequence[str]) -> list[Finding]:
    """Run all checks of these pipelines and of the buckets at once, within ten seconds, and return what they found."""
    pipelines = deployment.deployed_pipelines(names)
    missing = [name for name in names if name not in pipelines]
    checks: dict[str, Check] = {}
    for name, pipeline in pipelines.items():
        checks[f"model of {name}"] = partial(check_model, deployment, pipeline)
        checks[f"memory of {name}"] = partial(check_memory, pipeline)
        checks[f"instances of {name}"] = partial(check_offerings, deployment, pipeline)
        checks[f"capacity of {name}"] = partial(check_capacity, deployment, pipeline)
    checks["quota"] = partial(check_quotas, deployment, list(pipelines.values()))
    for root in deployment.asset_roots:
        checks[f"bucket {root}"] = partial(check_bucket, deployment, root, f"{UPLOAD_FOLDER}/", needs_writing=False)
    checks[f"bucket {deployment.state_bucket}"] = partial(
        check_bucket, deployment, f"{deployment.state_bucket}/runs/", "", needs_writing=True
    )
    return [*map(_unknown, missing), *run_checks(checks)]


def warn_of_findings(deployment: Deployment, names: Sequence[str]) -> None:
    """Run all checks, and print what is not in order; with --quiet, only what would stop the run."""
    for finding in check_up(deployment, names):
        if finding.verdict != Verdict.OK:
            tell = warn if finding.verdict == Verdict.PROBLEM else inform
            tell("\n".join(finding_lines(finding)))


def finding_lines(finding: Finding) -> list[str]:
    """Return a finding as lines for a person."""
    lines = [f"{_MARKS[finding.verdict]:<8} {finding.check}: {finding.message}"]
    return [*lines, *(f"         {line}" for line in finding.remedy.splitlines() if line)]


def _unknown(name: str) -> Finding:
    return Finding(
        check=f"pipeline {name}",
        verdict=Verdict.UNKNOWN,
        message="The deployment does not say what its workers are.",
        remedy="Ask for ssm:GetParameter on its parameters; or, if it is older than this command line, deploy again.",
    )

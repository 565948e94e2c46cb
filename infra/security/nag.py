"""Run cdk-nag (AwsSolutions and NIST 800-53 R5) on the app of a configuration.

The tests run it, and `cdk deploy` does not: a new finding is for this project to accept or to correct, and a person who
deploys could do nothing about it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cosmos_batch.contract.config import Config
from infra.synth import build


class NagFinding(NamedTuple):
    """A construct that breaks a rule."""

    rule: str
    construct: str  # its path, without the prefix of our stacks
    text: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.construct}: {self.text}"


def findings(config: Config, outdir: Path) -> set[NagFinding]:
    """Return all findings, those that are accepted included."""
    app = build(config, outdir)
    from aws_cdk import Validations
    from cdk_nag import AwsSolutionsChecks, NIST80053R5Checks

    Validations.of(app).add_plugins(AwsSolutionsChecks(app), NIST80053R5Checks(app))
    report = outdir / "validation-report.json"
    try:
        app.synth()
    except RuntimeError:
        if not report.exists():  # the error has another reason than findings
            raise
    return set(_read(report))


def _read(report: Path) -> Iterator[NagFinding]:
    for plugin in json.loads(report.read_text(encoding="utf-8"))["pluginReports"]:
        for violation in plugin["violations"]:
            for construct in violation["violatingConstructs"]:
                path = construct["constructPath"].removeprefix("CosmosBatch-")
                yield NagFinding(violation["ruleName"], path, violation["description"].partition(" - (Control")[0])

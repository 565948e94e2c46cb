"""cdk-nag over the app of a configuration: AwsSolutions and NIST 800-53 R5.

It runs in the tests, not in `cdk deploy`: an answer to a finding is this project's to write, and somebody who deploys
could do nothing about a missing one.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cosmos_batch.contract.config import Config
from infra.synth import build


class Finding(NamedTuple):
    """What a rule says about a construct."""

    rule: str
    construct: str  # its path, without the prefix of our stacks
    text: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.construct}: {self.text}"


def findings(config: Config, outdir: Path) -> set[Finding]:
    """All of them, as if nothing were acknowledged."""
    app = build(config, outdir)
    from aws_cdk import Validations
    from cdk_nag import AwsSolutionsChecks, NIST80053R5Checks

    Validations.of(app).add_plugins(AwsSolutionsChecks(app), NIST80053R5Checks(app))
    report = outdir / "validation-report.json"
    try:
        app.synth()
    except RuntimeError:
        if not report.exists():  # then it is not about findings
            raise
    return set(_read(report))


def _read(report: Path) -> Iterator[Finding]:
    for plugin in json.loads(report.read_text(encoding="utf-8"))["pluginReports"]:
        for violation in plugin["violations"]:
            for construct in violation["violatingConstructs"]:
                path = construct["constructPath"].removeprefix("CosmosBatch-")
                yield Finding(violation["ruleName"], path, violation["description"].partition(" - (Control")[0])

"""What cdk-nag and cfn-lint say of every example, and what neither looks at."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from cosmos_batch.contract import Config
from infra.security.acknowledged import ACKNOWLEDGED, Acknowledgement, unanswered
from infra.security.nag import Finding, findings
from tests.infra.examples import FOLDER, NAMES


@cache
def found(name: str) -> frozenset[Finding]:
    """By cdk-nag, in `examples/<name>.json`."""
    outdir = Path(mkdtemp(prefix=f"cosmos-batch-nag-{name}-")) / "cdk.out"
    return frozenset(findings(Config.load(FOLDER / f"{name}.json"), outdir))


@pytest.mark.parametrize("name", NAMES)
def test_every_finding_of_cdk_nag_has_an_answer(name: str) -> None:
    assert found(name)  # it ran
    assert not unanswered(found(name)), "\n".join(map(str, unanswered(found(name))))


def test_every_answer_has_a_finding() -> None:
    everything = frozenset[Finding]().union(*(found(name) for name in NAMES))
    assert not [one for one in ACKNOWLEDGED if not any(one.answers(finding) for finding in everything)]


def test_an_answer_is_for_its_rule_and_construct_alone() -> None:
    answer = Acknowledgement("Pack-R1[Resource::*/*]", "Stack/*/Role", "because")
    assert answer.answers(Finding("Pack-R1[Resource::bucket/*]", "Stack/A/Role", ""))
    assert not answer.answers(Finding("Pack-R1[Resource::*]", "Stack/A/Role", ""))
    assert not answer.answers(Finding("Pack-R1[Resource::bucket/*]", "Other/A/Role", ""))

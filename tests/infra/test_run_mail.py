"""An e-mail tells of each run that ends, if somebody is configured to get it."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

from cosmos_batch.contract.runs import EVENT_SOURCE, RUN_ENDED, RunSummary
from cosmos_batch.local.eventbridge.delivery import new_event, transform
from cosmos_batch.planning.configuration import parse_config
from infra.synth import synthesize
from tests.infra.assembly import Assembly

CONFIG = (
    '{"app": {"pipelines": {"useNvidiaCosmos": {"enabled": true, "modelsReason": {"reason2B": {"enabled": true}}}},'
    ' "cosmosBatch": {"operations": {"runsEmail": "robots@example.com"}}}}'
)
AT = datetime(2026, 11, 20, tzinfo=UTC)
SUMMARY = RunSummary(
    id="monday", state="HELD", items=10, succeeded=7, failed=1, cancelled=0, reused=0, dollars=1.25, started_at=AT,
    ended_at=AT,
)  # fmt: skip


def test_nobody_gets_a_mail_unless_configured(assembly: Assembly) -> None:
    assert not [name for name in assembly.resources("Monitoring", "SNS::Topic") if name.startswith("RunMail")]
    assert not assembly.resources("Monitoring", "Events::Rule")


def test_the_mail_has_the_numbers_of_the_run(tmp_path: Path) -> None:
    assembly = Assembly(synthesize(parse_config(CONFIG), tmp_path / "cdk.out"))
    assert assembly.one("Monitoring", "SNS::Subscription")["Endpoint"] == "robots@example.com"
    rule = assembly.one("Monitoring", "Events::Rule")
    assert rule["EventPattern"] == {"source": [EVENT_SOURCE], "detail-type": [RUN_ENDED]}
    event = new_event(EVENT_SOURCE, RUN_ENDED, SUMMARY.model_dump(mode="json", exclude_none=True), [])
    [target] = rule["Targets"]
    assert transform(target["InputTransformer"], SimpleNamespace(arn="arn", name="rule"), event) == (
        "Run monday is HELD: of 10 items 7 have an answer and 1 an error; its GPUs cost $1.25. "
        "To look at it: cosmos-batch runs show monday"
    )

"""The dashboard and the alarms use metrics that exist, and each alarm says what to do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract import metrics
from cosmos_batch.planning.configuration import parse_config
from infra.synth import synthesize
from tests.infra.assembly import REASONERS, Assembly, Resource
from tests.infra.examples import example

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
OURS = {value for name, value in vars(metrics).items() if name.isupper() and isinstance(value, str)}
METRICS_OF_AWS = {
    "AWS/SQS": {"ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"},
    "AWS/Lambda": {"Errors", "Throttles"},
    "AWS/States": {"ExecutionsStarted", "ExecutionsSucceeded", "ExecutionsFailed", "ExecutionThrottled"},
}


def alarms(assembly: Assembly) -> dict[str, Resource]:
    return {name: alarm["Properties"] for name, alarm in assembly.resources("Monitoring", "CloudWatch::Alarm").items()}


def metrics_of_alarms(assembly: Assembly) -> Iterator[tuple[str, str]]:
    for alarm in alarms(assembly).values():
        for one in alarm.get("Metrics", [alarm]):
            stat = one.get("MetricStat", {}).get("Metric", one)
            if "MetricName" in stat:
                yield stat["Namespace"], stat["MetricName"]


def widgets(assembly: Assembly) -> list[dict[str, Any]]:
    body = assembly.one("Monitoring", "CloudWatch::Dashboard")["DashboardBody"]
    text = "".join(part if isinstance(part, str) else "x" for part in body["Fn::Join"][1])
    definitions: list[dict[str, Any]] = json.loads(text)["widgets"]
    return definitions


def metrics_of_widgets(assembly: Assembly) -> Iterator[tuple[str, str]]:
    for widget in widgets(assembly):
        for row in widget["properties"]["metrics"]:
            if isinstance(row[0], str):
                yield row[0], row[1]


@pytest.mark.parametrize("of", [metrics_of_alarms, metrics_of_widgets])
def test_every_metric_is_emitted(assembly: Assembly, of: Any) -> None:
    used = set(of(assembly))
    assert used
    for namespace, name in used:
        assert name in (OURS if namespace == metrics.NAMESPACE else METRICS_OF_AWS[namespace]), (namespace, name)


def test_every_metric_of_ours_is_shown_or_watched(assembly: Assembly) -> None:
    seen = {name for namespace, name in [*metrics_of_alarms(assembly), *metrics_of_widgets(assembly)]}
    dimensions = {metrics.NAMESPACE, metrics.PIPELINE, metrics.CODE, metrics.PHASE, metrics.UNKNOWN}
    assert OURS - dimensions <= seen


def test_each_pipeline_has_its_alarms_and_the_app_the_others(assembly: Assembly) -> None:
    names = " ".join(alarms(assembly))
    for pipeline in REASONERS:
        for kind in ("oldestjob", "breaker", "stuckworkers", "failures", "deadletters", "foreigntokens", "noheartbeat"):
            assert f"{pipeline.id.replace('-', '')}{kind}" in names
    for name in (
        "unplanned",
        "unreadabledeadletters",
        "reportundelivered",
        "scaleundelivered",
        "uploadundelivered",
        "Reportfunction",
    ):
        assert name in names


def test_an_alarm_says_what_to_do_and_tells_the_topic_when_it_begins_and_ends(assembly: Assembly) -> None:
    for alarm in alarms(assembly).values():
        assert alarm["AlarmDescription"].count(". ") >= 1
        assert "AlarmsTopic" in json.dumps(alarm["AlarmActions"]) and alarm["AlarmActions"] == alarm["OKActions"]


def test_only_a_missing_heartbeat_is_an_alarm(assembly: Assembly) -> None:
    treated = {name: alarm["TreatMissingData"] for name, alarm in alarms(assembly).items()}
    assert {name for name, how in treated.items() if how == "breaching"} == {
        name for name in treated if "noheartbeat" in name
    }
    assert set(treated.values()) == {"breaching", "notBreaching"}


def test_the_page_tells_what_to_do_about_each_alarm(assembly: Assembly) -> None:
    section = PAGE.partition("## Alarms")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([<>\w-]+)` \|", section, re.MULTILINE)
    endings = [re.sub(r"<\w+>|-", "", row) for row in rows]
    for name in alarms(assembly):
        assert any(ending in name for ending in endings), name
    assert len(endings) == 11


def test_the_alarm_for_the_oldest_job_is_raised_at_half_its_deadline(assembly: Assembly) -> None:
    oldest = [alarm for name, alarm in alarms(assembly).items() if "oldestjob" in name]
    assert {alarm["Threshold"] for alarm in oldest} == {72 * 3600 / 2}


def test_the_alarm_for_jobs_of_vams_uses_its_shorter_deadline() -> None:
    thresholds = {name: alarm["Threshold"] for name, alarm in alarms(example("vams")).items() if "oldestjob" in name}
    by_vams = {name: seconds for name, seconds in thresholds.items() if "2b" in name}
    assert set(by_vams.values()) == {(28_800 - 900) / 2}
    assert {thresholds[name] for name in thresholds.keys() - by_vams.keys()} == {72 * 3600 / 2}


def test_each_metric_has_the_dimensions_by_which_it_is_emitted(assembly: Assembly) -> None:
    known = {pipeline.id for pipeline in REASONERS} | {metrics.UNKNOWN}
    by = {name: [{metrics.PIPELINE, metrics.PHASE}] for name in (metrics.PHASE_SECONDS, metrics.START_SECONDS)}
    for widget in widgets(assembly):
        for row in widget["properties"]["metrics"]:
            if row[0] == metrics.NAMESPACE:
                texts = [part for part in row[2:] if isinstance(part, str)]
                names, values = texts[::2], dict(zip(texts[::2], texts[1::2], strict=True))
                either = [{metrics.PIPELINE}, {metrics.PIPELINE, metrics.CODE}] if row[1] == metrics.FAILED else None
                assert set(names) in (either or by.get(row[1], [{metrics.PIPELINE}])), row
                assert values[metrics.PIPELINE] in known


def test_no_subscription_and_no_budget_unless_configured(assembly: Assembly) -> None:
    assert not assembly.resources("Monitoring", "SNS::Subscription")
    assert not assembly.resources("Monitoring", "Budgets::Budget")


def test_a_budget_warns_of_what_is_tagged_as_ours(tmp_path: Path) -> None:
    own = '{"operations": {"alarmEmail": "ops@example.com", "monthlyBudgetDollars": 500, "logRetentionDays": 30, ' + (
        '"tracing": false, "tags": {"team": "robots"}}}'
    )
    cosmos = '{"enabled": true, "modelsReason": {"reason2B": {"enabled": true}}}'
    config = parse_config(f'{{"app": {{"pipelines": {{"useNvidiaCosmos": {cosmos}}}, "cosmosBatch": {own}}}}}')
    assembly = Assembly(synthesize(config, tmp_path / "cdk.out"))
    budget = assembly.one("Monitoring", "Budgets::Budget")["Budget"]
    assert budget["BudgetLimit"] == {"Amount": 500, "Unit": "USD"}
    assert budget["CostFilters"] == {"TagKeyValue": ["user:cosmos-batch:app$cosmos-batch"]}
    assert assembly.one("Monitoring", "SNS::Subscription")["Endpoint"] == "ops@example.com"
    groups = [
        log_group for stack in ("Images", "Pipelines") for log_group in assembly.properties(stack, "Logs::LogGroup")
    ]
    assert {group["RetentionInDays"] for group in groups} == {30}
    tags = assembly.one("Storage", "DynamoDB::Table")["Tags"]
    assert {"Key": "team", "Value": "robots"} in tags and {"Key": "cosmos-batch:app", "Value": "cosmos-batch"} in tags
    traced = [
        function.get("TracingConfig", {}).get("Mode")
        for function in assembly.properties("Pipelines", "Lambda::Function")
    ]
    assert "Active" not in traced
    assert not assembly.one("Pipelines", "StepFunctions::StateMachine").get("TracingConfiguration", {}).get("Enabled")


def test_functions_and_executions_are_traced(assembly: Assembly) -> None:
    functions = assembly.properties("Pipelines", "Lambda::Function")
    assert {function["TracingConfig"]["Mode"] for function in functions} == {"Active"}
    assert assembly.one("Pipelines", "StepFunctions::StateMachine")["TracingConfiguration"] == {"Enabled": True}


def test_every_pipeline_that_is_enabled_is_shown() -> None:
    titles = " ".join(widget["properties"]["title"] for widget in widgets(example("everything")))
    assert "cosmos3-super-image2video: failures by code" in titles


def test_a_pipeline_that_is_watched_can_be_disabled(assembly: Assembly) -> None:
    """Pipelines is updated first, and CloudFormation refuses to delete an export that Monitoring still imports."""
    template = json.dumps(assembly.templates["Monitoring"])
    assert "Fn::GetStackOutput" in template and "Fn::ImportValue" not in template


def test_tags_of_the_user_replace_no_compute_environment(tmp_path: Path) -> None:
    """CloudFormation replaces a compute environment whose tags change, so the launch template tags instances."""
    config = parse_config(
        '{"app": {"pipelines": {"useNvidiaCosmos": {"enabled": true, "modelsReason": {"reason2B": {"enabled": true}}}},'
        ' "cosmosBatch": {"operations": {"tags": {"team": "robots"}}}}}'
    )
    assembly = Assembly(synthesize(config, tmp_path / "cdk.out"))
    environments = assembly.properties("Pipelines", "Batch::ComputeEnvironment")
    assert environments and all("Tags" not in environment for environment in environments)
    assert all(
        environment["ComputeResources"]["Tags"].keys() == {"cosmos-batch:pipeline"} for environment in environments
    )
    specifications = assembly.one("Pipelines", "EC2::LaunchTemplate")["LaunchTemplateData"]["TagSpecifications"]
    assert {specification["ResourceType"] for specification in specifications} == {"instance", "volume"}
    for one in specifications:
        assert {"Key": "team", "Value": "robots"} in one["Tags"]
        assert {"Key": "cosmos-batch:app", "Value": "cosmos-batch"} in one["Tags"]

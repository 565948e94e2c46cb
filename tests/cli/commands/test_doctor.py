"""`cosmos-batch doctor` names what would stop a run, with a remedy for each, within ten seconds."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.doctor.findings import Finding, Verdict, run_checks
from cosmos_batch.cli.main import main
from cosmos_batch.contract.environment import DeployedCompute, DeployedPipeline, DeployedQueue
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.identity import Identity
from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.state import PipelineRow
from tests.cli.conftest import PIPELINE
from tests.support.model_hub import Hub

MODEL, TOKEN = "nvidia/Cosmos-Reason2-2B", "hf_secretSecret"
Doctor = Callable[[], dict[str, dict[str, str]]]


class Quotas:
    """A fake of Service Quotas, which moto lacks for EC2: a value for On-Demand and one for Spot, or an error."""

    def __init__(self) -> None:
        self.value: float | None = 768.0
        self.spot = 768.0

    def get_service_quota(self, ServiceCode: str, QuotaCode: str) -> dict[str, Any]:  # noqa: N803 - boto3's names
        assert ServiceCode == "ec2"
        if QuotaCode in ("L-3819A6DF", "L-C4BD4855"):
            return {"Quota": {"Value": self.spot}}
        assert QuotaCode in ("L-DB2E81BA", "L-417A185B")
        if self.value is None:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetServiceQuota")
        return {"Quota": {"Value": self.value}}


@pytest.fixture
def quotas() -> Quotas:
    return Quotas()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """Provide a hub with the pipeline's model."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with Hub() as hub:
        hub.direct_this_process(monkeypatch, tmp_path)
        hub.add(MODEL, tmp_path / "model")
        yield hub


def deployed(instance_types: list[str], model: str = MODEL, use_spot: bool = False) -> DeployedPipeline:
    identity = Identity(model=model, engine="vllm", configuration="c")
    return DeployedPipeline(
        queue=DeployedQueue(id=PIPELINE, queue_url="q", identity=identity),
        compute=DeployedCompute(
            id=PIPELINE, queue_url="q", job_queue="j", job_definition="d", max_workers=16, vcpus=12,
            max_life_hours=24, instance_types=instance_types, use_spot=use_spot,
        ),
    )  # fmt: skip


@pytest.fixture
def put(deployment: Deployment) -> Callable[..., None]:
    """Provide a function that writes what the deployment knows of its pipeline."""

    def put(instance_types: list[str], model: str = MODEL, use_spot: bool = False) -> None:
        text = deployed(instance_types, model, use_spot).model_dump_json()
        deployment.clients("ssm").put_parameter(Name="p", Type="String", Value=text, Overwrite=True)

    return put


@pytest.fixture
def doctor(
    deployment: Deployment,
    put: Callable[..., None],
    quotas: Quotas,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Doctor:
    """Provide a function that runs the command and returns its findings by their checks."""
    secret = deployment.clients("secretsmanager").create_secret(Name="token", SecretString=TOKEN)["ARN"]
    put(["g6e.12xlarge"])
    found = replace(
        deployment,
        clients=lambda name: quotas if name == "service-quotas" else deployment.clients(name),
        pipelines=[PIPELINE],
        parameters={PIPELINE: "p"},
        token_secret=secret,
    )
    monkeypatch.setattr(deployments, "find", lambda: found)

    def doctor() -> dict[str, dict[str, str]]:
        status = main(["doctor", "--json"])
        printed = capsys.readouterr().out
        assert TOKEN not in printed
        findings = {line["check"]: line for line in map(json.loads, printed.splitlines())}
        assert status == any(finding["verdict"] == "problem" for finding in findings.values())
        assert all(finding["remedy"] for finding in findings.values() if finding["verdict"] != "ok")
        return findings

    return doctor


def test_everything_is_in_order(doctor: Doctor, capsys: pytest.CaptureFixture[str]) -> None:
    assert {name: finding["verdict"] for name, finding in doctor().items()} == {
        f"model of {PIPELINE}": "ok",
        f"memory of {PIPELINE}": "ok",
        f"instances of {PIPELINE}": "ok",
        f"capacity of {PIPELINE}": "ok",
        "quota of G and VT instances": "ok",
        "bucket assets": "ok",
        "bucket state/runs/": "ok",
    }
    assert main(["doctor"]) == 0
    assert f"ok       memory of {PIPELINE}: 2B fits" in capsys.readouterr().out


def test_the_demos_model_in_place_of_nvidias_is_a_warning(doctor: Doctor, put: Callable[..., None]) -> None:
    put(["g6e.12xlarge"], model=str(DEMO_REASON))
    finding = doctor()[f"model of {PIPELINE}"]
    assert finding["verdict"] == "warning" and "local up" in finding["remedy"]
    assert "cosmos-batch/demo-reason answers: a small model" in finding["message"]


@pytest.mark.parametrize(
    ("change", "verdict", "message"),
    [
        (lambda hub: hub.gated.add(MODEL), "problem", "licence of nvidia/Cosmos-Reason2-2B has not been accepted"),
        (lambda hub: (hub.gated.add(MODEL), hub.pending.add(TOKEN)), "problem", "waits for its owner's decision"),
        (lambda hub: (hub.gated.add(MODEL), hub.accepted.add(TOKEN)), "ok", "can be downloaded"),
        (lambda hub: setattr(hub, "tokens", {"hf_another"}), "problem", "does not accept the Hugging Face token"),
        (lambda hub: hub.repositories.clear(), "problem", "does not exist on the Hub, or is private"),
        (lambda hub: setattr(hub, "status", 429), "unknown", "limits the requests"),
        (lambda hub: setattr(hub, "status", 503), "unknown", "cannot be reached"),
    ],
)
def test_refusals_of_the_hub_are_told_apart(
    doctor: Doctor, hub: Hub, change: Callable[[Hub], object], verdict: str, message: str
) -> None:
    change(hub)
    finding = doctor()[f"model of {PIPELINE}"]
    assert (finding["verdict"], message in finding["message"]) == (verdict, True), finding


def test_a_checkpoints_folder_needs_no_hub(doctor: Doctor, put: Callable[..., None], hub: Hub) -> None:
    hub.status = 503
    put(["g6e.12xlarge"], model="/models/demo")
    assert doctor()[f"model of {PIPELINE}"]["verdict"] == "ok"


@pytest.mark.parametrize(
    ("value", "verdict", "message"), [(0.0, "problem", "0 vCPUs"), (48.0, "warning", "48"), (None, "unknown", "Access")]
)
def test_quotas_are_compared_with_the_configuration(
    doctor: Doctor, quotas: Quotas, value: float | None, verdict: str, message: str
) -> None:
    quotas.value = value
    finding = doctor()["quota of G and VT instances"]
    assert (finding["verdict"], message in finding["message"]) == (verdict, True), finding


@pytest.mark.parametrize(
    ("instance_type", "name"), [("g6e.12xlarge", "G and VT Spot instances"), ("p5.48xlarge", "P5 Spot instances")]
)
@pytest.mark.parametrize(("value", "verdict"), [(0.0, "warning"), (48.0, "warning"), (768.0, "ok")])
def test_the_quota_of_spot_instances_is_compared_where_they_are_tried_first(
    instance_type: str, name: str, value: float, verdict: str, doctor: Doctor, quotas: Quotas, put: Callable[..., None]
) -> None:
    put([instance_type])
    assert f"quota of {name}" not in doctor()
    quotas.spot = value
    put([instance_type], use_spot=True)
    assert doctor()[f"quota of {name}"]["verdict"] == verdict, "On-Demand instances are tried after them"


def test_a_gpu_that_is_too_small_is_named(doctor: Doctor, put: Callable[..., None]) -> None:
    put(["p5.48xlarge"])
    assert doctor()[f"memory of {PIPELINE}"]["verdict"] == "problem"


def test_an_instance_type_that_the_region_lacks_is_named(doctor: Doctor, put: Callable[..., None]) -> None:
    put(["g6e.12xlarge", "g99.xlarge"])
    finding = doctor()[f"instances of {PIPELINE}"]
    assert (finding["verdict"], "g99.xlarge" in finding["message"]) == ("warning", True)


def test_missing_capacity_and_an_open_breaker_are_reported(doctor: Doctor, deployment: Deployment) -> None:
    workers = deployment.workers(PIPELINE)
    workers.set_breaker(PipelineRow(no_capacity_since="2026-11-20T12:00:00"))
    assert "2026-11-20" in doctor()[f"capacity of {PIPELINE}"]["message"]
    reason = Error(code="ModelUnavailable", message="No licence.", remedy="Accept it.")
    workers.set_breaker(PipelineRow(open=True, reason=reason))
    finding = doctor()[f"capacity of {PIPELINE}"]
    assert (finding["verdict"], finding["remedy"]) == ("problem", "Accept it.")


def test_a_lack_of_capacity_that_has_passed_is_remembered(doctor: Doctor, deployment: Deployment) -> None:
    shortages = deployment.workers(PIPELINE).shortages
    for minutes in (90, 40):
        shortages.ended((datetime.now(UTC) - timedelta(minutes=minutes)).isoformat(), ["g6e.2xlarge"])
        finding = doctor()[f"capacity of {PIPELINE}"]
        assert finding["verdict"] == "warning"
        assert f"no g6e.2xlarge for its workers for {minutes} min, until 20" in finding["message"]
    assert "one of 2 times in 30 days, at most 90 min each" in finding["message"]


def test_a_bucket_that_is_gone_is_a_problem(doctor: Doctor, deployment: Deployment) -> None:
    deployment.asset_roots.append("gone/clips/")
    finding = doctor()["bucket gone/clips/"]
    assert (finding["verdict"], "does not exist" in finding["message"]) == ("problem", True)


def test_a_check_that_hangs_or_fails_does_not_keep_the_others() -> None:
    go_on = threading.Event()

    def hang() -> list[Finding]:
        go_on.wait(60)
        return []

    def fail() -> list[Finding]:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetIt")

    good = Finding(check="good", verdict=Verdict.OK, message="Good.")
    try:
        found = run_checks({"hangs": hang, "fails": fail, "good": lambda: [good], "empty": list}, seconds=0.5)
    finally:
        go_on.set()
    assert [(one.check, one.verdict) for one in found] == [
        ("hangs", Verdict.UNKNOWN),
        ("fails", Verdict.UNKNOWN),
        ("good", Verdict.OK),
    ]
    assert "No answer" in found[0].message and "AccessDenied" in found[1].message

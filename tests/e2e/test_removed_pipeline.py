"""When a deployment removes a pipeline, its jobs end with it and say why."""

import json
from pathlib import Path

import pytest

from cosmos_batch.local.deploy import deploy
from cosmos_batch.planning.configuration import parse_config
from infra.synth import synthesize
from tests.support.deployed_app import EIGHT_B, TWO_B, App, configuration_text, error_of, wait_for


@pytest.mark.timeout(600)  # a synthesis and two deployments on a machine that may be busy
def test_the_jobs_of_a_removed_pipeline_end_with_the_deployment(app: App, picture: Path, tmp_path: Path) -> None:
    app.upload("p.png", picture)
    prompt = json.dumps({"until": str(tmp_path / "never")})
    jobs = [app.start({"pipeline": EIGHT_B, "input": f"s3://{app.assets}/p.png", "prompt": prompt}) for _ in range(2)]
    wait_for(lambda: all(has_begun(app, arn) for arn in jobs), 180, "no worker begins")
    without = json.loads(configuration_text(app.folder))
    without["app"]["pipelines"]["useNvidiaCosmos"]["modelsReason"]["reason8B"]["enabled"] = False
    deploy(synthesize(parse_config(json.dumps(without)), tmp_path / "cdk.out"), app.cloud)
    for arn in jobs:
        error = error_of(app.ended(arn))
        assert error["code"] == "InvalidInput", error
        assert f"Pipeline {EIGHT_B} was removed" in error["message"]
        assert app.row(arn).state == "FAILED"
    late = app.start({"pipeline": EIGHT_B, "input": f"s3://{app.assets}/p.png"})
    assert f"Use one of: {TWO_B}" in error_of(app.ended(late))["remedy"]


def has_begun(app: App, arn: str) -> bool:
    row = app.jobs.get(arn.rpartition(":")[2])
    return row is not None and row.open_attempt is not None

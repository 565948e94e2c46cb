"""When busy workers are redeployed, they finish their jobs, new ones serve the rest, and nothing is lost."""

import json
from collections import Counter
from pathlib import Path

from cosmos_batch.local.deploy import deploy
from infra.synth import synthesize
from tests.support.deployed_app import TWO_B, App, configuration, wait_for

JOBS = 6


def test_a_new_job_definition_drains_the_old_workers_and_loses_no_job(app: App, picture: Path, tmp_path: Path) -> None:
    app.upload("p.png", picture)
    arns = [
        app.start(
            {
                "pipeline": TWO_B,
                "input": f"s3://{app.assets}/p.png",
                "output": f"s3://{app.assets}/out/{number}/",
                "prompt": json.dumps({"seconds": 4 if number == 0 else 0.2, "text": f"answer {number}"}),
            }
        )
        for number in range(JOBS)
    ]
    wait_for(lambda: (row := app.jobs.get(arns[0].rsplit(":", 1)[-1])) and row.open_attempt, 180, "nobody begins")
    [old] = app.live_workers(TWO_B)

    settings = {"worker": {**configuration(app.folder).own.worker.model_dump(by_alias=True), "idleSeconds": 9}}
    deploy(synthesize(configuration(app.folder, **settings), tmp_path / "cdk.out"), app.cloud)
    wait_for(lambda: asked_to_leave(app, old), 180, "it is not asked to leave")
    wait_for(lambda: app.workers().get(old).state in ("DRAINING", "ENDED"), 180, "it does not leave")
    late = app.start(
        {
            "pipeline": TWO_B,
            "input": f"s3://{app.assets}/p.png",
            "output": f"s3://{app.assets}/out/late/",
            "prompt": json.dumps({"text": "answer late"}),
        }
    )

    ended = [app.ended_under_sweeps(arn) for arn in [*arns, late]]
    assert [execution["status"] for execution in ended] == ["SUCCEEDED"] * (JOBS + 1)
    written = Counter(key.rsplit("/", 1)[0] for key in app.keys("out/"))
    assert len(written) == JOBS + 1 and set(written.values()) == {1}  # one result each
    answers = [app.document(arn)["result"] for arn in [*arns, late]]
    assert answers == [*(f"answer {number}" for number in range(JOBS)), "answer late"]
    for arn in arns:
        events = app.client("stepfunctions").get_execution_history(executionArn=arn)["events"]
        assert sum(event["type"] == "TaskSucceeded" for event in events) == 1  # one answer each
    assert app.row(late).worker != old  # it takes nothing more
    assert app.row(arns[0]).worker == old  # what it held it finished


def asked_to_leave(app: App, worker: str) -> bool:
    """Return whether `scale` has asked a worker to leave at its next call, or the worker has ended by itself."""
    app.sweep()
    row = app.workers().get(worker)
    return row.must_drain or row.state == "ENDED"

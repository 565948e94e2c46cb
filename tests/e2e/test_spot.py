"""EC2 announces that it takes an instance away: its worker gives back what it holds, and another one takes it."""

import json
from pathlib import Path

from tests.e2e.harness import TWO_B, App, wait_for
from tests.metadata_service import metadata_service


def test_a_spot_notice_gives_the_job_back_and_spends_no_attempt(app: App, picture: Path) -> None:
    app.upload("p.png", picture)
    with metadata_service() as service:
        # The variables of an image are stronger than those with which the local cloud turns the service off.
        app.cloud.register_images(
            {
                uri: {**image, "environment": {**image["environment"], **service.variables}}
                for uri, image in app.cloud.images().items()
            }
        )
        script = json.dumps({"seconds": 60})
        arn = app.start({"pipeline": TWO_B, "input": f"s3://{app.assets}/p.png", "prompt": script})
        wait_for(lambda: (row := app.jobs.get(arn.rpartition(":")[2])) and row.open_attempt, 30, "never ran")
        first = app.row(arn).worker
        assert first is not None
        service.notice = True
        wait_for(lambda: app.row(arn).open_attempt is None, 20, "the notice was not heard")
        assert (app.row(arn).attempts, app.row(arn).suspect) == (0, False)
        service.notice = False
        wait_for(lambda: app.row(arn).open_attempt, 30, "no other worker has taken it")
        assert app.row(arn).worker != first
        worker = app.workers().get(first)
        assert worker is not None and (worker.state, worker.error) == ("ENDED", None)
        app.client("stepfunctions").stop_execution(executionArn=arn)

"""A deployment whose stores have a customer key gives the same result."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployed_app import TWO_B, App, configuration, running_app


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("key")
    with running_app(folder, configuration(folder, storage={"kmsKey": "create"})) as running:
        yield running


def test_a_job_ends_well_where_every_store_has_a_customer_key(app: App, clip: Path) -> None:
    app.upload("clip.mp4", clip)
    script = json.dumps({"text": "fine"})
    arn = app.start({"pipeline": TWO_B, "input": f"s3://{app.assets}/clip.mp4", "prompt": script})
    assert app.ended(arn)["status"] == "SUCCEEDED"
    (rule,) = app.client("s3").get_bucket_encryption(Bucket=app.assets)["ServerSideEncryptionConfiguration"]["Rules"]
    key = rule["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"]
    assert app.client("kms").get_key_rotation_status(KeyId=key)["KeyRotationEnabled"]

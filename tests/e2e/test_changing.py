"""Each change that `docs/changing.md` promises is deployed as the page says, from an example's deployment and back."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli.local_cloud import start_local_cloud
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.deploy import DeployError, deploy
from cosmos_batch.planning.configuration import parse_config
from infra.synth import synthesize
from tests.support.deployed_app import deploy_stack

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "changing.md").read_text(encoding="utf-8")
EXAMPLE = json.loads((ROOT / "examples" / "reason-only.json").read_text(encoding="utf-8"))
ROWS = re.findall(r"^\| `(app\.[\w.]+)` \| `(.+?)` \| (`--all`|backwards) \|", PAGE, re.MULTILINE)
BACKWARDS = re.findall(r"^npx cdk deploy (?:--exclusively (\S+)|(--all))$", PAGE, re.MULTILINE)
# The configuration that is deployed before a change, where the example lacks the pipeline that is changed.
BEFORE: dict[str, dict[str, Any]] = {
    "app.pipelines.useNvidiaCosmos3.modelsOmni.nano16B.engine": {
        "app.pipelines.useNvidiaCosmos3.enabled": True,
        "app.pipelines.useNvidiaCosmos3.modelsOmni.nano16B.enabled": True,
    }
}
# What a change needs beside its own setting.
ALSO: dict[str, dict[str, Any]] = {
    "app.pipelines.useNvidiaCosmos.modelsReason.reason2B.endpoint": {
        "app.pipelines.useNvidiaCosmos.modelsReason.reason2B.engine": "endpoint"
    },
    "app.cosmosBatch.storage.createAssetBucket": {
        "app.cosmosBatch.storage.assetBuckets": [{"name": "of-somebody-else", "triggerOnUpload": False}]
    },
}


class Deployment:
    """The example, deployed on a local cloud."""

    def __init__(self, cloud: LocalCloud, folder: Path) -> None:
        self.cloud = cloud
        self.folder = folder
        self.example = self.synthesize("example", {})
        self.all(self.example)

    def synthesize(self, name: str, settings: dict[str, Any]) -> Path:
        config = json.loads(json.dumps(EXAMPLE))
        for path, value in settings.items():
            *blocks, field = path.split(".")
            block = config
            for one in blocks:
                block = block.setdefault(one, {})
            block[field] = value
        return synthesize(parse_config(json.dumps(config)), self.folder / name / "cdk.out")

    def all(self, assembly: Path) -> None:
        """Deploy as `npx cdk deploy --all` does."""
        deploy(assembly, self.cloud, lambda _: None)

    def backwards(self, assembly: Path) -> None:
        """Run the page's commands for going back, in its order."""
        for stack, everything in BACKWARDS:
            if everything:
                self.all(assembly)
            else:
                deploy_stack(stack, assembly, self.cloud)

    def templates(self) -> dict[str, Any]:
        client = self.cloud.client("cloudformation")
        names = [stack["StackName"] for stack in client.describe_stacks()["Stacks"]]
        return {name: client.get_template(StackName=name)["TemplateBody"] for name in names}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("changing")
    with start_local_cloud(folder / "home", parent_pid=os.getpid()) as cloud:
        cloud.client("s3").create_bucket(Bucket="of-somebody-else")
        yield Deployment(cloud, folder)


def written(assembly: Path) -> dict[str, Any]:
    return {
        path.name.removesuffix(".template.json"): json.loads(path.read_text(encoding="utf-8"))
        for path in assembly.glob("*.template.json")
    }


def test_the_page_has_the_changes_and_the_commands() -> None:
    assert len(ROWS) == 10 and len(BACKWARDS) == 4 and BACKWARDS[-1] == ("", "--all")


@pytest.mark.slow
@pytest.mark.timeout(900)  # twice as many deployments as there are stacks, on a busy machine
@pytest.mark.parametrize(("path", "value", "way"), ROWS, ids=[path.rpartition(".")[2] for path, _, _ in ROWS])
def test_a_change_is_deployed_as_the_page_says_and_back(
    deployment: Deployment, path: str, value: str, way: str
) -> None:
    before = BEFORE.get(path, {})
    if before:
        deployment.all(deployment.synthesize(f"before {path}", before))
    changed = deployment.synthesize(path, {**before, path: json.loads(value), **ALSO.get(path, {})})
    if way == "backwards":
        # So that the page does not send people a longer way than they need.
        with pytest.raises(DeployError, match="in use by"):
            deployment.all(changed)
        deployment.backwards(changed)
    else:
        deployment.all(changed)
    assert deployment.templates() == written(changed)
    # What was taken away comes back with what has it first, and what was added goes with its users first.
    if way == "backwards":
        deployment.all(deployment.example)
    else:
        deployment.backwards(deployment.example)
    assert deployment.templates() == written(deployment.example)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_mode_of_the_network_is_refused_without_harm(deployment: Deployment) -> None:
    changed = deployment.synthesize("mode", {"app.cosmosBatch.network.mode": "public"})
    with pytest.raises(DeployError, match="in use by"):
        deployment.all(changed)
    assert deployment.templates() == written(deployment.example)

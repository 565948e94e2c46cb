"""A Batch job runs what its image's Dockerfile says; the local cloud adds nothing to it."""

import json
import os
import re
from pathlib import Path

from cosmos_batch.cli.local_cloud import start_local_cloud
from cosmos_batch.local.deploy import deploy
from infra.synth import synthesize
from tests.support.deployed_app import App, configuration, wait_for


def dockerfile_of(assembly: Path) -> Path:
    """Return the only Dockerfile of an assembly."""
    [image] = [
        image["source"]
        for manifest in assembly.glob("*.assets.json")
        for image in json.loads(manifest.read_text()).get("dockerImages", {}).values()
    ]
    return assembly / str(image["directory"]) / str(image["dockerFile"])


def test_a_changed_entrypoint_is_what_runs(tmp_path: Path, picture: Path) -> None:
    ran = tmp_path / "ran"
    assembly = synthesize(configuration(tmp_path, use_code_build=False), tmp_path / "cdk.out")
    dockerfile = dockerfile_of(assembly)
    code = f"import os; open({str(ran)!r}, 'w').write(os.environ['PIPELINE'])"
    changed, count = re.subn(
        r"^ENTRYPOINT .*$", f"ENTRYPOINT {json.dumps(['python', '-c', code])}", dockerfile.read_text(), flags=re.M
    )
    assert count == 1
    dockerfile.write_text(changed)
    with start_local_cloud(tmp_path / "home", parent_pid=os.getpid(), stop_grace=5) as cloud:
        stacks = deploy(assembly, cloud)
        app = App(cloud, tmp_path, {name: value for stack in stacks.values() for name, value in stack.items()})
        app.upload("p.png", picture, prompt="x")
        wait_for(ran.exists, 180, "the changed ENTRYPOINT did not run")
        assert ran.read_text() == "cosmos-reason2-2b"

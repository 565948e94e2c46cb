"""A changed file causes a new build only of the image or zip that contains it."""

import shutil
from pathlib import Path

import pytest

from cosmos_batch.contract.network import NetworkSettings
from cosmos_batch.planning.configuration import load_config
from infra.constructs import functions, image_build
from infra.layer import ROOT
from infra.nodejs import choose_nodejs

USED = ["cosmos_batch", "lambdas", "containers", "pyproject.toml", "README.md"]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a copy of the sources, which synthesis takes for the repository."""
    root = tmp_path / "repository"
    for name in USED:
        source, target = ROOT / name, root / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            root.mkdir(exist_ok=True)
            shutil.copy(source, target)
    monkeypatch.setattr(functions, "ROOT", root)
    monkeypatch.setattr(image_build, "ROOT", root)
    return root


def hashes() -> tuple[str, str]:
    """Return the image's tag and the key of the functions' code."""
    choose_nodejs()
    from aws_cdk import App, Stack
    from aws_cdk import aws_lambda as lambda_

    from infra.constructs.functions import code
    from infra.stacks.images import ImagesStack
    from infra.stacks.network import NetworkStack

    app = App()
    network = NetworkStack(app, "Network", settings=NetworkSettings())
    images = ImagesStack(app, "Images", config=load_config(ROOT / "config.json"), network=network)
    (build,) = images.builds
    bound = code().bind(Stack(app, "Functions"))
    assert isinstance(bound, lambda_.CodeConfig) and bound.s3_location is not None
    return build.tag, bound.s3_location.object_key


@pytest.mark.parametrize(
    ("file", "image_changes", "code_changes"),
    [
        ("README.md", False, False),
        ("cosmos_batch/cli/anything.py", False, False),
        ("cosmos_batch/worker/__pycache__/worker.cpython-312.pyc", False, False),
        ("lambdas/requirements.txt", False, False),
        ("lambdas/handlers/plan.py", False, True),
        ("cosmos_batch/worker/loop.py", True, False),
        ("containers/reasoner/Dockerfile", True, False),
        ("containers/reasoner/requirements.cu130.lock", True, False),
        ("containers/build.sh", True, False),
        ("containers/diffusers/Dockerfile", False, False),
        ("containers/locks.py", False, False),
        ("pyproject.toml", True, False),
        ("cosmos_batch/contract/job.py", True, True),
    ],
)
def test_a_changed_file_changes_the_hashes_of_what_contains_it(
    copy: Path, file: str, image_changes: bool, code_changes: bool
) -> None:
    image, code = hashes()
    path = copy / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# changed\n", encoding="utf-8")
    changed_image, changed_code = hashes()
    assert (changed_image != image, changed_code != code) == (image_changes, code_changes)


def exclusions() -> dict[str, list[str]]:
    """Return the patterns of each asset that is made of the repository's files, by its name."""
    choose_nodejs()
    from infra.constructs.functions import CODE, IMAGE_BUILD_CODE

    images = [path.parent.name for path in (ROOT / "containers").glob("*/Dockerfile.dockerignore")]
    assert len(images) == 5
    return {
        "functions": CODE,
        "image build": IMAGE_BUILD_CODE,
        **{one: image_build.build_context(one) for one in images},
    }


def test_cdk_does_not_enter_the_folders_of_the_console() -> None:
    """CDK looks through a folder that is ignored but not completely: with npm's packages in it, for half a minute."""
    assets = exclusions()
    from aws_cdk import IgnoreStrategy

    for name, patterns in assets.items():
        strategy = IgnoreStrategy.docker(str(ROOT), patterns)
        for folder in ("cosmos_batch/console", "cosmos_batch/console/page/node_modules", "node_modules", "build"):
            assert strategy.completely_ignores(str(ROOT / folder)), f"{name} walks {folder}"

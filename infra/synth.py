"""From a configuration to a cloud assembly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cosmos_batch.contract.config import Config
from infra.node import use_node

if TYPE_CHECKING:
    from aws_cdk import App

PREFIX = "CosmosBatch"


def synthesize(config: Config, outdir: Path, config_file: Path | None = None) -> Path:
    """Write the templates and assets of the app to `outdir`, and return it. Nothing is asked of any account.

    With `config_file`, and a Hugging Face token in it, deployment writes the token into the deployed secret; it reads
    it from that file then, for the token itself is written nowhere.
    """
    build(config, outdir, config_file).synth()
    return outdir


def build(config: Config, outdir: Path, config_file: Path | None = None) -> App:
    """The app of a configuration, before it is written to `outdir`."""
    use_node()
    # Here, for jsii starts Node when it is imported.
    from aws_cdk import App

    from infra.constructs.encryption import encrypt_stores
    from infra.constructs.hugging_face_token import put_token_at_deployment
    from infra.constructs.labels import label
    from infra.stacks.builds import BuildsStack
    from infra.stacks.images import ImagesStack
    from infra.stacks.monitoring import MonitoringStack
    from infra.stacks.network import NetworkStack
    from infra.stacks.pipelines import PipelinesStack
    from infra.stacks.storage import StorageStack

    # CDK's own check of the templates would be most of the time; cfn-lint's, in the tests, finds more.
    app = App(outdir=str(outdir), analytics_reporting=False, builtin_cloud_formation_validation=False)
    network = NetworkStack(app, f"{PREFIX}-Network", settings=config.own.network)
    storage = StorageStack(
        app,
        f"{PREFIX}-Storage",
        settings=config.own.storage,
        network=network,
        cosmos=config.cosmos,
        adopted=config.own.vams.adopted_buckets if config.own.vams else [],
    )
    images = ImagesStack(app, f"{PREFIX}-Images", config=config, network=network)
    pipelines = PipelinesStack(
        app, f"{PREFIX}-Pipelines", config=config, network=network, storage=storage, images=images
    )
    if images.builds:
        pipelines.add_stack_dependency(BuildsStack(app, f"{PREFIX}-Builds", images.builds))
    MonitoringStack(app, f"{PREFIX}-Monitoring", settings=config.own, pipelines=pipelines)
    label(app, config.own.operations)
    if storage.key is not None:
        images.add_stack_dependency(storage)
        encrypt_stores(app, storage, storage.key, except_for=storage.logs)
    if config_file is not None and config.cosmos.hugging_face_token.get_secret_value():
        put_token_at_deployment(pipelines, config_file, storage.stack_name)
    return app

"""Synthesize the CDK app of a configuration: write its templates and assets to a folder, the cloud assembly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cosmos_batch.contract.config import Config
from cosmos_batch.contract.operations import APP_NAME, APP_TAG, OperationsSettings
from infra.nodejs import choose_nodejs

if TYPE_CHECKING:
    from aws_cdk import App

PREFIX = "CosmosBatch"
# Another tag would make CloudFormation replace a compute environment, and thereby end its workers. The environment
# itself costs nothing, and its instances have the tags.
UNTAGGED = ["AWS::Batch::ComputeEnvironment"]


def synthesize(config: Config, outdir: Path, config_file: Path | None = None) -> Path:
    """Write the templates and assets of the app to `outdir`, and return it. No call to AWS is made.

    If `config_file` is given and has a Hugging Face token, the deployment writes that token into the deployed secret.
    It reads the token from that file at that time, so the assembly does not contain it.
    """
    build(config, outdir, config_file).synth()
    return outdir


def build(config: Config, outdir: Path, config_file: Path | None = None) -> App:
    """Return the app of a configuration, which its method `synth` writes to `outdir`."""
    choose_nodejs()
    # These are imported here because importing jsii starts Node.js.
    from aws_cdk import App

    from infra.constructs.encryption import encrypt_stores
    from infra.constructs.hugging_face_token import put_token_at_deployment
    from infra.stacks.builds import BuildsStack
    from infra.stacks.images import ImagesStack
    from infra.stacks.monitoring import MonitoringStack
    from infra.stacks.network import NetworkStack
    from infra.stacks.pipelines import PipelinesStack
    from infra.stacks.storage import StorageStack

    # CDK's own validation of the templates would take most of the time; cfn-lint, which the tests run, finds more.
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
    _tag_resources(app, config.own.operations)
    _limit_log_retention(app, config.own.operations)
    if storage.key is not None:
        images.add_stack_dependency(storage)
        encrypt_stores(app, storage, storage.key, except_for=storage.logs)
    if config_file is not None and config.cosmos.hugging_face_token.get_secret_value():
        put_token_at_deployment(pipelines, config_file, storage.stack_name)
    return app


def _tag_resources(app: App, settings: OperationsSettings) -> None:
    """Tag every resource that can be tagged, so that the app's costs can be found."""
    from aws_cdk import Tags

    for name, value in {APP_TAG: APP_NAME, **settings.tags}.items():
        Tags.of(app).add(name, value, exclude_resource_types=UNTAGGED)


def _limit_log_retention(app: App, settings: OperationsSettings) -> None:
    from aws_cdk import aws_logs as logs

    for construct in app.node.find_all():
        if isinstance(construct, logs.CfnLogGroup):
            construct.retention_in_days = settings.log_retention_days

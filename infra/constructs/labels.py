"""What holds for every resource: the tags by which costs are found, and how long logs are kept."""

from aws_cdk import App, Tags
from aws_cdk import aws_logs as logs

from cosmos_batch.contract.operations import APP_NAME, APP_TAG, OperationsSettings

# Replaced where its tags change, and its workers with it. It costs nothing itself: its instances have the tags.
UNTAGGED = ["AWS::Batch::ComputeEnvironment"]


def label(app: App, settings: OperationsSettings) -> None:
    """Tag everything that has tags, and set the retention of every log group."""
    for name, value in {APP_TAG: APP_NAME, **settings.tags}.items():
        Tags.of(app).add(name, value, exclude_resource_types=UNTAGGED)
    for construct in app.node.find_all():
        if isinstance(construct, logs.CfnLogGroup):
            construct.retention_in_days = settings.log_retention_days

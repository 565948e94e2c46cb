"""The stack with the dashboard, the alarms and the budget."""

from typing import Any

from aws_cdk import CrossStackReferences, Duration, ReferenceStrength, Stack
from aws_cdk import aws_budgets as budgets
from constructs import Construct

from cosmos_batch.contract.config import OwnSettings
from cosmos_batch.contract.operations import APP_NAME, APP_TAG
from cosmos_batch.contract.vams import MARGIN_SECONDS
from cosmos_batch.planning.deployment import EnabledPipeline
from infra.constructs.alarms import Alarms
from infra.constructs.dashboard import Dashboard
from infra.constructs.run_mail import RunMail
from infra.stacks.pipelines import PipelinesStack

WARN_AT_PERCENT = 80


class MonitoringStack(Stack):
    """A dashboard, alarms that notify one topic, and an e-mail about runs and a budget if they are configured."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        settings: OwnSettings,
        pipelines: PipelinesStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, **kwargs)
        # CloudFormation refuses to delete an export that is in use, so that a watched pipeline could not be disabled.
        CrossStackReferences.of(self).consume(ReferenceStrength.WEAK)
        Dashboard(self, "Dashboard", pipelines.pipelines, pipelines.machine)
        alarms = Alarms(self, "Alarms", settings.operations.alarm_email)
        for pipeline in pipelines.pipelines:
            alarms.watch_pipeline(pipeline, _longest_wait(settings, pipeline.enabled))
        alarms.watch_unplanned()
        for name, queue in pipelines.undelivered.items():
            alarms.watch_queue(
                f"{name}-undelivered",
                queue,
                f"Events for {name} could not be delivered. Mend what its function's log says, then redrive the queue.",
            )
        for name, function in pipelines.functions.items():
            if name != "Plan":  # `plan` also fails for invalid requests
                alarms.watch_function(name, function)
        if settings.operations.runs_email is not None:
            RunMail(self, "RunMail", settings.operations.runs_email)
        budget, email = settings.operations.monthly_budget_dollars, settings.operations.alarm_email
        if budget is not None and email is not None:
            self._add_budget(budget, email)

    def _add_budget(self, dollars: int, email: str) -> None:
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=dollars, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{APP_TAG}${APP_NAME}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type="ACTUAL",
                        comparison_operator="GREATER_THAN",
                        threshold=WARN_AT_PERCENT,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[budgets.CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=email)],
                )
            ],
        )


def _longest_wait(settings: OwnSettings, enabled: EnabledPipeline) -> Duration:
    """Return half of the deadline of a pipeline's callers. That of VAMS is shorter than our own."""
    seconds = settings.deadline_hours * 3600
    if settings.vams is not None and enabled.auto_register_with_vams:
        seconds = min(seconds, settings.vams.task_timeout_seconds - MARGIN_SECONDS)
    return Duration.seconds(round(seconds / 2))

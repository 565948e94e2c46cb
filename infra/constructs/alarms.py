"""The alarms of the app. `docs/operations.md` has a row for each of them."""

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cosmos_batch.contract import metrics
from infra.constructs.metrics import pipeline_metric
from infra.constructs.pipeline import PipelineResources

MISSING_IS_OK = cloudwatch.TreatMissingData.NOT_BREACHING
MISSING_IS_ALARM = cloudwatch.TreatMissingData.BREACHING


class Alarms(Construct):
    """Alarms that notify one SNS topic when they begin and when they end."""

    def __init__(self, scope: Construct, construct_id: str, email: str | None) -> None:
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(self, "Topic", enforce_ssl=True)
        # `enforce_ssl` gives the topic a policy, and then only services that the policy names can publish.
        here = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        self.topic.grant_publish(iam.ServicePrincipal("cloudwatch.amazonaws.com", conditions=here))
        if email is not None:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))

    def watch_pipeline(self, pipeline: PipelineResources, longest_wait: Duration) -> None:
        """Watch a pipeline's queue, workers and jobs. A job older than `longest_wait` may miss its deadline."""
        name = pipeline.id
        age = pipeline.queue.queue.metric_approximate_age_of_oldest_message(period=Duration.minutes(5))
        self._alarm(
            f"{name}-oldest-job",
            age,
            longest_wait.to_seconds(),
            f"A job of {name} has waited for half of its deadline. See why workers do not come, or raise maxVCpus.",
        )
        self._alarm(
            f"{name}-breaker",
            pipeline_metric(metrics.BREAKER_OPEN, name),
            1,
            f"Workers of {name} cannot start: its jobs wait, or fail where that stays. cosmos-batch status says why.",
        )
        self._alarm(
            f"{name}-stuck-workers",
            pipeline_metric(metrics.STUCK_WORKERS, name, "Sum"),
            1,
            f"Workers of {name} found no instance; its jobs wait. Add a type or a zone, or ask for a higher quota.",
        )
        self._alarm(
            f"{name}-failures",
            pipeline_metric(metrics.FAILED, name, "Sum").with_(period=Duration.minutes(15)),
            10,
            f"Ten jobs of {name} failed within a quarter of an hour. The dashboard shows their codes.",
        )
        self._alarm(
            f"{name}-dead-letters",
            pipeline_metric(metrics.DEAD_LETTERS, name, "Sum"),
            1,
            f"A job of {name} was received 1,000 times and never ended. Its caller was told; see the workers' log.",
        )
        self._alarm(
            f"{name}-foreign-tokens",
            pipeline_metric(metrics.FOREIGN_TOKENS, name, "Sum"),
            1,
            f"Jobs of {name} have task tokens of another account or region. Find who writes to its queue.",
        )
        self._alarm(
            f"{name}-no-heartbeat",
            # `scale` writes this metric every minute, unless it has failed.
            pipeline_metric(metrics.LIVE_WORKERS, name, "SampleCount").with_(period=Duration.minutes(5)),
            1,
            f"scale has not looked at {name} for ten minutes: nobody starts its workers. See its log.",
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=2,
            missing=MISSING_IS_ALARM,
        )

    def watch_unplanned(self) -> None:
        """Watch for requests that fail before they are planned. Those that `plan` refuses are their senders' faults."""
        self._alarm(
            "unplanned",
            pipeline_metric(metrics.FAILED, metrics.UNKNOWN, "Sum", **{metrics.CODE: "Internal"}),
            1,
            "A request failed before it was planned, and not by its sender's fault. See the log of plan.",
        )
        self._alarm(
            "unreadable-dead-letters",
            pipeline_metric(metrics.DEAD_LETTERS, metrics.UNKNOWN, "Sum"),
            1,
            "A dead letter was no job of ours. The log of dead-letter has its id; find who writes to the queue.",
        )

    def watch_queue(self, name: str, queue: sqs.IQueue, description: str) -> None:
        """Watch a queue that must be empty."""
        visible = queue.metric_approximate_number_of_messages_visible(period=Duration.minutes(5))
        self._alarm(name, visible, 1, description)

    def watch_function(self, name: str, function: lambda_.IFunction) -> None:
        """Watch for a function that fails or is throttled repeatedly. Once is harmless, for its caller tries again."""
        failures = cloudwatch.MathExpression(
            expression="errors + throttles",
            using_metrics={"errors": function.metric_errors(), "throttles": function.metric_throttles()},
            period=Duration.minutes(5),
        )
        self._alarm(
            f"{name}-function",
            failures,
            5,
            f"The function {name} fails or is throttled. What called it tries again; see its log.",
            evaluation_periods=2,
        )

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        threshold: float,
        description: str,
        comparison: cloudwatch.ComparisonOperator = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        evaluation_periods: int = 1,
        missing: cloudwatch.TreatMissingData = MISSING_IS_OK,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            comparison_operator=comparison,
            evaluation_periods=evaluation_periods,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        alarm.add_ok_action(actions.SnsAction(self.topic))

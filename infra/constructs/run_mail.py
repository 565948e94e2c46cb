"""An e-mail for each run that has ended or is held: the event of `finish_run`, sent to a topic with one subscriber."""

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from cosmos_batch.contract.runs import EVENT_SOURCE, RUN_ENDED


class RunMail(Construct):
    """A topic to which EventBridge sends a sentence about each run that ends, and its one subscriber."""

    def __init__(self, scope: Construct, construct_id: str, email: str) -> None:
        super().__init__(scope, construct_id)
        topic = sns.Topic(self, "Topic", enforce_ssl=True)
        topic.add_subscription(subscriptions.EmailSubscription(email))
        # EventBridge puts the JSON number or text of a field in place of each of these.
        run, state, items, succeeded, failed, dollars = (
            events.EventField.from_path(f"$.detail.{name}")
            for name in ("id", "state", "items", "succeeded", "failed", "dollars")
        )
        text = (
            f"Run {run} is {state}: of {items} items {succeeded} have an answer and {failed} an error; its GPUs cost "
            f"${dollars}. To look at it: cosmos-batch runs show {run}"
        )
        events.Rule(
            self,
            "Rule",
            description="Runs of Cosmos Batch that ended or are held",
            event_pattern=events.EventPattern(source=[EVENT_SOURCE], detail_type=[RUN_ENDED]),
            targets=[targets.SnsTopic(topic, message=events.RuleTargetInput.from_text(text))],
        )

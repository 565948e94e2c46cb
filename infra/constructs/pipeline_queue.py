"""Where the jobs of a pipeline wait for a worker."""

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

# A job dies of its own attempts or of its deadline (10 days at most); this many receipts mean that nobody could even
# count them.
MAX_RECEIVES = 20


class PipelineQueue(Construct):
    """A queue, and the dead letters that `lambdas/dead_letter` answers."""

    def __init__(self, scope: Construct, construct_id: str, visibility_timeout: Duration) -> None:
        super().__init__(scope, construct_id)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            retention_period=Duration.days(14),
            visibility_timeout=Duration.minutes(6),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            visibility_timeout=visibility_timeout,
            retention_period=Duration.days(10),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=MAX_RECEIVES),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )

"""Where the jobs of a pipeline wait for a worker."""

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

# The most that SQS takes. Workers end a job whose receipts come to nothing much earlier (`MAX_RECEIPTS`); they know how
# many of them were pauses, and a job that waits for a server until its deadline, 10 days at most, has a thousand.
MAX_RECEIVES = 1000


class PipelineQueue(Construct):
    """A queue, and the dead letters that `lambdas/handlers/dead_letter` answers."""

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

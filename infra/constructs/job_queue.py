"""The SQS queue in which the jobs of a pipeline wait for a worker, and its dead-letter queue."""

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cosmos_batch.contract.settings import QUEUE_DAYS

# SQS's maximum. Workers fail a job that is received again and again much earlier (`MAX_RECEIPTS`): they know how many
# of the receives were pauses. The longest pause (`worker/server_outages.py`) is such that a job that waits for a busy
# server until the latest deadline, `QUEUE_DAYS`, is received less often.
MAX_RECEIVES = 1000


class JobQueue(Construct):
    """A job queue and its dead-letter queue, whose messages `lambdas/handlers/dead_letter.py` answers."""

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
            retention_period=Duration.days(QUEUE_DAYS),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=MAX_RECEIVES),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )

"""Count the jobs in the queue of a pipeline."""

from lambdas.clients import client

# The queue attributes that together count the jobs of a queue: waiting, received by a worker, and delayed.
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


def count_jobs(queue_url: str) -> int:
    """Return about how many jobs a queue holds, those that workers have received included."""
    answer = client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=list(_COUNTS))
    return sum(int(answer["Attributes"][name]) for name in _COUNTS)

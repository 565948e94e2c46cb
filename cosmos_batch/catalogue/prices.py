"""List prices of the AWS services around the GPUs, in one dated table. The prices of instances are in `hardware`.

To bring it up to date, look at each source, and change `PRICES_AS_OF` with the numbers. Discounts, free tiers and
volume tiers are left out.
"""

from dataclasses import dataclass

PRICES_AS_OF = "us-east-1, list prices, as known in November 2026"

_S3 = "aws.amazon.com/s3/pricing"
_DYNAMODB = "aws.amazon.com/dynamodb/pricing/on-demand"
_SQS = "aws.amazon.com/sqs/pricing"
_STEP_FUNCTIONS = "aws.amazon.com/step-functions/pricing"
_LAMBDA = "aws.amazon.com/lambda/pricing"
_EFS = "aws.amazon.com/efs/pricing"
_CLOUDWATCH = "aws.amazon.com/cloudwatch/pricing"
_EVENTBRIDGE = "aws.amazon.com/eventbridge/pricing"
_KMS = "aws.amazon.com/kms/pricing"

MILLION = 1_000_000


@dataclass(frozen=True)
class ListPrice:
    """The list price of a unit of a service: `dollars` are charged for each `per` units."""

    dollars: float
    per: int
    unit: str
    source: str

    def of(self, units: float) -> float:
        """Return the price of a number of units, in dollars.

        >>> PRICES["s3.put"].of(1_000_000)
        5.0
        """
        return self.dollars * units / self.per


PRICES = {
    "s3.put": ListPrice(0.005, 1000, "PUT, COPY, POST or LIST request", _S3),
    "s3.get": ListPrice(0.0004, 1000, "GET, HEAD or SELECT request", _S3),
    "s3.storage": ListPrice(0.023, 1, "GB for a month, S3 Standard", _S3),
    "dynamodb.write": ListPrice(0.625, MILLION, "write request unit: 1 KB of a row", _DYNAMODB),
    "dynamodb.read": ListPrice(0.125, MILLION, "read request unit: 4 KB of a row, strongly consistent", _DYNAMODB),
    "dynamodb.storage": ListPrice(0.25, 1, "GB for a month", _DYNAMODB),
    "sqs.request": ListPrice(0.40, MILLION, "request to a standard queue: 64 KB of messages", _SQS),
    "sqs.fair": ListPrice(0.10, MILLION, "request with a message group of a fair queue, in addition", _SQS),
    "states.transition": ListPrice(0.025, 1000, "state transition of a standard workflow", _STEP_FUNCTIONS),
    "lambda.request": ListPrice(0.20, MILLION, "request", _LAMBDA),
    "lambda.gb_second": ListPrice(0.0000133334, 1, "GB-second on Arm", _LAMBDA),
    "efs.storage": ListPrice(0.30, 1, "GB for a month, EFS Standard", _EFS),
    "logs.ingested": ListPrice(0.50, 1, "GB of logs", _CLOUDWATCH),
    "events.published": ListPrice(1.00, MILLION, "event to a custom bus; those of AWS services are free", _EVENTBRIDGE),
    "kms.request": ListPrice(0.03, 10_000, "request with a customer key", _KMS),
}

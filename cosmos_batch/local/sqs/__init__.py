"""SQS: how messages are taken from a queue."""

"""The words of an uploaded file."""

import boto3


def handler(event, _context):
    """Return the words of the file of an S3 event, in lower case, with a space between each two."""
    place = event["detail"]
    body = boto3.client("s3").get_object(Bucket=place["bucket"]["name"], Key=place["object"]["key"])["Body"]
    return " ".join(body.read().decode().lower().split())

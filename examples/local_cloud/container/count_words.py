"""Count the words of the first argument; write the counts into the bucket, beside the key of the second."""

import collections
import json
import os
import sys

import boto3

counts = collections.Counter(sys.argv[1].split())
key = sys.argv[2].replace("texts/", "counts/")
boto3.client("s3").put_object(Bucket=os.environ["BUCKET"], Key=key, Body=json.dumps(counts))
print(f"counted {counts.total()} words into {key}")

"""Write the Hugging Face token of a configuration into the deployed secret.

`cdk deploy` runs this, as `infra/constructs/hugging_face_token.py` says; it stands here because synthesis must not
import boto3.

    python put_secret.py CONFIG_FILE STORAGE_STACK

CDK takes what this prints for the path of an asset that it uploads: an empty archive. The token is never printed.
"""

import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import boto3

from cosmos_batch.planning.configuration import load_config

OUTPUT = "HuggingFaceTokenSecretArn"  # an output of the storage stack


def main(config_file: str, storage_stack: str) -> None:
    """Write the token, print the path of an empty archive."""
    token = load_config(Path(config_file)).cosmos.hugging_face_token.get_secret_value()
    # Where CDK deploys to: boto3 alone would not look at AWS_REGION.
    session = boto3.Session(region_name=os.environ.get("AWS_REGION"))
    put(session.client("secretsmanager"), secret_arn(session.client("cloudformation"), storage_stack), token)
    print(empty_archive())


def secret_arn(cloudformation: Any, stack: str) -> str:
    """Return the ARN of the secret, from the outputs of the stack that has it."""
    outputs = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["Outputs"]
    arn: str = next(output["OutputValue"] for output in outputs if output["OutputKey"] == OUTPUT)
    return arn


def put(secretsmanager: Any, arn: str, token: str) -> None:
    """Make `token` the secret's value, unless it is: every value is a version that stays for a while."""
    try:
        if secretsmanager.get_secret_value(SecretId=arn)["SecretString"] == token:
            return
    except secretsmanager.exceptions.ResourceNotFoundException:
        pass  # the secret has no value yet
    secretsmanager.put_secret_value(SecretId=arn, SecretString=token)


def empty_archive() -> Path:
    """Write a zip file without content, and return its path."""
    path = Path(tempfile.mkdtemp(prefix="cosmos-batch-")) / "empty.zip"
    zipfile.ZipFile(path, "w").close()
    return path


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The Hugging Face token's way into its secret: past the template, past `cdk.out`, past the log."""

import sys
from pathlib import Path
from uuid import uuid4

from aws_cdk import Stack

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "put_secret.py"


def put_token_at_deployment(stack: Stack, config_file: Path, storage_stack: str) -> None:
    """Have `cdk deploy` run `scripts/put_secret.py` before this stack is deployed.

    It is declared as a file asset that a command makes: CDK runs the command when it publishes the assets, after the
    stacks that this one depends on, with the environment of the person who deploys. Synthesis only notes the command.
    The hash is another one each time, for an asset that is known already would not be made.
    """
    stack.synthesizer.add_file_asset(
        executable=[sys.executable, str(SCRIPT), str(config_file.resolve()), storage_stack],
        source_hash=uuid4().hex,
    )

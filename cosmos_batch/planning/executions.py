"""Compute the names and ARNs of the state machine's executions."""

import hashlib
import json
import re


def execution_name(pipeline: str, *identity: str) -> str:
    """Return the name of a request's execution. It is the same for the same request, and has at most 80 characters.

    `pipeline` may be what a person typed. Characters that a name must not have are left out; the digest covers them.
    """
    digest = hashlib.sha256(json.dumps([pipeline, *identity]).encode()).hexdigest()
    return f"{re.sub('[^A-Za-z0-9_-]', '', pipeline)[:40]}-{digest[:32]}"


def execution_arn(machine_arn: str, name: str) -> str:
    """Return the ARN of an execution of a state machine."""
    return f"{machine_arn.replace(':stateMachine:', ':execution:')}:{name}"

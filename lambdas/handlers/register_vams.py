"""`register_vams`: the custom resource that registers a pipeline with VAMS, and takes it back when it is deleted."""

from typing import Any

from lambdas.vams.registration import change_registration


def handler(event: dict[str, Any], _context: object) -> None:
    """Handle a request of CloudFormation."""
    change_registration(event)

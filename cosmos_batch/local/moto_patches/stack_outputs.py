"""References to another stack's outputs.

AWS: ``Fn::GetStackOutput`` is the value that an output of another stack has when the stack is created or updated.

moto: does not know the function.

Mend: the output is looked up.
"""

from __future__ import annotations

from typing import Any

from moto.cloudformation import models, parsing
from moto.cloudformation.exceptions import ValidationError

from cosmos_batch.local.runtime import ACCOUNT, REGION

FUNCTION = "Fn::GetStackOutput"


def apply() -> None:
    """Install the mend."""
    clean = parsing.clean_json

    def clean_json(value: Any, resources: Any) -> Any:
        if isinstance(value, dict) and FUNCTION in value:
            return _output(value[FUNCTION]["StackName"], value[FUNCTION]["OutputName"])
        return clean(value, resources)

    parsing.clean_json = clean_json


def _output(stack_name: str, output_name: str) -> Any:
    for stack in models.cloudformation_backends[ACCOUNT][REGION].stacks.values():
        for output in stack.outputs or []:
            if stack.name == stack_name and output["OutputKey"] == output_name:
                return output["OutputValue"]
    raise ValidationError(message=f"Stack {stack_name} has no output {output_name}.")

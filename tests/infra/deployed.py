"""Compute what a template's values become when it is deployed: texts as long as those of CloudFormation.

CloudFormation calls a resource that has no name `<stack>-<logical id>-<suffix>`, cut where the service allows less;
AWS Batch has the logical id and a suffix of 16 characters.
"""

import json
from typing import Any

from tests.infra.assembly import Resource

ACCOUNT, PARTITION, SUFFIX = "123456789012", "aws", "amazonaws.com"
LONGEST_REGION = "ap-southeast-1"  # as long as any region's name with g6e
RANDOM, RANDOM_OF_BATCH = "0A1B2C3D4E5F6", "0a1B2c3D4e5F6g7H"
LONGEST_NAME = {
    "AWS::Events::Rule": 64,
    "AWS::IAM::Role": 64,
    "AWS::Lambda::Function": 64,
    "AWS::S3::Bucket": 63,
    "AWS::SQS::Queue": 80,
}
# What `Ref` is, where it is not the name.
REFERENCES = {
    "AWS::SQS::Queue": "https://sqs.{region}.{suffix}/{account}/{name}",
    "AWS::StepFunctions::StateMachine": "arn:{partition}:states:{region}:{account}:stateMachine:{name}",
    "AWS::Batch::JobQueue": "arn:{partition}:batch:{region}:{account}:job-queue/{name}",
    "AWS::Batch::JobDefinition": "arn:{partition}:batch:{region}:{account}:job-definition/{name}:1000",
}
ARNS = {
    "AWS::Batch::JobQueue": REFERENCES["AWS::Batch::JobQueue"],
    "AWS::DynamoDB::Table": "arn:{partition}:dynamodb:{region}:{account}:table/{name}",
    "AWS::Events::Rule": "arn:{partition}:events:{region}:{account}:rule/{name}",
    "AWS::IAM::Role": "arn:{partition}:iam::{account}:role/{name}",
    "AWS::Logs::LogGroup": "arn:{partition}:logs:{region}:{account}:log-group:{name}:*",
    "AWS::S3::Bucket": "arn:{partition}:s3:::{name}",
    "AWS::SQS::Queue": "arn:{partition}:sqs:{region}:{account}:{name}",
    "AWS::StepFunctions::StateMachine": REFERENCES["AWS::StepFunctions::StateMachine"],
}


class Deployed:
    """The templates of an app by the names of their stacks, as one region resolves them."""

    def __init__(self, templates: dict[str, dict[str, Any]], region: str = LONGEST_REGION) -> None:
        self._templates = templates
        self._region = region

    def text(self, stack: str, value: Any) -> str:
        """Return a property of a stack's template as the service reads it."""
        if not isinstance(value, dict):
            return str(value)
        ((function, argument),) = value.items()
        if function == "Fn::Join":
            return str(argument[0]).join(self.text(stack, part) for part in argument[1])
        if function == "Ref":
            return self._reference(stack, argument)
        if function == "Fn::GetAtt":
            return self._attribute(stack, *argument)
        if function == "Fn::ImportValue":
            return self._exported(argument)
        if function == "Fn::Select":
            index, (separator, joined) = argument[0], argument[1]["Fn::Split"]
            return self.text(stack, joined).split(separator)[int(index)]
        raise LookupError(f"This helper does not resolve {function} of {stack} yet.")

    def document(self, stack: str, value: Any) -> Any:
        """Return a property that is a JSON document, such as a policy, as the service reads it."""
        if isinstance(value, list):
            return [self.document(stack, one) for one in value]
        if isinstance(value, dict) and not any(key == "Ref" or key.startswith("Fn::") for key in value):
            return {key: self.document(stack, one) for key, one in value.items()}
        return self.text(stack, value)

    def _reference(self, stack: str, name: str) -> str:
        pseudo = {"AWS::Region": self._region, "AWS::AccountId": ACCOUNT, "AWS::Partition": PARTITION}
        pseudo |= {"AWS::URLSuffix": SUFFIX, "AWS::StackName": stack}
        return pseudo[name] if name in pseudo else self._fill(stack, name, REFERENCES)

    def _attribute(self, stack: str, name: str, attribute: str) -> str:
        if attribute in ("Arn", "JobQueueArn"):
            return self._fill(stack, name, ARNS)
        if attribute == "QueueName":
            return self._fill(stack, name, {})
        raise LookupError(f"This helper does not resolve {attribute} of {name} yet.")

    def _fill(self, stack: str, name: str, patterns: dict[str, str]) -> str:
        resource: Resource = self._templates[stack]["Resources"][name]
        pattern = patterns.get(resource["Type"], "{name}")
        return pattern.format(
            region=self._region,
            account=ACCOUNT,
            partition=PARTITION,
            suffix=SUFFIX,
            name=_physical_name(stack, name, resource["Type"]),
        )

    def _exported(self, export: str) -> str:
        for stack, template in self._templates.items():
            for output in template.get("Outputs", {}).values():
                if output.get("Export", {}).get("Name") == export:
                    return self.text(stack, output["Value"])
        raise KeyError(export)


def size_of_environment(variables: dict[str, str]) -> int:
    """Return a function's variables in bytes as Lambda measures them against its 4 KB: as JSON, with escaped quotes."""
    return len(json.dumps(variables, separators=(",", ":"), ensure_ascii=False).encode())


def _physical_name(stack: str, logical_id: str, resource_type: str) -> str:
    if resource_type.startswith("AWS::Batch::"):
        return f"{logical_id[:111]}-{RANDOM_OF_BATCH}"
    return f"{stack}-{logical_id}"[: LONGEST_NAME.get(resource_type, 255) - len(RANDOM) - 1] + f"-{RANDOM}"

"""A stand-in for the AWS CLI: it makes one API call and prints the answer as JSON or text.

aws [--region R] [--output json|text] [--query JMESPATH] SERVICE OPERATION [--option VALUE ...]

Options are the members of the call in kebab case; their values are texts, numbers, JSON, or the shorthand
``name=value,name=value``, several of which make a list. There is no ``aws s3``, which is no API.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import boto3
import jmespath
from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError
from botocore.model import ListShape, Shape, StructureShape

_GLOBAL = {"--region": None, "--output": "json", "--query": None}
_ALIASES = {"s3api": "s3"}
_COMMAND_ERROR, _USAGE_ERROR = 254, 252


class UsageError(ValueError):
    """The command line of `aws` is wrong; the message says how."""


def main(argv: list[str]) -> int:
    """Make the call; return the exit status."""
    try:
        options, words = _split(argv)
        if len(words) < 2:
            raise UsageError("usage: aws SERVICE OPERATION [--option VALUE ...]")
        client = boto3.client(_ALIASES.get(words[0], words[0]), region_name=options["--region"])
        if words[1] == "get-login-password":
            print(_login_password(client))
            return 0
        answer = _call(client, words[1], words[2:])
    except UsageError as error:
        print(f"aws: [ERROR]: {error}", file=sys.stderr)
        return _USAGE_ERROR
    except (BotoCoreError, ClientError) as error:
        print(f"\naws: [ERROR]: {error}", file=sys.stderr)
        return _COMMAND_ERROR
    _print(jmespath.search(options["--query"], answer) if options["--query"] else answer, options["--output"])
    return 0


def _split(argv: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Separate the options of every command from the other words."""
    options, words = dict[str, Any](_GLOBAL), list[str]()
    waiting = iter(argv)
    for word in waiting:
        if word in _GLOBAL:
            options[word] = next(waiting, "")
        elif word != "--no-cli-pager":
            words.append(word)
    return options, words


def _login_password(client: Any) -> str:
    data = client.get_authorization_token()["authorizationData"]
    token = (data[0] if isinstance(data, list) else data)["authorizationToken"]
    return base64.b64decode(token).decode().partition(":")[2]


def _call(client: Any, operation: str, words: list[str]) -> dict[str, Any]:
    name = operation.replace("-", "_")
    if name not in client.meta.method_to_api_mapping:
        raise UsageError(f"{client.meta.service_model.service_name} has no operation {operation}")
    shape = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[name]).input_shape
    members = {xform_name(member, "-"): member for member in (shape.members if shape else {})}
    options = _options(words)
    unknown = options.keys() - members.keys()
    if unknown:
        raise UsageError(f"Unknown options: --{', --'.join(sorted(unknown))}")
    arguments = {members[option]: _value(shape.members[members[option]], values) for option, values in options.items()}
    answer = getattr(client, name)(**arguments)
    return {member: value for member, value in answer.items() if member != "ResponseMetadata"}


def _options(words: list[str]) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    values: list[str] = []
    for word in words:
        if word.startswith("--"):
            values = options.setdefault(word[2:], [])
        elif options:
            values.append(word)
        else:
            raise UsageError(f"Unknown argument: {word}")
    return options


def _value(shape: Shape, words: list[str]) -> Any:
    if len(words) == 1 and words[0][:1] in ("{", "["):
        return json.loads(words[0])
    if isinstance(shape, ListShape):
        return [_value(shape.member, [word]) for word in words]
    if shape.type_name == "boolean":
        return words in ([], ["true"])
    [word] = words or [""]
    if isinstance(shape, StructureShape):
        pairs = (pair.partition("=") for pair in word.split(","))
        return {name: _value(shape.members[name], [value]) for name, _, value in pairs if name in shape.members}
    return int(word) if shape.type_name in ("integer", "long") else word


def _print(answer: Any, output: str) -> None:
    if output == "json":
        print(json.dumps(answer, indent=4, default=str))
        return
    rows = answer if isinstance(answer, list) else [answer]
    # As text, a list of values is one line, and a null is the word None.
    print("\t".join("None" if value is None else str(value) for value in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Checking a value against a JSON Schema. A check that may take long runs this module as a program, in a process that
can be killed: it reads value and schema from its input and prints the problem."""

import json
import subprocess
import sys
from itertools import islice
from typing import Any

from cosmos_batch.contract.json_schema import Schema

_ERRORS = 100  # errors of one value among which the most helpful is chosen
# The time of a check is bounded by the product of both sizes in bytes: 128 MiB took 8 s in the worst case.
_QUICK = 128 << 20
CHECK_SECONDS = 20


class CheckTooSlow(Exception):  # noqa: N818 - it says what happened
    """A check took longer than `CHECK_SECONDS` and was stopped."""


def schema_problem(value: Any, schema: Schema) -> str | None:
    """Return why a parsed value does not fit a schema; None if it fits. Raises CheckTooSlow."""
    if len(json.dumps(value)) * len(json.dumps(schema)) <= _QUICK:
        return _problem(value, schema)
    try:
        checked = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps([value, schema]),
            capture_output=True,
            text=True,
            timeout=CHECK_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise CheckTooSlow from error
    problem: str | None = json.loads(checked.stdout)
    return problem


def _problem(value: Any, schema: Schema) -> str | None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    try:
        error = best_match(islice(Draft202012Validator(schema).iter_errors(value), _ERRORS))
    except (ArithmeticError, ValueError) as impossible:  # numbers too large to divide, for `multipleOf`
        return f"its JSON cannot be checked against the schema: {impossible}"
    return None if error is None else f"its JSON does not fit the schema at {error.json_path}: {error.message}"


if __name__ == "__main__":
    print(json.dumps(_problem(*json.load(sys.stdin))))

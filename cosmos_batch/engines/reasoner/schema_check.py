"""What keeps a value from fitting a JSON Schema. As a program, it reads both from its input and prints the answer: a
check that may take long has a process of its own, which can be ended."""

import json
import subprocess
import sys
from itertools import islice
from typing import Any

from cosmos_batch.contract.json_schema import Schema

_ERRORS = 100  # of one value, among which the one to tell is sought
# Bytes of a schema times those of a value, which bounds the time of checking: 128 MiB took 8 s at the worst.
_QUICK = 128 << 20
CHECK_SECONDS = 20


class CheckTooSlow(Exception):  # noqa: N818 - it says what happened
    """Nobody knows whether the value fits."""


def misfit(value: Any, schema: Schema) -> str | None:
    """What keeps a parsed value from fitting; None where it fits. Raises CheckTooSlow."""
    given = json.dumps([value, schema])
    if len(json.dumps(value)) * len(json.dumps(schema)) <= _QUICK:
        return _misfit(value, schema)
    try:
        checked = subprocess.run(
            [sys.executable, "-m", __name__],
            input=given,
            capture_output=True,
            text=True,
            timeout=CHECK_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise CheckTooSlow from error
    found: str | None = json.loads(checked.stdout)
    return found


def _misfit(value: Any, schema: Schema) -> str | None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    try:
        error = best_match(islice(Draft202012Validator(schema).iter_errors(value), _ERRORS))
    except (ArithmeticError, ValueError) as impossible:  # numbers that no processor divides
        return f"its JSON cannot be checked against the schema: {impossible}"
    return None if error is None else f"its JSON does not fit the schema at {error.json_path}: {error.message}"


if __name__ == "__main__":
    print(json.dumps(_misfit(*json.load(sys.stdin))))

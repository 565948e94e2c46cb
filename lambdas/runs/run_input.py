"""Read the input of an execution that asks for a run, which the command line, VAMS or a person wrote."""

import hashlib
import re

from pydantic import ValidationError

from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.runs import RUN_ID, RunPrefix, RunStart

EXAMPLE = '{"run": {"prefix": "s3://my-bucket/folder/", "prompt": "What happens?"}}'


def is_run(request: object) -> bool:
    """Return whether an execution's input asks for a run."""
    return isinstance(request, dict) and "run" in request


def run_id_of(request: object, execution: str) -> str:
    """Return the id of the run that an execution's input asks for; that of a prefix is the execution's name.

    A name with other characters than a run's id may have is replaced by its digest.
    """
    run = request.get("run") if isinstance(request, dict) else None
    named = run.get("id") if isinstance(run, dict) else None
    if isinstance(named, str):
        return named
    return execution if re.match(RUN_ID, execution) else f"run-{hashlib.sha256(execution.encode()).hexdigest()[:32]}"


def read_run(request: object) -> RunStart | RunPrefix:
    """Read the `run` of an execution's input. Raises Failure (InvalidInput) that names each wrong field."""
    run = request.get("run") if isinstance(request, dict) else None
    if not isinstance(run, dict):
        raise Failure("InvalidInput", "run: is not a JSON object.", f"Start with an input such as {EXAMPLE}")
    try:
        return RunStart.model_validate(run) if "id" in run else RunPrefix.model_validate(run)
    except ValidationError as error:
        raise Failure("InvalidInput", explain(error), f"An input looks like {EXAMPLE}") from error

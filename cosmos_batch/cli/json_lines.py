"""Print what commands find or do as JSON for scripts: an object for each job, on a line of its own."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from cosmos_batch.cli.command_line import option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import FAILED, CliError, StillRunning, WrongCall, explain
from cosmos_batch.cli.job_result import JobResult, not_saved, print_error, read_document, save_files
from cosmos_batch.cli.messages import warn
from cosmos_batch.cli.output import OutputTarget

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def json_option(fields: str) -> Callable[[Decorated], Decorated]:
    """Add `--json` to a command. `fields` names the fields of each object."""
    return option("--json", "as_json", is_flag=True, help=f"Print a JSON object for each job, on a line: {fields}.")


result_json_option = json_option("id, error, documentUri, document, saved")


def refuse_with_json(as_json: bool, **others: object) -> None:
    """Raise WrongCall if another option that prints something else is set beside `--json`."""
    for name, value in others.items():
        if as_json and value:
            raise WrongCall(f"--json and --{name} do not go together.", "Leave one of them out.")


def print_line(**fields: Any) -> None:
    """Print one object."""
    print(json.dumps(fields, ensure_ascii=False), flush=True)


def print_missing_result_line(job_id: str, error: CliError) -> None:
    """Print the object of a job whose result cannot be read, or is not there yet."""
    code = "NotEnded" if isinstance(error, StillRunning) else "NotRead"
    described = {"code": code, "message": error.message, "remedy": error.remedy}
    print_line(id=job_id, error=described, documentUri=None, document=None, saved=[])


def print_result_line(deployment: Deployment, result: JobResult, target: OutputTarget | None) -> int:
    """Print a job's result, having saved it if there is a target. Returns the exit status.

    The error of the job or of saving it is in the object, and printed with its remedy.
    """
    error, saved, status = None, list[str](), 0
    if result.error is not None:
        error, status = result.error.model_dump(mode="json"), print_error(result.error)
    document = None if result.document_uri is None else json.loads(read_document(deployment, result.document_uri))
    if target is not None and result.error is None:
        try:
            saved = [str(path) for path in save_files(deployment, result, target)]
        except (OSError, CliError) as failure:
            problem = not_saved(result, failure) if isinstance(failure, OSError) else failure
            error = {"code": "NotSaved", "message": problem.message, "remedy": problem.remedy}
            warn(f"error: {explain(problem)}")
            status = FAILED
    print_line(id=result.job_id, error=error, documentUri=result.document_uri, document=document, saved=saved)
    return status

"""Refuse inputs that `run` or `generate` could not answer in a local cloud of its own, before it starts that."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.reasoner_request import ReasonerRequest
from cosmos_batch.cli.request_checks import Problems
from cosmos_batch.cli.runs.inputs import InputCounts
from cosmos_batch.cli.runs.local_inputs import taken_files
from cosmos_batch.cli.runs.manifest_lines import lines_of, opened
from cosmos_batch.cli.runs.sources import has_own_questions, line_as_json
from cosmos_batch.contract.runs import RunRequest
from cosmos_batch.planning.questions import refuse_unseen_files
from cosmos_batch.planning.runs.item_checks import RunRules
from cosmos_batch.planning.runs.line_problems import WrongLine
from cosmos_batch.planning.runs.manifest import read_line
from cosmos_batch.planning.runs.other_files import other_files
from cosmos_batch.planning.runs.selection import Selection
from cosmos_batch.planning.runs.sweep import Sweep
from cosmos_batch.planning.runs.web_addresses import WebAddresses

_BUCKET = "bucket"  # stands for the bucket that the cloud will have
_SUBMIT = "cosmos-batch submit"

InputCheck = Callable[[], object]


def refuse_before_own_cloud(
    names: Sequence[str],
    request: ReasonerRequest,
    pipeline: str,
    engine: str,
    hosts: Sequence[str],
    skip_invalid: bool,
) -> None:
    """Raise WrongCall that names all inputs that a pipeline with this engine could not answer in a cloud of its own.

    It is also raised if there are no inputs. Files may be copied from the https addresses of `hosts`. Inputs that may
    be skipped are left to the plan of the run, which names them.
    """
    rules = RunRules(
        RunRequest(id="unsent", pipelines=[pipeline], prompt=request.prompt, parameters=request.parameters),
        Sweep(),
        roots=None,
        web=WebAddresses(hosts, _BUCKET),
        engines={pipeline: engine},
    )
    problems, valid = Problems(), 0
    for name in request.parameters.more_inputs or []:
        if name.startswith("s3://"):
            problems.check(name, partial(refuse_object, name, _SUBMIT))
    problems.raise_all()  # further inputs are never left out
    for name, check in _checks(names, rules, engine):
        valid += problems.check(name, check) is not None
    if not (skip_invalid and valid):
        problems.raise_all("--skip-invalid goes on with the others." if valid else None)
    if not valid:
        InputCounts().refuse_wrong_lines(skip_invalid)


def _checks(names: Sequence[str], rules: RunRules, engine: str) -> Iterator[tuple[str, InputCheck]]:
    """Yield the name of each input, and a function that returns something or raises what is wrong with it."""
    more = rules.request.parameters.more_inputs or []
    for name in names:
        if name.startswith("s3://"):
            yield name, partial(refuse_object, name, _SUBMIT)
        elif has_own_questions(name):
            yield from _checks_of_lines(name, rules)
        else:
            for file in _files(Path(name).expanduser()):
                yield str(file), partial(_check_file, engine, str(file), more)


def _files(path: Path) -> Iterator[Path]:
    """Yield the files that a run takes from a folder, or the one that is named."""
    if not path.is_dir():
        yield path
        return
    for file in taken_files(path, Selection(), InputCounts()):
        yield file.path


def _check_file(engine: str, name: str, more: Sequence[str]) -> bool:
    refuse_unseen_files(engine, name, more)
    return True


def refuse_object(name: str, instead: str) -> None:
    """Raise WrongCall for a file in S3; `instead` is the command that asks about it in the cloud that has it."""
    raise WrongCall(
        f"{name} lies in S3, and this command starts a local cloud of its own, whose buckets are empty.",
        f"Name files of this machine; or ask in the cloud that has it: {instead}",
    )


def _checks_of_lines(name: str, rules: RunRules) -> Iterator[tuple[str, InputCheck]]:
    """Yield the lines of a manifest."""
    with opened(name, None) as read:
        for number, line in lines_of(read):
            yield f"{name}, line {number}", partial(_check_line, name, number, line, rules)


def _check_line(name: str, number: int, line: bytes, rules: RunRules) -> bool:
    try:
        item = read_line(line_as_json(line), rules)
    except WrongLine as error:
        problems = (str(problem.at(name, number)) for problem in error.problems)
        raise WrongCall("\n".join(problems), "Correct each as its line says.") from error
    asked_of_all = rules.request.parameters.more_inputs or []  # which were checked, and may be files of this machine
    own = [file.name for file in other_files(item.parameters, None) if file.name not in asked_of_all]
    absent = Problems()
    for file in [*([] if item.input is None else [item.input]), *own]:
        if not file.startswith(rules.web.folder):
            absent.check(file, partial(refuse_object, f"{name}, line {number}: {file}", _SUBMIT))
    absent.raise_all()
    return True

"""Read the inputs of a run from everything that a person can name: prefixes, folders, files, manifests, inventories."""

import codecs
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.input_checks import checked_folder, checked_path, checked_source_uri
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.robot_inputs import is_data_set
from cosmos_batch.cli.runs.inputs import InputCounts, ListedInput
from cosmos_batch.cli.runs.local_inputs import LocalUploads
from cosmos_batch.cli.runs.manifest_lines import STANDARD_INPUT, lines_of, opened
from cosmos_batch.cli.runs.s3_inputs import NamedObjects, below_prefix
from cosmos_batch.cli.runs.s3_inventory import is_inventory, listed_by_inventory
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.contract.s3 import S3Location, parse_uri
from cosmos_batch.planning.input_files import refuse_outside
from cosmos_batch.planning.runs.item_checks import RunRules
from cosmos_batch.planning.runs.line_problems import FieldProblem, LineProblem, WrongLine
from cosmos_batch.planning.runs.manifest import read_line
from cosmos_batch.planning.runs.other_files import other_files
from cosmos_batch.planning.runs.selection import Selection

MANIFEST = ".jsonl"


class Sources:
    """Reads the sources of a run, one after the other."""

    def __init__(
        self,
        deployment: Deployment,
        selection: Selection,
        rules: RunRules,
        input_counts: InputCounts,
        uploads: LocalUploads,
    ) -> None:
        self._s3 = deployment.clients("s3")
        self._selection = selection
        self._rules = rules
        self._input_counts = input_counts
        self._uploads = uploads
        self._roots = deployment.asset_roots
        shared = [file.name for file in other_files(rules.request.parameters, rules.request.generation)]
        self._named = NamedObjects(self._s3, input_counts, rules.web.folder, shared)

    @property
    def unchecked(self) -> int:
        """Return how many named objects were not looked at, because there are too many."""
        return self._named.unchecked

    def inputs(self, names: Sequence[str]) -> Iterator[ListedInput]:
        """Yield the inputs that the names stand for. What is wrong with one of them is reported, and it is left out."""
        home = next((_location(name).bucket for name in names if name.startswith("s3://")), "")
        for name in [name for name in names if not is_single_file(name)]:
            yield from self._of_source(name, home)
        singles = [name for name in names if is_single_file(name)]
        paths = [path for name in singles if not name.startswith("s3://") for path in self._checked(name, checked_path)]
        if paths:
            yield from self._uploads.files(paths, self._input_counts)
        uris = (name for name in singles if name.startswith("s3://"))
        yield from self._named.checked(self._objects(uris, home))

    def _of_source(self, name: str, home: str) -> Iterator[ListedInput]:
        if has_own_questions(name):
            yield from self._named.checked(self._lines(name))
        elif is_inventory(name):
            yield from listed_by_inventory(self._s3, parse_uri(name), self._selection, self._input_counts, home)
        elif name.startswith("s3://"):
            yield from self._below_prefix(parse_uri(name), home)
        else:
            if is_data_set(name):
                inform(
                    f"{name} is a LeRobot data set, and its video files are taken as they are. To ask about its "
                    f"episodes: cosmos-batch submit {name} --episode all"
                )
            for folder in self._checked(name, checked_folder):
                yield from self._uploads.folder(folder, self._selection, self._input_counts)

    def _below_prefix(self, prefix: S3Location, home: str) -> Iterator[ListedInput]:
        try:
            refuse_outside("prefix", prefix, self._roots)
        except Failure as failure:
            self._input_counts.refuse(FieldProblem.of("prefix", failure).at(prefix.uri, 0))
        else:
            yield from below_prefix(self._s3, prefix, self._selection, self._input_counts, home)

    def _lines(self, name: str) -> Iterator[ListedInput]:
        """Yield the requests of a manifest, in which a line may also be the URI of a file alone."""
        source = "standard input" if name == STANDARD_INPUT else name
        with opened(name, self._s3) as read:
            for number, line in lines_of(read):
                try:
                    item = read_line(line_as_json(line), self._rules)
                except WrongLine as error:
                    for problem in error.problems:
                        self._input_counts.refuse(problem.at(source, number))
                else:
                    yield ListedInput(item, source, number)

    def _objects(self, uris: Iterator[str], home: str) -> Iterator[ListedInput]:
        for uri in uris:
            try:
                bucket, key = parse_uri(checked_source_uri(uri))
            except WrongCall as error:
                self._input_counts.refuse(LineProblem(uri, 0, "", error.message, error.remedy))
            else:
                yield ListedInput(RunItem(id=key if bucket == home else uri, input=uri), uri, 0)

    def _checked(self, name: str, check: Callable[[str], Path]) -> Iterator[Path]:
        """Yield what `check` returns for a file or folder of this machine; what it raises is reported."""
        try:
            yield check(name)
        except WrongCall as error:
            self._input_counts.refuse(LineProblem(name, 0, "", error.message, error.remedy))
        except Failure as failure:
            self._input_counts.refuse(LineProblem(name, 0, "", failure.error.message, failure.error.remedy))


def line_as_json(line: bytes) -> bytes:
    """Return a line that is a URI alone as the JSON that stands for it.

    The first one may begin with the byte order mark that programs of Windows write.
    """
    line = line.removeprefix(codecs.BOM_UTF8)
    if not line.startswith(b"s3://"):
        return line
    return json.dumps({"input": line.decode(errors="replace").strip()}).encode()


def has_own_questions(name: str) -> bool:
    """Return whether a source is a list of requests, each of which may have a prompt and parameters of its own."""
    return name == STANDARD_INPUT or name.endswith(MANIFEST)


def is_single_file(name: str) -> bool:
    """Return whether a name is that of one file, and of no list or folder of files."""
    if has_own_questions(name) or is_inventory(name):
        return False
    if name.startswith("s3://"):
        key = _location(name).key
        return key != "" and not key.endswith("/")
    return not Path(name).expanduser().is_dir()


def _location(uri: str) -> S3Location:
    try:
        return parse_uri(uri)
    except ValueError as error:
        raise WrongCall(f"{uri}: {error}.", "Write it as S3 shows it, not URL-encoded.") from error

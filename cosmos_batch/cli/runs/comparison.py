"""Compare the answers of two runs in a database on disk, so that runs of any size take the same memory."""

import json
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import ResultLine

KeyKind = Literal["id", "input"]
Side = Literal["first", "second"]
Change = Literal["changed", "fails now", "is answered now", "only in the first", "only in the second"]

SAME, FAILS_IN_BOTH = "same", "fails in both"

_TABLE = """
CREATE TABLE items (
    key TEXT PRIMARY KEY, input TEXT,
    first TEXT, first_answer TEXT, first_error TEXT, first_compared TEXT,
    second TEXT, second_answer TEXT, second_error TEXT, second_compared TEXT
) WITHOUT ROWID
"""
_VIEW = """
CREATE VIEW compared AS SELECT *, CASE
    WHEN first IS NULL THEN 'only in the second'
    WHEN second IS NULL THEN 'only in the first'
    WHEN first_error IS NULL AND second_error IS NOT NULL THEN 'fails now'
    WHEN first_error IS NOT NULL AND second_error IS NULL THEN 'is answered now'
    WHEN first_error IS NOT NULL THEN 'fails in both'
    WHEN first_compared IS second_compared THEN 'same'
    ELSE 'changed' END AS change
FROM items
"""


@dataclass(frozen=True)
class ComparedItem:
    """The end of an item in one of the two compared runs: an answer, files, or the code of an error."""

    id: str
    answer: str | None
    error: str | None


@dataclass(frozen=True)
class Difference:
    """An item that two runs answer differently. An end is None where the run has no such item."""

    id: str
    input: str | None
    change: Change
    first: ComparedItem | None
    second: ComparedItem | None

    def to_json(self) -> dict[str, Any]:
        """Return all fields by their names."""
        return asdict(self)


class RunComparison:
    """The items of two runs side by side. Items belong together by their ids, or by their files and variants."""

    def __init__(self, database: Path, by: KeyKind) -> None:
        self._database = sqlite3.connect(database)
        self._by = by
        self._database.execute(_TABLE)
        self._database.execute(_VIEW)

    def close(self) -> None:
        """Close the database, whose file can then be deleted."""
        self._database.close()

    def add(self, side: Side, lines: Iterable[ResultLine], with_pipeline: bool) -> None:
        """Add the items of one run. `with_pipeline` tells answers of several pipelines to one item apart.

        Raises CliError where two items of the run have the same key.
        """
        insert = f"""
            INSERT INTO items (key, input, {side}, {side}_answer, {side}_error, {side}_compared)
            VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (key) DO UPDATE SET {side} = excluded.{side}, {side}_answer = excluded.{side}_answer,
            {side}_error = excluded.{side}_error, {side}_compared = excluded.{side}_compared WHERE {side} IS NULL
        """  # noqa: S608 - `side` is one of two words
        with self._database:
            for line in lines:
                error = line.error and line.error.code
                values = (_key(line, self._by, with_pipeline), line.input, line.id, line.answer, error, _compared(line))
                if self._database.execute(insert, values).rowcount == 0:
                    raise _ambiguous(line, self._by)

    def counts(self) -> dict[str, int]:
        """Return how many items there are of each kind of change, and how many are the same."""
        return dict(self._database.execute("SELECT change, count(*) FROM compared GROUP BY change ORDER BY change"))

    def differences(self) -> Iterator[Difference]:
        """Yield the items that differ, in the order of their keys."""
        rows = self._database.execute(
            "SELECT input, change, first, first_answer, first_error, second, second_answer, second_error "
            "FROM compared WHERE change NOT IN (?, ?) ORDER BY key",
            (SAME, FAILS_IN_BOTH),
        )
        for uri, change, first, first_answer, first_error, second, second_answer, second_error in rows:
            yield Difference(
                id=first or second,
                input=uri,
                change=change,
                first=ComparedItem(first, first_answer, first_error) if first else None,
                second=ComparedItem(second, second_answer, second_error) if second else None,
            )


@contextmanager
def compared(first: StoredRun, second: StoredRun, by: KeyKind) -> Iterator[RunComparison]:
    """Compare two runs. Raises CliError where one of them does not exist, or items cannot be told apart."""
    requests = [run.request() for run in (first, second)]
    # Several pipelines answer an item each; one against another is a comparison of models.
    with_pipeline = all(len(request.pipelines) > 1 for request in requests)
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(RunComparison(Path(folder) / "runs.sqlite", by)) as comparison,
    ):
        comparison.add("first", first.lines(), with_pipeline)
        comparison.add("second", second.lines(), with_pipeline)
        yield comparison


def _key(line: ResultLine, by: KeyKind, with_pipeline: bool) -> str:
    name = [line.id] if by == "id" else [line.input, line.variant]
    return json.dumps([*name, line.pipeline if with_pipeline else None], sort_keys=True)


def _compared(line: ResultLine) -> str | None:
    """Return the part of an answer that is compared: its data, its text, or the contents of the generated files."""
    if line.data is not None:
        return json.dumps(line.data, sort_keys=True)
    if line.answer is not None:
        return line.answer.strip()
    # The first output is the document, which has times. A URI, of which no two items have the same, stands for a
    # content that an earlier release has not recorded.
    return json.dumps([output.sha256 or output.uri for output in line.outputs[1:]])


def _ambiguous(line: ResultLine, by: KeyKind) -> CliError:
    if by == "input":
        return CliError(f"Several items of a run are about {line.input}.", "Compare by id: leave out --by input.")
    return CliError(f"Several items of a run have the id {line.id}.", "Compare runs that asked the same pipelines.")

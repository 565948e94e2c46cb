"""The index answers while documents are replaced in it."""

from pathlib import Path
from threading import Event

from cosmos_batch.console.collection import Progress
from cosmos_batch.console.folder import FolderCollection
from cosmos_batch.console.index import DocumentIndex
from cosmos_batch.console.scope import Scope
from tests.support.console_documents import write_failure


def test_a_failure_that_is_removed_while_the_kinds_of_failures_are_read_is_no_error(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_failure(tmp_path / f"{name}.json", "InvalidInput", "The file is broken.", f"{name}.mp4")
    index = DocumentIndex(tmp_path / "index.sqlite", "")
    index.add(FolderCollection(Scope.of(tmp_path)).changes(Progress(), Event()))
    statements: list[str] = []

    def remove_before_the_second(statement: str) -> None:
        statements.append(statement)
        if len(statements) == 2:
            index.remove("")

    index._reader.set_trace_callback(remove_before_the_second)
    [group] = index.failures()
    assert group.count == 2 and group.example.startswith("a")
    index.remove("")
    assert index.failures() == []
    index.close()

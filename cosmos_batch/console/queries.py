"""Answering queries over the index: the ids of a result, and its first rows at once where a word is in nearly all.

FTS5 finds rare words quickly, and takes longer the more documents have a word. Of a result of more than `_FEW`
documents, the first rows are found by walking along an index and looking at each text, which is quick because every
few rows fit. All of its ids are collected meanwhile in a thread, and kept, so that scrolling asks for none twice.
"""

import sqlite3
from array import array
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from cosmos_batch.console.records import Query

_KEPT = 8  # results of queries whose ids are kept
_FEW = 2000  # documents of a result that are sorted while the page waits
_SHORTEST = 3  # characters of a word that the trigrams of FTS5 can find

_ORDERS = {
    "newest": "timestamp DESC, id DESC",
    "oldest": "timestamp, id",
    "name": "name, timestamp, id",
    "model": "model, name, id",
    "slowest": "duration DESC, id",
    "dearest": "dollars DESC, id",
    "score": "score DESC, id",
}
_Key = tuple[Query, int]


class Part(NamedTuple):
    """Some ids of a result, and the number of all. That is a lower limit as long as it is not exact."""

    ids: list[int]
    total: int
    exact: bool


class QueryResults:
    """The results of the last queries."""

    def __init__(self, file: Path) -> None:
        self._lock = Lock()
        self._file = file
        self._reader = connect(file)
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="query")
        self._kept: OrderedDict[_Key, Future[array[int]]] = OrderedDict()

    def close(self) -> None:
        """End the queries at work."""
        self._pool.shutdown(cancel_futures=True)
        self._reader.close()

    def part(self, query: Query, version: int, offset: int, limit: int) -> Part:
        """Return the ids of some rows of a result."""
        with self._lock:
            kept = self._result((query, version))
            if not kept.done() and _is_common(self._reader, query):
                return Part(_walk(self._reader, query, offset, limit), max(_FEW, offset + limit), exact=False)
        ids = kept.result()
        return Part(ids[offset : offset + limit].tolist(), len(ids), exact=True)

    def all(self, query: Query, version: int) -> list[int]:
        """Return all ids of a result."""
        with self._lock:
            kept = self._result((query, version))
        return kept.result().tolist()

    def _result(self, key: _Key) -> "Future[array[int]]":
        """Return the result of a query, which is collected if it was not asked for lately."""
        if key not in self._kept:
            self._kept[key] = self._pool.submit(_collect, self._file, key[0])
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def connect(file: Path) -> sqlite3.Connection:
    """Open the index. The file belongs to this process, and is gone with it."""
    connection = sqlite3.connect(file, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _collect(file: Path, query: Query) -> "array[int]":
    conditions, values = _filters(query)
    match, words = _match(query)
    select = f"SELECT id FROM items {_where([*match, *conditions])} ORDER BY {_ORDERS[query.sort]}"  # noqa: S608
    with closing(connect(file)) as connection:
        return array("q", (item for (item,) in connection.execute(select, [*words, *values])))


def _is_common(connection: sqlite3.Connection, query: Query) -> bool:
    """Return whether the words of a query are in more documents than are quickly sorted."""
    words = [word for word in _words(query) if len(word) >= _SHORTEST]
    if not words:
        return bool(query.search.strip())
    select = "SELECT COUNT(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return bool(connection.execute(select, (_quoted(words), _FEW)).fetchone()[0] >= _FEW)


def _walk(connection: sqlite3.Connection, query: Query, offset: int, limit: int) -> list[int]:
    """Return ids by looking at one document after the other in the order of the result."""
    conditions, values = _filters(query)
    words = _words(query)
    has_words = ["instr((SELECT text FROM words WHERE rowid = items.id), ?)"] * len(words)
    select = (
        f"SELECT id FROM items {_where([*conditions, *has_words])} "  # noqa: S608
        f"ORDER BY {_ORDERS[query.sort]} LIMIT ? OFFSET ?"
    )
    return [item for (item,) in connection.execute(select, [*values, *words, limit, offset])]


def _words(query: Query) -> list[str]:
    return list(dict.fromkeys(query.search.casefold().split()))


def _quoted(words: list[str]) -> str:
    return " AND ".join('"{}"'.format(word.replace('"', '""')) for word in words)


def _match(query: Query) -> tuple[list[str], list[str]]:
    """Return the conditions of a query's words, and their values."""
    conditions: list[str] = []
    values: list[str] = []
    words = _words(query)
    long = [word for word in words if len(word) >= _SHORTEST]
    if long:
        conditions.append("id IN (SELECT rowid FROM words WHERE words MATCH ?)")
        values.append(_quoted(long))
    for word in words:
        if len(word) < _SHORTEST:
            conditions.append("id IN (SELECT rowid FROM words WHERE instr(text, ?))")
            values.append(word)
    return conditions, values


def _filters(query: Query) -> tuple[list[str], list[str | float]]:
    """Return the conditions of a query besides its words, and their values."""
    conditions: list[str] = []
    values: list[str | float] = []
    if query.status:
        conditions.append(f"kind {'=' if query.status == 'failed' else '!='} 'error'")
    compared: tuple[tuple[str, str | float | None], ...] = (
        ("error_code = ?", query.error_code or None),
        ("model = ?", query.model or None),
        ("id IN (SELECT item FROM labels WHERE label = ?)", query.label or None),
        ("duration >= ?", query.min_seconds),
        ("duration <= ?", query.max_seconds),
        ("score >= ?", query.min_score),
        ("score <= ?", query.max_score),
    )
    for condition, value in compared:
        if value is not None:
            conditions.append(condition)
            values.append(value)
    return conditions, values


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""

"""Answering queries over the index: the ids of a result, and its first rows at once where a word is in nearly all.

FTS5 finds rare words quickly, and takes longer the more documents have a word. So the first documents of the result's
order are looked at one after the other. Where enough of them have the words, they are the answer, and all ids are
collected in a thread when the page asks again. Where too few have them, the words are so rare that FTS5 is quick. What
was collected is kept, so that scrolling searches for nothing twice.
"""

import json
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
_LOOKED_AT = 2000  # documents, the first of the order, whose texts are searched while the page waits
_SHORTEST = 3  # characters of a word that FTS5 finds by its trigrams
TEXT_END = "\n\n"  # of each text: with it, even the last letter begins a trigram
_TRIGRAMS = 500  # that may begin with a shorter word for FTS5 to look for all of them

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
    """One page of the ids of a result, and the total number. The total is a lower limit unless `exact` is true."""

    ids: list[int]
    total: int
    exact: bool


class QueryResults:
    """The results of the last queries, which are collected in threads.

    A query whose first rows suffice is answered at once, and has no collected result.
    """

    def __init__(self, file: Path) -> None:
        self._lock = Lock()
        self._file = file
        self._reader = connect(file)
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="query")
        self._kept: OrderedDict[_Key, Future[array[int]] | None] = OrderedDict()

    def close(self) -> None:
        """Drop the queries that wait, and close the reader when those under way have ended."""
        self._pool.shutdown(cancel_futures=True)
        self._reader.close()

    def part(self, query: Query, version: int, offset: int, limit: int) -> Part:
        """Return the ids of `limit` rows from `offset` on."""
        key = (query, version)
        with self._lock:
            part = self._part_of_first(key, offset, limit)
            if part is not None:
                return part
            collected = self._collected(key)
        ids = collected.result()
        return Part(ids[offset : offset + limit].tolist(), len(ids), exact=True)

    def all(self, query: Query, version: int) -> list[int]:
        """Return all ids of a result."""
        with self._lock:
            collected = self._collected((query, version))
        return collected.result().tolist()

    def _part_of_first(self, key: _Key, offset: int, limit: int) -> Part | None:
        """Return rows that are found among the first documents; None where too few are, or where all are collected."""
        query, is_new = key[0], key not in self._kept
        if not _words(query) or (not is_new and self._collected(key).done()):
            return None
        matching, is_all = _look_at_first(self._reader, query)
        if not is_all and len(matching) < offset + limit:
            return None
        if is_new and not is_all:
            self._keep(key, None)
        return Part(matching[offset : offset + limit], len(matching), exact=is_all)

    def _collected(self, key: _Key) -> "Future[array[int]]":
        """Return the ids of a result, which are collected unless that was done lately."""
        collected = self._kept.get(key) or self._pool.submit(_collect, self._file, key[0])
        self._keep(key, collected)
        return collected

    def _keep(self, key: _Key, collected: "Future[array[int]] | None") -> None:
        self._kept[key] = collected
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)


def folded(text: str) -> str:
    """Return a text in which the search finds words in any case, and ß as ss.

    Not `casefold`, which browsers do not have: the page of an export folds what a person types in the same way.
    """
    return text.upper().lower().replace("ς", "σ")


def connect(file: Path) -> sqlite3.Connection:
    """Open the index. The file belongs to this process, and is gone with it."""
    connection = sqlite3.connect(file, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _look_at_first(connection: sqlite3.Connection, query: Query) -> tuple[list[int], bool]:
    """Return which of the first documents of the order have the words of a query, and whether there are no others."""
    conditions, values = _filters(query)
    first = f"SELECT id FROM items {_where(conditions)} ORDER BY {_ORDERS[query.sort]} LIMIT {_LOOKED_AT}"  # noqa: S608
    ids = [item for (item,) in connection.execute(first, values)]
    words = _words(query)
    with_words = " AND ".join(["rowid IN (SELECT value FROM json_each(?))", *["instr(text, ?)"] * len(words)])
    matching = {
        item
        for (item,) in connection.execute(f"SELECT rowid FROM words WHERE {with_words}", [json.dumps(ids), *words])  # noqa: S608
    }
    return [item for item in ids if item in matching], len(ids) < _LOOKED_AT


def _collect(file: Path, query: Query) -> "array[int]":
    conditions, values = _filters(query)
    with closing(connect(file)) as connection:
        having, words = _having(connection, _words(query))
        select = f"SELECT id FROM items {_where([*having, *conditions])} ORDER BY {_ORDERS[query.sort]}"  # noqa: S608
        return array("q", (item for (item,) in connection.execute(select, [*words, *values])))


def _words(query: Query) -> list[str]:
    return list(dict.fromkeys(folded(query.search).split()))


def _having(connection: sqlite3.Connection, words: list[str]) -> tuple[list[str], list[str]]:
    """Return the conditions of words in texts, and their values."""
    conditions: list[str] = []
    values: list[str] = []
    phrases: list[str] = []
    for word in words:
        terms = _terms(connection, word)
        if terms is None:
            conditions.append("id IN (SELECT rowid FROM words WHERE instr(text, ?))")
            values.append(word)
        elif terms:
            phrases.append(f"({' OR '.join(map(_quoted, terms))})")
        else:
            conditions.append("FALSE")
    if phrases:
        conditions.append("id IN (SELECT rowid FROM words WHERE words MATCH ?)")
        values.append(" AND ".join(phrases))
    return conditions, values


def _terms(connection: sqlite3.Connection, word: str) -> list[str] | None:
    """Return the terms to search with FTS5: each text with the word has one of them. None if they are too many.

    The index holds trigrams, so the terms of a word that is shorter are the trigrams that begin with it.
    """
    if len(word) >= _SHORTEST:
        return [word]
    begins = "SELECT term FROM trigrams WHERE term >= ? AND term < ? LIMIT ?"
    terms = [term for (term,) in connection.execute(begins, (word, f"{word}\U0010ffff", _TRIGRAMS))]
    return terms if len(terms) < _TRIGRAMS else None


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace('"', '""'))


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

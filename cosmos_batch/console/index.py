"""The index of all documents: a SQLite file, in which 100,000 of them are searched, filtered and sorted.

Why SQLite: docs/decisions/091-the-console-keeps-its-index-in-sqlite.md.
"""

import json
import sqlite3
from array import array
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from cosmos_batch.console.documents import Document
from cosmos_batch.console.records import Facet, Query, Row, Rows

_SHOWN = 400  # characters of a prompt or answer in the grid
_SEARCHED = 20_000  # characters of a document that the search looks at
_FACETS = 200  # values offered in a filter
_KEPT_RESULTS = 8  # results of queries whose ids are kept, so that scrolling asks for none of them twice
_SHORTEST = 3  # characters of a word that the trigrams of FTS5 can find

_TABLES = """
CREATE TABLE items (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, kind TEXT NOT NULL, error_code TEXT, name TEXT NOT NULL,
    prompt TEXT NOT NULL, answer TEXT NOT NULL, timestamp TEXT NOT NULL, model TEXT NOT NULL, pipeline TEXT NOT NULL,
    labels TEXT NOT NULL, events INTEGER NOT NULL, poster INTEGER, media TEXT NOT NULL
);
CREATE TABLE labels (label TEXT NOT NULL, item INTEGER NOT NULL, PRIMARY KEY (label, item)) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'trigram');
CREATE INDEX by_time ON items (timestamp);
"""
_ORDERS = {
    "newest": "timestamp DESC, id DESC",
    "oldest": "timestamp, id",
    "name": "name, timestamp, id",
    "model": "model, name, id",
}
_ROW = "id, kind, name, prompt, answer, timestamp, model, pipeline, error_code, labels, events, poster"


class DocumentIndex:
    """All documents that were read so far. One thread adds, any number of threads ask."""

    def __init__(self, file: Path) -> None:
        self._lock = Lock()
        self._writer = self._connect(file)
        self._writer.executescript(_TABLES)
        self._reader = self._connect(file)
        self._results: OrderedDict[tuple[Query, int], array[int]] = OrderedDict()
        self.count = 0

    @staticmethod
    def _connect(file: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(file, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")  # a file of this process, which is gone with it
        return connection

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._writer.close()
            self._reader.close()

    def add(self, documents: Iterable[tuple[str, Document, list[str | None]]]) -> None:
        """Add documents, each with its path and the paths of its media; None for media that are not in the folder."""
        count = self.count
        with self._writer:
            for path, document, media in documents:
                count += 1
                self._insert(count, path, document, media)
        self.count = count

    def _insert(self, item: int, path: str, document: Document, media: list[str | None]) -> None:
        poster = next((number for number, one in enumerate(media) if one is not None), None)
        values = (
            item,
            path,
            document.kind,
            document.error.code if document.error else None,
            document.name,
            document.prompt[:_SHOWN],
            document.answer[:_SHOWN],
            document.timestamp,
            document.model,
            document.pipeline,
            json.dumps(document.labels[:_FACETS]),
            len(document.marks.events),
            poster,
            json.dumps(media),
        )
        self._writer.execute(f"INSERT INTO items VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608
        text = "\n".join((document.name, document.prompt, document.answer))[:_SEARCHED].casefold()
        self._writer.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (item, text))
        self._writer.executemany("INSERT INTO labels VALUES (?, ?)", [(label, item) for label in document.labels])

    def rows(self, query: Query, offset: int, limit: int) -> Rows:
        """Return a part of the result of a query."""
        with self._lock:
            version = self.count
            ids = self._ids(query, version)
            wanted = ids[offset : offset + limit].tolist()
            return Rows(total=len(ids), version=version, rows=[self._row(item) for item in wanted])

    def row(self, item: int) -> Row | None:
        """Return one row, or None if there is none."""
        with self._lock:
            return self._row(item) if 1 <= item <= self.count else None

    def files(self, item: int) -> tuple[str, list[str | None]] | None:
        """Return the path of a document and those of its media; None if there is no such document."""
        if not 1 <= item <= self.count:
            return None
        with self._lock:
            found = self._reader.execute("SELECT path, media FROM items WHERE id = ?", (item,)).fetchone()
        return (found[0], json.loads(found[1])) if found else None

    def failed(self) -> int:
        """Return the number of documents of failed jobs."""
        with self._lock:
            return int(self._reader.execute("SELECT COUNT(*) FROM items WHERE kind = 'error'").fetchone()[0])

    def texts(self) -> list[str]:
        """Return the text of each document in which the search looks, in the order of the ids."""
        with self._lock:
            return [text for (text,) in self._reader.execute("SELECT text FROM words ORDER BY rowid")]

    def facets(self, column: str) -> list[Facet]:
        """Return the most frequent values of `model` or `error_code`."""
        return self._facets(
            f"SELECT {column}, COUNT(*) FROM items WHERE {column} != '' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?"  # noqa: S608
        )

    def labels(self) -> list[Facet]:
        """Return the most frequent labels."""
        return self._facets("SELECT label, COUNT(*) FROM labels GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?")

    def _facets(self, select: str) -> list[Facet]:
        with self._lock:
            return [
                Facet(value=value, count=count) for value, count in self._reader.execute(select, (_FACETS,)).fetchall()
            ]

    def _row(self, item: int) -> Row:
        found = self._reader.execute(f"SELECT {_ROW} FROM items WHERE id = ?", (item,)).fetchone()  # noqa: S608
        values = dict(zip(_ROW.split(", "), found, strict=True))
        poster = values.pop("poster")
        return Row(
            **{**values, "labels": json.loads(values["labels"])},
            poster=None if poster is None else media_url(item, poster, "poster"),
        )

    def _ids(self, query: Query, version: int) -> "array[int]":
        key = (query, version)
        if key not in self._results:
            conditions, values = _conditions(query)
            select = f"SELECT id FROM items {conditions} ORDER BY {_ORDERS[query.sort]}"  # noqa: S608
            self._results[key] = array("q", (item for (item,) in self._reader.execute(select, values)))
            while len(self._results) > _KEPT_RESULTS:
                self._results.popitem(last=False)
        self._results.move_to_end(key)
        return self._results[key]


def media_url(item: int, number: int, what: str = "") -> str:
    """Return the URL of a media file of a document, or of its poster or preview."""
    return f"/api/items/{item}/media/{number}{'/' if what else ''}{what}"


def _conditions(query: Query) -> tuple[str, list[str]]:
    """Return the WHERE clause of a query and its values."""
    conditions: list[str] = []
    values: list[str] = []
    words = query.search.casefold().split()
    long = [word for word in words if len(word) >= _SHORTEST]
    if long:
        conditions.append("id IN (SELECT rowid FROM words WHERE words MATCH ?)")
        quoted = (word.replace('"', '""') for word in long)
        values.append(" AND ".join(f'"{word}"' for word in quoted))
    for word in set(words) - set(long):
        conditions.append("id IN (SELECT rowid FROM words WHERE instr(text, ?))")
        values.append(word)
    if query.status:
        conditions.append(f"kind {'=' if query.status == 'failed' else '!='} 'error'")
    for column, value in (("error_code", query.error_code), ("model", query.model)):
        if value:
            conditions.append(f"{column} = ?")
            values.append(value)
    if query.label:
        conditions.append("id IN (SELECT item FROM labels WHERE label = ?)")
        values.append(query.label)
    return (f"WHERE {' AND '.join(conditions)}" if conditions else ""), values

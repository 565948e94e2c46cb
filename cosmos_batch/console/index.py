"""The index of all documents: a SQLite file, in which 100,000 of them are searched, filtered and sorted.

Why SQLite: docs/decisions/091-the-console-keeps-its-index-in-sqlite.md. How queries are answered: `queries`.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from cosmos_batch.console.collection import Entry
from cosmos_batch.console.queries import TEXT_END, QueryResults, connect, folded
from cosmos_batch.console.records import Facet, FailureGroup, Query, Row, Rows

_SHOWN = 400  # characters of a prompt or answer in the grid
_SEARCHED = 20_000  # characters of a document that the search looks at
_FACETS = 200  # values offered in a filter

_TABLES = """
CREATE TABLE items (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, kind TEXT NOT NULL, error_code TEXT, remedy TEXT, name TEXT NOT NULL,
    prompt TEXT NOT NULL, answer TEXT NOT NULL, timestamp TEXT NOT NULL, model TEXT NOT NULL, pipeline TEXT NOT NULL,
    labels TEXT NOT NULL, events INTEGER NOT NULL, poster INTEGER, media TEXT NOT NULL, item TEXT NOT NULL,
    variant TEXT NOT NULL, duration REAL, dollars REAL, score REAL
);
CREATE TABLE labels (label TEXT NOT NULL, item INTEGER NOT NULL, PRIMARY KEY (label, item)) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'trigram case_sensitive 1');
CREATE VIRTUAL TABLE trigrams USING fts5vocab (words, row);
CREATE INDEX by_time ON items (timestamp);
CREATE INDEX by_name ON items (name, timestamp);
CREATE INDEX by_model ON items (model, name);
CREATE INDEX by_model_and_time ON items (model, timestamp);
CREATE INDEX by_error ON items (kind, error_code);
CREATE INDEX by_duration ON items (duration DESC, id);
CREATE INDEX by_dollars ON items (dollars DESC, id);
CREATE INDEX by_score ON items (score DESC, id);
CREATE INDEX by_path ON items (path);
CREATE INDEX by_item ON items (item);
"""
_ROW = (
    "id, kind, name, prompt, answer, timestamp, model, pipeline, error_code, remedy, labels, events, poster, item, "
    "variant, duration, dollars, score"
)


class DocumentIndex:
    """All documents that were read so far. One thread changes it, any number of threads ask.

    `url` is that of the collection, below which its items have theirs.
    """

    def __init__(self, file: Path, url: str) -> None:
        self._url = url
        self._lock = Lock()
        self._writer = connect(file)
        self._writer.executescript(_TABLES)
        self._reader = connect(file)
        self._results = QueryResults(file)
        self._last = 0
        self.count = 0
        self.version = 0  # grows with each change

    def close(self) -> None:
        """Close the file."""
        self._results.close()
        with self._lock:
            self._writer.close()
            self._reader.close()

    def add(self, entries: Iterable[Entry]) -> None:
        """Add documents."""
        last = self._last
        with self._writer:
            for entry in entries:
                last += 1
                self._insert(last, entry)
        self.count += last - self._last
        self.version += last != self._last
        self._last = last

    def remove(self, prefix: str) -> None:
        """Remove the documents whose paths begin with a prefix."""
        with self._writer:
            below = (prefix, f"{prefix}\U0010ffff")
            ids = self._writer.execute("SELECT id FROM items WHERE path >= ? AND path < ?", below).fetchall()
            self._writer.executemany("DELETE FROM words WHERE rowid = ?", ids)
            self._writer.executemany("DELETE FROM labels WHERE item = ?", ids)
            self._writer.executemany("DELETE FROM items WHERE id = ?", ids)
        self.count -= len(ids)
        self.version += 1

    def _insert(self, item: int, entry: Entry) -> None:
        document = entry.document
        poster = next((number for number, one in enumerate(entry.media) if one is not None), None)
        values = (
            item,
            entry.path,
            document.kind,
            document.error.code if document.error else None,
            document.error.remedy[:_SHOWN] if document.error else None,
            document.name,
            (document.prompt or document.task)[:_SHOWN],
            document.answer[:_SHOWN],
            document.timestamp,
            document.model,
            document.pipeline,
            json.dumps(document.labels[:_FACETS]),
            len(document.marks.events),
            poster,
            json.dumps(entry.media),
            document.item,
            document.variant,
            document.duration,
            document.dollars,
            document.score,
        )
        self._writer.execute(f"INSERT INTO items VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608
        texts = filter(None, (document.name, document.prompt, document.task, document.answer))
        text = folded("\n".join(texts)[:_SEARCHED])
        self._writer.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (item, text + TEXT_END))
        self._writer.executemany("INSERT INTO labels VALUES (?, ?)", [(label, item) for label in document.labels])

    def rows(self, query: Query, offset: int, limit: int) -> Rows:
        """Return a part of the result of a query."""
        version = self.version
        part = self._results.part(query, version, offset, limit)
        with self._lock:
            rows = [row for item in part.ids if (row := self._row(item)) is not None]
        return Rows(total=part.total, exact=part.exact, version=version, rows=rows)

    def ids(self, query: Query) -> list[int]:
        """Return all items of a query's result, in its order."""
        return self._results.all(query, self.version)

    def row(self, item: int) -> Row | None:
        """Return one row, or None if there is none."""
        with self._lock:
            return self._row(item) if 1 <= item <= self._last else None

    def path(self, item: int) -> str | None:
        """Return the path of a document in its collection; None if there is no such document."""
        path = self._one("SELECT path FROM items WHERE id = ?", item)
        return None if path is None else str(path)

    def media(self, item: int) -> list[str | None] | None:
        """Return the places of a document's media; None if there is no such document."""
        media = self._one("SELECT media FROM items WHERE id = ?", item)
        return None if media is None else list(json.loads(str(media)))

    def numbers(self, items: Iterable[str]) -> dict[str, int]:
        """Return the numbers of items of a run, by their ids."""
        with self._lock:
            select = "SELECT id FROM items WHERE item = ?"
            rows = {item: self._reader.execute(select, (item,)).fetchone() for item in items}
        return {item: row[0] for item, row in rows.items() if row is not None}

    def all(self) -> list[int]:
        """Return the numbers of all documents."""
        with self._lock:
            return [item for (item,) in self._reader.execute("SELECT id FROM items ORDER BY id")]

    def failed(self) -> int:
        """Return the number of documents of failed jobs."""
        with self._lock:
            return int(self._reader.execute("SELECT COUNT(*) FROM items WHERE kind = 'error'").fetchone()[0])

    def failures(self) -> list[FailureGroup]:
        """Return the kinds of failures, the most frequent first; the first document of each is its example.

        It is one statement, because documents may be replaced between two. With MIN, SQLite takes the other columns
        from the row of the minimum (https://www.sqlite.org/lang_select.html, "Bare columns in an aggregate query").
        """
        kinds = (
            "SELECT error_code, COUNT(*), name, answer, remedy, MIN(id) FROM items WHERE kind = 'error'"
            " GROUP BY error_code ORDER BY COUNT(*) DESC, error_code"
        )
        with self._lock:
            groups = self._reader.execute(kinds).fetchall()
        return [
            FailureGroup(code=code, count=count, example=name, message=message, remedy=remedy)
            for code, count, name, message, remedy, _ in groups
        ]

    def has(self, condition: str) -> bool:
        """Return whether a document fulfils a condition, which is one of our own."""
        with self._lock:
            return bool(self._reader.execute(f"SELECT EXISTS (SELECT 1 FROM items WHERE {condition})").fetchone()[0])  # noqa: S608

    def text(self, item: int) -> str:
        """Return the text of a document in which the search looks."""
        text = self._one("SELECT text FROM words WHERE rowid = ?", item)
        return "" if text is None else str(text).removesuffix(TEXT_END)

    def facets(self, column: str) -> list[Facet]:
        """Return the most frequent values of `model` or `error_code`."""
        return self._facets(
            f"SELECT {column}, COUNT(*) FROM items WHERE {column} != '' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?"  # noqa: S608
        )

    def labels(self) -> list[Facet]:
        """Return the most frequent labels."""
        return self._facets("SELECT label, COUNT(*) FROM labels GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?")

    def item_url(self, item: int, what: str) -> str:
        """Return the URL of a part of a document, below that of its collection."""
        return f"{self._url}/items/{item}/{what}"

    def media_url(self, item: int, number: int, what: str = "") -> str:
        """Return the URL of a media file of a document, or of its poster or preview."""
        return self.item_url(item, f"media/{number}{'/' if what else ''}{what}")

    def _facets(self, select: str) -> list[Facet]:
        with self._lock:
            return [
                Facet(value=value, count=count) for value, count in self._reader.execute(select, (_FACETS,)).fetchall()
            ]

    def _one(self, select: str, item: int) -> object:
        """Return the only column of a row; None where there is no such row."""
        if not 1 <= item <= self._last:
            return None
        with self._lock:
            row = self._reader.execute(select, (item,)).fetchone()
        return None if row is None else row[0]

    def _row(self, item: int) -> Row | None:
        columns = self._reader.execute(f"SELECT {_ROW} FROM items WHERE id = ?", (item,)).fetchone()  # noqa: S608
        if columns is None:
            return None
        values = dict(zip(_ROW.split(", "), columns, strict=True))
        poster = values.pop("poster")
        return Row(
            **{**values, "labels": json.loads(values["labels"])},
            poster=None if poster is None else self.media_url(item, poster, "poster"),
            media=None if poster is None else self.media_url(item, poster),
        )

"""The interface of a collection of documents and their media, such as a folder or a run, which the console shows."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol

from cosmos_batch.console.documents import Document, NamedMedia
from cosmos_batch.media.signatures import Source


class MediaFile(Protocol):
    """A video or image, on this machine or in S3. Reading it raises RefusalError where S3 refuses that."""

    @property
    def name(self) -> str:
        """Return the file's name alone."""

    @property
    def key(self) -> str:
        """Return a text that names this content of the file: it changes with the file."""

    @property
    def size(self) -> int:
        """Return the number of its bytes."""

    def open(self) -> Source:
        """Return the file to read its header and some frames. Of a file in S3, only what is read is fetched."""

    def part(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes from `start` up to, and without, `end`."""

    def whole(self) -> AbstractContextManager[Path]:
        """Provide the file on this machine's disk, while it is decoded from beginning to end."""


@dataclass(frozen=True)
class Entry:
    """A document of a collection, and where its media are: None for those that cannot be shown."""

    path: str
    document: Document
    media: list[str | None]


@dataclass(frozen=True)
class Removed:
    """The entries whose paths begin with `prefix` are not in the collection any more."""

    prefix: str


@dataclass
class Progress:
    """How many JSON files a collection has, documents or tables of a run, and how many of them were read."""

    json_files: int = 0
    read_files: int = 0


class Collection(Protocol):
    """Documents that belong together. Paths and places that it has given out are the only ones that it is asked for.

    Its methods raise RefusalError where AWS refuses what they need, as it does once a person's credentials expire.
    """

    @property
    def title(self) -> str:
        """Return the name to show, which reveals nothing of this machine."""

    @property
    def grows(self) -> bool:
        """Return whether `changes` may bring more when it is called again."""

    @property
    def is_local(self) -> bool:
        """Return whether a local cloud has made them, so that their costs are what AWS would have charged."""

    def changes(self, progress: Progress, stopped: Event) -> Iterator[Entry | Removed]:
        """Yield what has changed since the last call; at the first call, all entries. Ends early when stopped.

        It is called again after it has failed. A collection that does not grow may then yield all entries once more.
        """

    def document(self, path: str) -> Document | None:
        """Read a document again, with everything that is known of it; None if it is gone."""

    def place(self, named: NamedMedia, path: str) -> str | None:
        """Return where the media file is that the document at `path` names; None where it cannot be shown."""

    def media(self, place: str) -> MediaFile | None:
        """Return a media file; None if it is gone."""

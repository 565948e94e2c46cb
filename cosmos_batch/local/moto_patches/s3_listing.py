"""Makes listing a large bucket fast: its names are kept in order, and a page of a listing is cut from them."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Any

from moto.s3 import models
from moto.s3.exceptions import InvalidContinuationToken, MethodNotAllowed
from moto.s3.models import FakeBucket, FakeKey, FakeTableStorageBucket, S3Backend
from moto.s3.utils import _VersionedKeyStore

from cosmos_batch.local.moto_patches.registry import patch, replace


@patch(
    "s3_listing.pages-visit-their-own-keys",
    brings="Speed: a page of ListObjectsV2 looks at the keys of that page alone. A continuation token that was never "
    "given out is refused, as by S3.",
    moto="Looks at all keys of the bucket, and sorts them, for each page.",
    source="https://github.com/getmoto/moto/blob/master/moto/s3/models.py",
)
def _cut_pages_from_sorted_names() -> None:
    replace(models, "_VersionedKeyStore", SortedKeyStore)
    replace(S3Backend, "list_objects_v2", list_objects_v2)


class SortedKeyStore(_VersionedKeyStore):
    """The versions of a bucket's objects by name, as moto keeps them, and the names in order."""

    def __init__(self) -> None:
        super().__init__()
        self._sorted_names: list[str] = []
        self._lock = threading.RLock()

    def __setitem__(self, name: str, value: Any) -> None:
        with self._lock:
            self._insert(name)
            super().__setitem__(name, value)

    def setlist(self, key: str, list_: Any) -> None:
        """Replace all versions of an object."""
        with self._lock:
            self._insert(key)
            super().setlist(key, list_)

    def pop(self, key: str) -> None:
        """Remove an object with all its versions. Raises KeyError if there is none."""
        with self._lock:
            super().pop(key)
            del self._sorted_names[bisect_left(self._sorted_names, key)]

    def sorted_names(self) -> list[str]:
        """Return a copy of the names in order, which other requests do not change."""
        return self._sorted_names.copy()

    def _insert(self, name: str) -> None:
        if name not in self:
            insort(self._sorted_names, name)


def list_objects_v2(
    self: S3Backend,
    bucket: FakeBucket,
    prefix: str | None,
    delimiter: str | None,
    continuation_token: str | None,
    start_after: str | None,
    max_keys: int,
) -> tuple[list[FakeKey | str], bool, str | None]:
    """Return the objects and common prefixes of a page, whether more follow, and the token of the next page."""
    if isinstance(bucket, FakeTableStorageBucket):
        raise MethodNotAllowed()
    if continuation_token and continuation_token not in self._pagination_tokens:
        raise InvalidContinuationToken()
    after = self._pagination_tokens[continuation_token] if continuation_token else start_after
    entries = _entries(bucket.keys, prefix or "", delimiter or "", after or "")
    # One more entry than a page holds tells whether more follow.
    return self._truncate_result(list(islice(entries, max_keys + 1)), max_keys)


def _entries(keys: SortedKeyStore, prefix: str, delimiter: str, after: str) -> Iterator[FakeKey | str]:
    """Yield in order the objects and common prefixes that begin with `prefix` and come after the name `after`."""
    names = keys.sorted_names()
    position = bisect_left(names, max(prefix, after))
    while position < len(names) and names[position].startswith(prefix):
        name = names[position]
        common_prefix = _common_prefix(name, prefix, delimiter)
        if common_prefix is None:
            position += 1
            entry = keys.get(name)  # None if it was deleted since, or a delete marker
            if name > after and isinstance(entry, FakeKey):
                yield entry
        else:
            position = bisect_right(names, common_prefix, lo=position, key=itemgetter(slice(len(common_prefix))))
            if common_prefix > after:
                yield common_prefix


def _common_prefix(name: str, prefix: str, delimiter: str) -> str | None:
    """Return the name up to the first delimiter after `prefix`, or None if there is none."""
    end = name.find(delimiter, len(prefix)) if delimiter else -1
    return None if end < 0 else name[: end + len(delimiter)]

"""Pages of ListObjectsV2 that are cut from sorted names: what moto's own implementation would have listed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto.s3.exceptions import InvalidContinuationToken
from moto.s3.models import FakeDeleteMarker, FakeKey, S3Backend, s3_backends

from cosmos_batch.local.moto_patches.s3_listing import SortedKeyStore, list_objects_v2
from cosmos_batch.local.runtime import ACCOUNT, REGION

MOTO = S3Backend.list_objects_v2
# The letters beyond ASCII are ordered differently by UTF-16 than by UTF-8, as S3 orders them.
NAMES = st.text(alphabet="ab/\uffee\U0001d11e", min_size=1, max_size=4)
CHANGES = st.lists(st.tuples(st.sampled_from(["put", "put", "put", "mark deleted", "replace", "remove"]), NAMES))


def changed(changes: list[tuple[str, str]]) -> Any:
    """Return a bucket after changes to its objects, made as moto makes them."""
    keys = SortedKeyStore()
    for change, name in changes:
        if change == "put":
            keys[name] = FakeKey(name, b"", ACCOUNT, REGION)
        elif change == "replace":
            keys.setlist(name, [FakeKey(name, b"", ACCOUNT, REGION)])
        elif name in keys and change == "remove":
            keys.setlist(name, [])
            keys.pop(name)
        elif name in keys:
            keys[name] = FakeDeleteMarker(key=keys[name])
    return SimpleNamespace(keys=keys)


def pages(implementation: Any, bucket: Any, max_keys: int, start_after: str | None, **limits: str | None) -> list[Any]:
    """List a bucket to its end; return each page as what it lists, whether more follow, and the next token."""
    backend = s3_backends[ACCOUNT]["aws"]
    listed: list[Any] = []
    token = None
    while not listed or token:
        assert len(listed) <= len(bucket.keys), "a listing has more pages than keys"
        entries, is_truncated, token = implementation(
            backend, bucket, continuation_token=token, start_after=start_after, max_keys=max_keys, **limits
        )
        listed.append((list(entries), is_truncated, token))
    return listed


@given(
    changes=CHANGES,
    prefix=st.none() | NAMES,
    delimiter=st.sampled_from([None, "/", "b", "a/"]),
    start_after=st.none() | NAMES,
    max_keys=st.integers(0, 4),
)
def test_pages_are_those_of_moto(
    changes: list[tuple[str, str]], prefix: str | None, delimiter: str | None, start_after: str | None, max_keys: int
) -> None:
    bucket = changed(changes)
    limits = {"prefix": prefix, "delimiter": delimiter}
    assert pages(list_objects_v2, bucket, max_keys, start_after, **limits) == pages(
        MOTO, bucket, max_keys, start_after, **limits
    )


def test_a_token_that_was_never_given_out_is_refused() -> None:
    with pytest.raises(InvalidContinuationToken):
        list_objects_v2(s3_backends[ACCOUNT]["aws"], changed([("put", "a")]), None, None, "unknown", None, 10)


def test_names_stay_in_order_while_many_requests_change_them() -> None:
    keys = SortedKeyStore()
    names = [f"{number % 7} {number:04}" for number in range(2000)]

    def put_and_remove(name: str) -> None:
        for key in (name, "shared", f"{name} removed"):
            keys[key] = FakeKey(key, b"", ACCOUNT, REGION)
        keys.pop(f"{name} removed")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(put_and_remove, names))
    assert keys.sorted_names() == sorted([*names, "shared"]) == sorted(keys)

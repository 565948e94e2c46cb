"""S3 URIs and keys of documents."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.catalogue.formats import extension
from cosmos_batch.contract.s3 import KEY_LIMIT, allowed, document_key, join_below, parse_uri, relative_directory

keys = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=300)


@given(key=keys)
def test_a_key_is_not_decoded(key: str) -> None:
    assert parse_uri(f"s3://my-bucket/{key}") == ("my-bucket", key)
    assert parse_uri(f"s3://my-bucket/{key}").uri == f"s3://my-bucket/{key}"


@pytest.mark.parametrize("uri", ["", "my-bucket/key", "s3://", "s3://UPPER/key", "https://bucket/key", "s3://a/b"])
def test_invalid_s3_uris_are_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="S3 URI"):
        parse_uri(uri)


def test_a_key_over_s3s_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="1024"):
        parse_uri("s3://my-bucket/" + "é" * 513)


@pytest.mark.parametrize(
    ("key", "expected"),
    [("a/b.MP4", ".mp4"), ("a.b/c", ""), (".mp4", ""), ("a/.png", ""), ("x.tar.gz", ".gz"), ("é +%.JpEg", ".jpeg")],
)
def test_an_extension_is_the_lower_case_ending_of_the_name(key: str, expected: str) -> None:
    assert extension(key) == expected


@pytest.mark.parametrize(
    ("key", "asset_id", "expected"),
    [
        ("x123/clips/day 1/a.mp4", "x123", "clips/day 1"),
        ("assets/x123/a.mp4", "x123", ""),
        ("base/x123/x123/a.mp4", "x123", "x123"),
        ("clips/a.mp4", "x123", ""),
        ("clips/x123", "x123", ""),
        ("clips/a.mp4", None, ""),
    ],
)
def test_the_relative_directory_is_that_within_the_asset(key: str, asset_id: str | None, expected: str) -> None:
    assert relative_directory(key, asset_id) == expected


@given(prefix=st.sampled_from(["", "out", "out/", "a/b/"]), relative=keys)
def test_a_joined_key_stays_below_its_prefix(prefix: str, relative: str) -> None:
    joined = join_below(prefix, relative)
    on_a_disk = posixpath.normpath("/bucket/" + joined)
    assert on_a_disk == "/bucket" or on_a_disk.startswith(posixpath.join("/bucket", prefix.rstrip("/")))
    assert joined.startswith(prefix.rstrip("/"))


@given(directory=st.sampled_from(["", "out", "a/b/", "d" * 900]), name=keys)
def test_a_document_key_is_within_s3s_limit_and_keeps_directory_and_ending(directory: str, name: str) -> None:
    key = document_key(directory, name, "20260410-165029")
    assert len(key.encode()) <= KEY_LIMIT
    assert key.endswith("_CosmosReason_20260410-165029.json")
    assert key.startswith(directory.rstrip("/"))


def test_the_name_of_a_document_is_that_of_vams() -> None:
    key = document_key("x/y", "robot-demo.mp4", "20260410-165029")
    assert key == "x/y/robot-demo_CosmosReason_20260410-165029.json"


def test_a_prefix_that_leaves_no_room_for_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        document_key("d" * 1000, "a.mp4", "20260410-165029")


@pytest.mark.parametrize(
    ("uri", "inside"),
    [("s3://one/any", True), ("s3://two/in/x", True), ("s3://two/out/x", False), ("s3://three/x", False)],
)
def test_only_locations_below_configured_roots_are_allowed(uri: str, inside: bool) -> None:
    assert (
        allowed(
            parse_uri(uri.replace("one", "one-bucket").replace("two", "two-bucket")), ["one-bucket", "two-bucket/in/"]
        )
        is inside
    )

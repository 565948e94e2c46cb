"""The commit of a tag or branch is recorded once, and replaced only on request."""

from datetime import UTC, datetime, timedelta

import pytest

from cosmos_batch.state import Revisions, Table

MODEL = "nvidia/Cosmos-Reason2-2B"


@pytest.fixture
def revisions(table: Table) -> Revisions:
    return Revisions(table, "cosmos-reason2-2b")


def test_the_first_recorded_commit_is_kept(revisions: Revisions) -> None:
    assert revisions.get(MODEL, "main") is None
    assert revisions.record(MODEL, "main", "one").commit == "one"
    assert revisions.record(MODEL, "main", "two").commit == "one", "whoever comes second loads the same"
    recorded = revisions.get(MODEL, "main")
    assert recorded is not None and recorded.commit == "one"


def test_a_commit_is_replaced_unless_another_was_recorded_since(revisions: Revisions) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    revisions.record(MODEL, "main", "one")
    assert revisions.record(MODEL, "main", "two", unless_since=long_ago).commit == "one"
    assert revisions.record(MODEL, "main", "two", unless_since=datetime.now(UTC)).commit == "two"


def test_a_record_keeps_the_commit_that_it_replaced(revisions: Revisions) -> None:
    assert revisions.record(MODEL, "main", "one").replaced is None
    recorded = revisions.record(MODEL, "main", "two", unless_since=datetime.now(UTC), replaced="one")
    assert (recorded.commit, recorded.replaced) == ("two", "one")


def test_a_commit_that_another_pipeline_has_recorded_is_found(revisions: Revisions, table: Table) -> None:
    revisions.record(MODEL, "main", "ours")
    other = Revisions(table, "cosmos3-nano")
    other.record(MODEL, "main", "of main")
    other.record(MODEL, "v1", "of v1")
    assert revisions.is_recorded_by_another(MODEL, "main", "of main")
    assert revisions.is_recorded_by_another(MODEL, "v1", "of main")
    assert revisions.is_recorded_by_another(MODEL, "v1", "of v1")
    other.record_pinned(MODEL, "pinned")
    assert revisions.is_recorded_by_another(MODEL, "main", "pinned")
    assert not revisions.is_recorded_by_another(MODEL, "main", "ours")
    assert not revisions.is_recorded_by_another("nvidia/Cosmos-Reason2-8B", "main", "of main")


def test_tags_models_and_pipelines_have_separate_records(revisions: Revisions, table: Table) -> None:
    revisions.record(MODEL, "main", "one")
    revisions.record(MODEL, "v1", "two")
    other = Revisions(table, "cosmos-reason2-8b")
    assert other.get(MODEL, "main") is None
    assert {(recorded.revision, recorded.commit) for recorded in revisions.list()} == {("main", "one"), ("v1", "two")}

"""Documents that are kept before it is decided which attempt has won."""

import secrets
import zlib

import boto3
import pytest

from cosmos_batch.state import StagedDocuments, Table
from cosmos_batch.state.staged_documents import LARGEST_ROW_BYTES

BUCKET = "state-bucket"
ANSWER = b'{"result": "A robot lifts a box."}'


@pytest.fixture
def documents(table: Table) -> StagedDocuments:
    s3 = boto3.client("s3", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
    s3.create_bucket(Bucket=BUCKET)
    return StagedDocuments(table, s3, BUCKET)


def objects(documents: StagedDocuments) -> list[str]:
    listed = documents.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return [entry["Key"] for entry in listed]


def test_a_small_document_is_kept_in_the_table_alone(documents: StagedDocuments) -> None:
    long_log = ANSWER + 1_000 * b"INFO: the engine starts\n"
    documents.keep("one", "a", long_log)
    assert documents.read("one", "a") == long_log
    assert objects(documents) == []


def test_a_row_of_a_document_costs_at_most_four_write_units_and_expires(documents: StagedDocuments) -> None:
    body = secrets.token_bytes(LARGEST_ROW_BYTES - 20)
    assert len(zlib.compress(body)) <= LARGEST_ROW_BYTES
    job_id = "0123456789abcdef" * 4
    documents.keep(job_id, "b2c81a54-2e35-4ea5-a6f4-0b6ed8de4d39", body)
    [row] = documents.table.query(f"job#{job_id}")
    assert row.pop("expiresAt") > 0
    kept = len(bytes(row.pop("document"))) + len("document" + "expiresAt" + "".join(row) + "".join(row.values())) + 10
    assert kept <= 4 * 1024


def test_a_large_document_is_an_object(documents: StagedDocuments) -> None:
    body = secrets.token_bytes(2 * LARGEST_ROW_BYTES)
    documents.keep("one", "a", body)
    assert documents.read("one", "a") == body
    assert objects(documents) == ["jobs/one/a/document.json"]
    assert documents.table.query("job#one") == []


def test_each_attempt_has_its_own_document(documents: StagedDocuments) -> None:
    documents.keep("one", "a", ANSWER)
    documents.keep("one", "a", ANSWER)
    documents.keep("one", "b", b"another")
    assert documents.read("one", "a") == ANSWER
    assert documents.read("one", "b") == b"another"

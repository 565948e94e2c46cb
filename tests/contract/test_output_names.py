"""The files that jobs write are recognized by their names, so that none of them is taken as an input."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import product
from typing import get_args

import pytest

from cosmos_batch.catalogue.pipelines import GENERATORS
from cosmos_batch.contract.generation.outputs import Role, generation_document_key, output_key
from cosmos_batch.contract.s3 import (
    ERROR_DOCUMENTS,
    REASONER_DOCUMENTS,
    document_key,
    error_document_key,
    is_own_output,
)
from tests.support.generations import settled

TIMESTAMP = "20260410-165029"


def generated() -> Iterator[str]:
    """Yield the keys of all outputs of all generators, with an input and without one."""
    generations = [settled({"mode": "t2i", "image_format": image_format}) for image_format in ("png", "jpeg")]
    for pipeline, input_name in product(GENERATORS, ("clip.mp4", None)):
        document = generation_document_key("made", input_name, pipeline, TIMESTAMP)
        yield document
        for role, generation in product(get_args(Role), generations):
            yield output_key(document, role, generation)


def test_the_names_of_documents_are_our_own_and_match_the_patterns() -> None:
    for name in ("clip.mp4", "a.b c.png", "é" * 600):
        of_answer, of_error = document_key("out", name, TIMESTAMP), error_document_key(f"in/{name}", TIMESTAMP)
        assert fnmatchcase(of_answer, REASONER_DOCUMENTS), name
        assert fnmatchcase(of_error, ERROR_DOCUMENTS), name
        assert is_own_output(of_answer.rpartition("/")[2]) and is_own_output(of_error.rpartition("/")[2]), name


def test_the_names_of_generated_files_are_our_own() -> None:
    keys = set(generated())
    assert len(keys) > 50
    assert [key for key in keys if not is_own_output(key.rpartition("/")[2])] == []


@pytest.mark.parametrize(
    "name",
    ["clip.mp4", "my_CosmosReason_notes.mp4", "a_CosmosReason_20260410.json", "my-cosmos3-nano-20260410-165029.mp4"],
)
def test_a_name_that_only_resembles_those_is_a_persons(name: str) -> None:
    assert not is_own_output(name)

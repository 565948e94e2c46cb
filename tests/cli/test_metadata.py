"""A prompt must come out of S3's user metadata as it went in."""

import json
from email.header import decode_header

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.cli import metadata
from cosmos_batch.cli.metadata import encoded, headers, sidecar
from cosmos_batch.cli.question import Question


def decoded(value: str) -> str:
    """As `lambdas/upload` reads a value."""
    return "".join(
        text if isinstance(text, str) else text.decode(charset or "raw-unicode-escape")
        for text, charset in decode_header(value)
    )


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=300))
def test_any_text_survives(text: str) -> None:
    assert decoded(encoded(text).strip()) == text  # S3 drops spaces at the ends


@pytest.mark.parametrize(
    "text", ["=?utf-8?b?w6k=?=", "a =?utf-8?q?b?= c", " spaces ", "two\nlines", "🎬 何が?", "\x00"]
)
def test_what_could_be_misread_is_encoded(text: str) -> None:
    assert encoded(text) != text
    assert decoded(encoded(text)) == text


def test_plain_text_stays_readable() -> None:
    assert encoded("What happens in this clip?") == "What happens in this clip?"


@given(st.text(st.characters(codec="utf-8"), max_size=2000))
def test_headers_are_ascii_and_fit_into_s3(text: str) -> None:
    fields = headers(metadata.metadata(Question(text), "cosmos-reason2-2b"))
    if fields is not None:
        assert all(value.isascii() and value.isprintable() for value in fields.values())
        assert sum(len(name) + len(value) for name, value in fields.items()) <= 2048


def test_what_does_not_fit_goes_into_a_sidecar() -> None:
    long = metadata.metadata(Question("é" * 1000), "cosmos-reason2-8b")
    assert headers(long) is None
    assert json.loads(sidecar(long)) == {"COSMOS_REASON_PROMPT": "é" * 1000, "COSMOS_PIPELINE": "cosmos-reason2-8b"}

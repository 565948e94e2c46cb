"""Metadata of an upload is read from its sidecar, its user metadata and its tags, in any alphabet."""

import base64
import json
from email.header import Header

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.contract.s3 import S3Location
from lambdas.intake.metadata import decode_rfc2047, find, parse_sidecar, read_metadata
from lambdas.s3_objects import head
from tests.lambdas.cloud import Cloud

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)
PROMPT, PIPELINE = "COSMOS_REASON_PROMPT", "COSMOS_PIPELINE"


@given(TEXT)
def test_a_text_in_one_encoded_word_as_s3_writes_it_is_decoded(text: str) -> None:
    assert decode_rfc2047(f"=?UTF-8?B?{base64.b64encode(text.encode()).decode()}?=") == text


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=200))
def test_a_text_in_many_encoded_words_is_decoded(text: str) -> None:
    assert decode_rfc2047(Header(text, "utf-8", maxlinelen=75).encode(linesep="")) == text


@given(st.binary(min_size=1, max_size=60))
def test_a_character_may_be_split_between_two_encoded_words(data: bytes) -> None:
    text = data.decode("latin-1").encode().decode() + "é"
    raw = text.encode()
    words = [f"=?UTF-8?B?{base64.b64encode(part).decode()}?=" for part in (raw[:-1], raw[-1:])]
    assert decode_rfc2047(" ".join(words)) == text


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)).filter(lambda text: "=?" not in text))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert decode_rfc2047(text) == text


@pytest.mark.parametrize("broken", ["=?no-such-charset?B?w6k=?=", "=?UTF-8?B?/w==?=", "=?UTF-8?X?abc?="])
def test_a_broken_encoded_word_stays_as_it_is(broken: str) -> None:
    assert decode_rfc2047(broken) == broken


def test_decoded_words_between_plain_words() -> None:
    assert decode_rfc2047("a =?UTF-8?Q?=C3=A9?= b") == "a é b"


@pytest.mark.parametrize("key", ["cosmos_reason_prompt", "Cosmos-Reason-Prompt", "COSMOS_REASON_PROMPT"])
def test_a_key_is_found_however_it_is_written(key: str) -> None:
    assert find({"other": "x", key: "p"}, PROMPT) == "p"


@pytest.mark.parametrize("value", ["", " \n\t", None, 5, ["p"]])
def test_blank_and_what_is_no_text_are_absent(value: object) -> None:
    assert find({PROMPT: value}, PROMPT) is None


def test_half_a_surrogate_pair_does_no_harm() -> None:
    sidecar = parse_sidecar(rb'{"COSMOS_REASON_PROMPT": "a\ud83db"}')
    assert sidecar is not None
    assert find(sidecar, PROMPT) == "a?b"


@pytest.mark.parametrize(
    "nested",
    [
        {PROMPT: "p"},
        {"fileMetadata": {PROMPT: "p"}},
        {"VAMS": {"assetMetadata": {PROMPT: "of the asset"}, "fileMetadata": {PROMPT: "p"}}},
    ],
)
def test_a_sidecar_is_flat_or_as_vams_nests(nested: dict[str, object]) -> None:
    sidecar = parse_sidecar(json.dumps(nested).encode())
    assert sidecar is not None
    assert find(sidecar, PROMPT) == "p"


PLACES = ("sidecar", "user", "tags")


@pytest.mark.parametrize(
    "said_in", [{"tags"}, {"user", "tags"}, {"sidecar", "user", "tags"}, {"sidecar", "tags"}, set()]
)
def test_the_first_place_with_a_prompt_counts(cloud: Cloud, said_in: set[str]) -> None:
    prompts = {place: f"of {place}" if place in said_in else "  " for place in PLACES}
    version = cloud.put(
        "a b.mp4",
        Metadata={"cosmos_reason_prompt": prompts["user"]},
        Tagging=f"{PROMPT}={prompts['tags'].replace(' ', '%20')}&{PIPELINE}=big",
    )
    sidecar = cloud.put("a b.mp4.metadata.json", json.dumps({PROMPT: prompts["sidecar"]}).encode())
    metadata = read_metadata(head(S3Location("assets", "a b.mp4"), version))
    assert metadata.prompt == next((prompts[place] for place in PLACES if place in said_in), None)
    assert metadata.sidecar == (sidecar if "sidecar" in said_in else None)
    assert metadata.pipeline == "big"


def test_each_setting_comes_from_the_first_place_that_has_it(cloud: Cloud) -> None:
    version = cloud.put(
        "clip.mp4",
        Metadata={"cosmos-reason-top-p": "0.5", "cosmos_reason_seed": "2", "cosmos_reason_fps": " "},
        Tagging="COSMOS_REASON_SEED=3&COSMOS_REASON_FPS=1",
    )
    schema = {"type": "object", "title": "é"}
    settings = {"COSMOS_REASON_TOP_P": 0.9, "COSMOS_REASON_REASONING": True, "COSMOS_REASON_JSON_SCHEMA": schema}
    sidecar = cloud.put("clip.mp4.metadata.json", json.dumps(settings).encode())
    metadata = read_metadata(head(S3Location("assets", "clip.mp4"), version))
    assert metadata.settings == {"topP": 0.9, "reasoning": True, "jsonSchema": schema, "seed": "2", "fps": "1"}
    assert metadata.sidecar == sidecar, "a late sidecar with settings alone counts too"
    assert not metadata.asks_reasoner

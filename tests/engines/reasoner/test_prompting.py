"""The sampling parameters of a job."""

from dataclasses import replace

import pytest

from cosmos_batch.engines.reasoner.prompting import sampling_for
from cosmos_batch.planning.questions import ANSWERING, REASONING
from tests.engines.conftest import make_job


def test_sampling_defaults_are_nvidias() -> None:
    assert sampling_for(make_job("a.png")) == ANSWERING
    assert sampling_for(make_job("a.png", reasoning=True)) == REASONING
    assert (ANSWERING.temperature, ANSWERING.top_p, ANSWERING.top_k, ANSWERING.seed) == (0.7, 0.8, 20, 3407)
    assert (REASONING.temperature, REASONING.top_p, REASONING.top_k, REASONING.seed) == (0.6, 0.95, 20, 1234)


@pytest.mark.parametrize("reasoning", [False, True])
def test_each_value_of_a_request_replaces_nvidias(reasoning: bool) -> None:
    published = REASONING if reasoning else ANSWERING
    for name, alias, value in [("temperature", "temperature", 0.0), ("top_k", "topK", 0), ("seed", "seed", 0)]:
        sampling = sampling_for(make_job("a.png", reasoning=reasoning, **{alias: value}))
        assert sampling == replace(published, **{name: value})

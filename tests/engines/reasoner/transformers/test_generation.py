"""Settings of transformers' generation."""

from dataclasses import replace

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.reasoner.transformers.generation import (
    _calling,
    _presence_penalty,
    _sampling_settings,
    end_tokens,
)
from cosmos_batch.planning.questions import ANSWERING


def test_temperature_zero_is_greedy_decoding() -> None:
    assert _sampling_settings(replace(ANSWERING, temperature=0.0))["do_sample"] is False
    assert _sampling_settings(ANSWERING) == {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20}


def test_presence_penalty_counts_the_answer_alone_and_once() -> None:
    import torch

    scores = _presence_penalty(1.5, prompt_tokens=2)(torch.tensor([[0, 1, 2, 2]]), torch.zeros(1, 4))
    assert scores.tolist() == [[0, 0, -1.5, 0]]


def test_generation_is_checked_at_each_token() -> None:
    import torch

    def check() -> None:
        raise Failure("Cancelled", "m", "r")

    assert _calling(lambda: None)(torch.zeros(1, 3), None).tolist() == [False]
    with pytest.raises(Failure):
        _calling(check)(torch.zeros(1, 3), None)


@pytest.mark.parametrize(("configured", "ends"), [(None, []), (3, [3]), ([3, 4], [3, 4])])
def test_there_may_be_no_end_token_one_or_several(configured: int | list[int] | None, ends: list[int]) -> None:
    assert end_tokens(configured) == ends

"""vLLM's own scheduler interrupts fewer answers with the watermark that our server sets."""

import pytest

from benchmarks.reasoner.preemptions import BLOCK, Clips, once, schedule
from cosmos_batch.engines.reasoner.vllm.command import WATERMARK
from tests.support.real_vllm import needs_vllm

pytestmark = needs_vllm

CLIPS = Clips(60, prompt_tokens=300, answer_tokens=300, spread=0.4)
PROMPTS = once(CLIPS)
AT_ONCE = 40


def test_answers_that_have_room_are_not_interrupted() -> None:
    found = schedule(CLIPS, CLIPS.number * 3 * CLIPS.prompt_tokens // BLOCK, 0.0)
    assert (found["preemptions"], found["encoded"], found["promptTokens"]) == (0, CLIPS.number, PROMPTS)


@pytest.mark.parametrize(("prompt_tokens", "any_small"), [(300, True), (2_598, False)])
def test_only_steps_with_short_prompts_are_small_enough_for_the_graphs_that_are_not_captured(
    prompt_tokens: int, any_small: bool
) -> None:
    clips = Clips(40, arriving=1, prompt_tokens=prompt_tokens, answer_tokens=100)
    assert bool(schedule(clips, 40 * prompt_tokens // BLOCK + 400, WATERMARK)["smallSteps"]) == any_small


def test_fewer_answers_are_interrupted_where_room_is_kept_free() -> None:
    blocks = AT_ONCE * CLIPS.prompt_tokens // BLOCK
    without, ours = (schedule(CLIPS, blocks, watermark) for watermark in (0.0, WATERMARK))
    assert without["promptTokens"] > 1.1 * PROMPTS, "interrupted answers take work"
    assert ours["preemptions"] <= without["preemptions"] / 2
    assert ours["promptTokens"] - PROMPTS <= 0.6 * (without["promptTokens"] - PROMPTS)
    assert ours["ofAnswers"] == ours["preemptions"], "clips come in small numbers"
    assert ours["running"] == pytest.approx(without["running"], rel=0.1), "about as many at once"


def test_clips_that_come_all_at_once_are_also_interrupted_before_they_are_looked_at() -> None:
    """vLLM begins with the text before their videos while the vision encoder is busy, and needs their room later."""
    clips = Clips(120, arriving=120)
    found = schedule(clips, AT_ONCE * clips.prompt_tokens // BLOCK, WATERMARK)
    assert 0 < found["ofAnswers"] < found["preemptions"]

"""How often vLLM's scheduler interrupts an answer because a GPU has no room left for keys and values.

What the cache has lost of an interrupted answer and of its prompt is computed again, and if that is a part of the clip,
the clip goes through the vision encoder once more. An interruption costs next to nothing where only the few tokens
before the clip were computed: vLLM begins with these while the vision encoder is busy with others. vLLM's own scheduler
runs here, without a model. Clips arrive faster than they are answered, each another one.
"""

import random
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from benchmarks.measurement import Measurement
from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.engines.reasoner.vllm.command import WATERMARK

BLOCKS = 38_392
"""Room for 614,272 tokens, which vLLM reported for the 2B in 16 bit on an H100."""
BLOCK = 16  # tokens
_SEQUENCES, _STEP_TOKENS, _CONTEXT = 256, 16_384, 16_384
_BEFORE_VIDEO, _AFTER_VIDEO = 44, 16  # tokens of the prompt; those before the video are the same in all
_WORDS = 1_000
_SMALL_STEP = 512  # tokens of the largest step with new prompts of which vLLM captures CUDA graphs by default
_MOST_AGAIN = 0.8  # of the tokens that are computed again without a watermark


@dataclass(frozen=True)
class Clips:
    """Clips that are to be answered.

    `spread` is the standard deviation of the lengths of answers, as a share. `arriving` clips come in each step.
    """

    number: int = 1_000
    arriving: int = 4
    prompt_tokens: int = 2_598
    answer_tokens: int = 256
    spread: float = 0.0


AT_ONCE, SHORT, LONG = Clips(arriving=1_000), Clips(), Clips(600, answer_tokens=1_200, spread=0.4)


def measure() -> list[Measurement]:
    """Schedule short answers, as the other benchmarks ask for, and long ones, as of a model that reasons."""
    rows = []
    for clips in (AT_ONCE, SHORT, LONG):
        without, ours = (schedule(clips, BLOCKS, watermark) for watermark in (0.0, WATERMARK))
        most = _MOST_AGAIN * _again(clips, without)
        rows.append(_row(clips, 0.0, without, "none", met=True))
        limit = f"at most {_MOST_AGAIN:.0%} of the tokens that are computed again without"
        rows.append(_row(clips, WATERMARK, ours, limit, met=_again(clips, ours) <= most))
    return rows


def _row(clips: Clips, watermark: float, found: dict[str, Any], limit: str, *, met: bool) -> Measurement:
    encoded = found["encoded"] / clips.number - 1
    arriving = "all at once" if clips.arriving >= clips.number else f"{clips.arriving} in each step"
    lengths = f"{clips.answer_tokens:,} tokens" + (f" ± {clips.spread:.0%}" if clips.spread else "")
    return Measurement(
        name=f"{clips.number:,} clips, {arriving}, answers of {lengths}, {watermark:.0%} kept free",
        value=f"{found['preemptions']} interruptions, {found['ofAnswers']} of answers; computed again: "
        f"{_again(clips, found):.1%} of as many tokens as all prompts have, {encoded:.1%} of clips; "
        f"{found['steps']:,} steps of {found['running']:.0f} answers",
        limit=limit,
        met=met,
        raw={**found, "vllm": version("vllm").removesuffix("+cpu")},
    )


def _again(clips: Clips, found: dict[str, Any]) -> float:
    """Return how many tokens were computed again, relative to those of all prompts."""
    return float(found["promptTokens"] / once(clips) - 1)


def once(clips: Clips) -> int:
    """Return the tokens of all prompts, those of the blocks with which all of them begin counted once."""
    return clips.number * clips.prompt_tokens - (clips.number - 1) * (_BEFORE_VIDEO // BLOCK * BLOCK)


def schedule(clips: Clips, blocks: int, watermark: float) -> dict[str, Any]:
    """Schedule all clips to the ends of their answers, and return what was done for them.

    `preemptions` counts interruptions, `ofAnswers` those of clips whose whole prompt was computed, and `encoded` the
    runs of the vision encoder. `promptTokens` counts the tokens that were computed in pieces of more than one, which
    are those of prompts, and of interrupted answers once more. `running` is the mean number of answers in a step, and
    `smallSteps` counts those with prompts that are small enough for CUDA graphs, which our server does not capture.
    """
    from vllm.v1.outputs import ModelRunnerOutput

    scheduler, waiting = _scheduler(blocks, watermark), _requests(clips)
    counted = ("preemptions", "ofAnswers", "encoded", "promptTokens", "smallSteps", "running")
    found, steps = dict.fromkeys(counted, 0), 0
    while waiting or scheduler.has_unfinished_requests():
        for request in waiting[: clips.arriving]:
            scheduler.add_request(request)
        del waiting[: clips.arriving]
        computed = {request.request_id: request.num_computed_tokens for request in scheduler.running}
        step = scheduler.schedule()
        tokens = step.num_scheduled_tokens
        requests = [scheduler.requests[name] for name in tokens]
        interrupted = step.preempted_req_ids or ()
        found["preemptions"] += len(interrupted)
        found["ofAnswers"] += sum(computed[name] >= clips.prompt_tokens for name in interrupted)
        found["encoded"] += sum(map(len, step.scheduled_encoder_inputs.values()))
        found["promptTokens"] += sum(count for count in tokens.values() if count > 1)
        found["smallSteps"] += max(tokens.values(), default=1) > 1 and sum(tokens.values()) <= _SMALL_STEP
        found["running"] += len(tokens)
        steps += 1
        answers = [[0] if one.num_computed_tokens >= one.num_tokens else [] for one in requests]
        scheduler.update_from_output(
            step,
            ModelRunnerOutput(
                req_ids=list(tokens),
                req_id_to_index={name: index for index, name in enumerate(tokens)},
                sampled_token_ids=answers,
            ),
        )
    return {**found, "running": round(found["running"] / steps, 1), "steps": steps}


def _scheduler(blocks: int, watermark: float) -> Any:
    """Return vLLM's scheduler as our server has it on a GPU, with room for this many blocks of 16 tokens."""
    import torch
    from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    cache = CacheConfig(block_size=BLOCK)
    cache.num_gpu_blocks = blocks
    config = VllmConfig(
        model_config=ModelConfig(model=str(DEMO_REASON), dtype="float32"),
        cache_config=cache,
        scheduler_config=SchedulerConfig(
            max_num_seqs=_SEQUENCES,
            max_num_batched_tokens=_STEP_TOKENS,
            max_model_len=_CONTEXT,
            is_encoder_decoder=False,
            async_scheduling=True,
            watermark=watermark,
        ),
    )
    layer = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
    return AsyncScheduler(
        vllm_config=config,
        kv_cache_config=KVCacheConfig(blocks, [], [KVCacheGroupSpec(["layer"], layer)]),
        structured_output_manager=StructuredOutputManager(config),
        block_size=BLOCK,
        hash_block_size=BLOCK,
    )


def _requests(clips: Clips) -> list[Any]:
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.request import Request

    init_none_hash(sha256)
    hashes, words = get_request_block_hasher(BLOCK, sha256), random.Random(0)
    video = PlaceholderRange(_BEFORE_VIDEO, clips.prompt_tokens - _BEFORE_VIDEO - _AFTER_VIDEO)
    return [
        Request(
            request_id=str(number),
            prompt_token_ids=[
                *range(_BEFORE_VIDEO),
                *(words.randrange(_WORDS) for _ in range(clips.prompt_tokens - _BEFORE_VIDEO)),
            ],
            sampling_params=SamplingParams(
                ignore_eos=True, max_tokens=max(1, round(words.gauss(1, clips.spread) * clips.answer_tokens))
            ),
            pooling_params=None,
            mm_features=[MultiModalFeatureSpec(None, "video", str(number), video)],
            block_hasher=hashes,
        )
        for number in range(clips.number)
    ]

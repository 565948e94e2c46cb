"""From a job and its files to the tensors that the model takes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosmos_batch.contract.job import Job
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.media_input import MediaLimits, Seen, media_notes, probe_all, see
from cosmos_batch.engines.reasoner.prompting import DEFAULT_MAX_TOKENS, cut_note, sampling_for, too_long, without_markup
from cosmos_batch.engines.reasoner.transformers.checkpoint import Checkpoint
from cosmos_batch.media import Clip, ImageInfo
from cosmos_batch.planning.questions import Sampling


@dataclass
class PreparedJob:
    """A job that is ready for the model.

    Attributes
    ----------
    inputs
        Tensors by name, on the CPU.
    prompt_tokens, max_tokens
        Length of the prompt with its media, and the longest answer; together within the context.
    timings
        Seconds by phase.
    """

    inputs: Any
    prompt_tokens: int
    max_tokens: int
    sampling: Sampling
    journal: Journal
    notes: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)


def prepare(checkpoint: Checkpoint, job: Job, paths: list[Path], check: Callable[[], None]) -> PreparedJob:
    """Decode a job's files, fit them to the context and tokenize them with the prompt.

    `check` is called while a file is decoded; what it raises ends the work.

    Raises
    ------
    Failure
        InvalidInput where a file is at fault, or the prompt leaves no room for it.
    """
    journal = Journal()
    began = time.monotonic()
    found = probe_all(job, paths)
    media = ["image" if isinstance(one, ImageInfo) else "video" for one in found]
    text = _render(checkpoint.processor, job, media)
    max_tokens, media_tokens = _share_context(checkpoint, job, text)
    seen = see(MediaLimits.of_processor(checkpoint.processor), job, paths, found, media_tokens, check, journal)
    decoded = time.monotonic()
    with journal.listening("transformers"):
        inputs = checkpoint.processor(text=[text], return_tensors="pt", **_as_processor_takes_it(seen))
    prompt_tokens = inputs["input_ids"].shape[1]
    journal.note(f"prompt: {prompt_tokens:,} tokens, the media among them")
    max_tokens = _room_for_answer(checkpoint, prompt_tokens, max_tokens)
    return PreparedJob(
        inputs=inputs,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        sampling=sampling_for(job),
        notes=media_notes(job, seen) + cut_note(job, max_tokens),
        journal=journal,
        timings={"decode": decoded - began, "prepare": time.monotonic() - decoded},
    )


def _render(processor: Any, job: Job, media: list[str]) -> str:
    """The conversation as the chat template writes it: the system prompt, then the media before the question."""
    special = [token.content for token in processor.tokenizer.added_tokens_decoder.values() if token.special]
    question = {"type": "text", "text": without_markup(job.prompt or "", special)}
    messages = [
        {"role": "system", "content": without_markup(job.system_prompt, special)},
        {"role": "user", "content": [*({"type": medium} for medium in media), question]},
    ]
    text = str(processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    # The processor gives each pair of frames its own markers. Those that the template puts around the whole would stay
    # (transformers since 5.12), though the model was trained without them. vLLM is given a template without them.
    return text.replace(
        processor.vision_start_token + processor.video_token + processor.vision_end_token, processor.video_token
    )


def _share_context(checkpoint: Checkpoint, job: Job, text: str) -> tuple[int, int]:
    """How many tokens the answer and the media may have. The media get at least half of what the text leaves."""
    room = checkpoint.context - len(checkpoint.processor.tokenizer(text)["input_ids"])
    max_tokens = min(_asked_tokens(checkpoint, job), room // 2)
    if max_tokens < 1:
        raise too_long(f"The prompt fills the model's context of {checkpoint.context:,} tokens.")
    return max_tokens, room - max_tokens


def _asked_tokens(checkpoint: Checkpoint, job: Job) -> int:
    default = checkpoint.model.generation_config.max_new_tokens or DEFAULT_MAX_TOKENS
    return job.parameters.max_tokens or int(default)


def _room_for_answer(checkpoint: Checkpoint, prompt_tokens: int, max_tokens: int) -> int:
    room = checkpoint.context - prompt_tokens
    if room < 1:
        raise too_long(f"Prompt and media need {prompt_tokens:,} tokens; the context has {checkpoint.context:,}.")
    return min(max_tokens, room)


def _as_processor_takes_it(seen: list[Seen]) -> dict[str, Any]:
    """Images and clips apart: the template's markers say which comes where."""
    images = [one for one in seen if not isinstance(one, Clip)]
    clips = [one for one in seen if isinstance(one, Clip)]
    taken: dict[str, Any] = {"images": images} if images else {}
    if clips:
        # The frames are sampled and capped already; a processor that did it again would see a clip of a clip.
        taken |= {
            "videos": [clip.frames for clip in clips],
            "video_metadata": [clip.metadata for clip in clips],
            "do_sample_frames": False,
            "cap_pixels_per_frame": True,
        }
    return taken

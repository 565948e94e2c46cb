"""Turning a job and its files into the model's input tensors."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosmos_batch.contract.job import Job
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.media_input import (
    DecodedMedia,
    MediaLimits,
    decode_inputs,
    frame_times,
    media_notes,
    probe_inputs,
)
from cosmos_batch.engines.reasoner.prompting import cut_note, sampling_for, too_long, without_markup
from cosmos_batch.engines.reasoner.transformers.checkpoint import Checkpoint
from cosmos_batch.media import Clip, ImageInfo
from cosmos_batch.planning.questions import DEFAULT_MAX_TOKENS, Sampling


@dataclass
class PreparedJob:
    """A job that is ready for the model.

    Attributes
    ----------
    inputs
        Tensors by name, on the CPU.
    prompt_tokens, max_tokens
        Tokens of the prompt with its media, and the most tokens of the answer. Together they fit the context.
    journal
        The log lines of the answer.
    notes
        The notes of the answer's document.
    timings
        Seconds by phase.
    frame_times
        Times of the frames of the first clip, in seconds.
    """

    inputs: Any
    prompt_tokens: int
    max_tokens: int
    sampling: Sampling
    journal: Journal
    notes: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    frame_times: list[float] = field(default_factory=list)


def prepare_inputs(checkpoint: Checkpoint, job: Job, paths: list[Path], check: Callable[[], None]) -> PreparedJob:
    """Decode a job's files, scale them to the model's context, and tokenize them with the prompt.

    `check` is called while files are decoded; an exception that it raises ends the work.

    Raises
    ------
    Failure
        InvalidInput where a file is at fault, or the prompt leaves no room for it.
    """
    journal = Journal()
    began = time.monotonic()
    infos = probe_inputs(job, paths)
    kinds = ["image" if isinstance(info, ImageInfo) else "video" for info in infos]
    text = _render(checkpoint.processor, job, kinds)
    max_tokens, media_tokens = _share_context(checkpoint, job, text)
    limits = MediaLimits.from_processor(checkpoint.processor)
    media = decode_inputs(limits, job, paths, infos, media_tokens, check, journal)
    decoded = time.monotonic()
    with journal.listening("transformers"):
        inputs = checkpoint.processor(
            text=[text],
            return_tensors="pt",
            # Cosmos3-Edge needs both, and its processor has them only on demand: positions of media follow from the
            # types of tokens, times of frames from the metadata.
            return_mm_token_type_ids=True,
            return_metadata=True,
            **_processor_arguments(media),
        )
        inputs.pop("video_metadata", None)  # the model takes tensors alone
    prompt_tokens = inputs["input_ids"].shape[1]
    journal.note(f"prompt: {prompt_tokens:,} tokens, the media among them")
    max_tokens = _room_for_answer(checkpoint, prompt_tokens, max_tokens)
    return PreparedJob(
        inputs=inputs,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        sampling=sampling_for(job),
        notes=media_notes(job, media) + cut_note(job, max_tokens),
        journal=journal,
        timings={"decode": decoded - began, "prepare": time.monotonic() - decoded},
        frame_times=frame_times(media),
    )


def _render(processor: Any, job: Job, kinds: list[str]) -> str:
    """Return the conversation in the model's chat template: the system prompt, then the media before the question."""
    special = [token.content for token in processor.tokenizer.added_tokens_decoder.values() if token.special]
    question = {"type": "text", "text": without_markup(job.prompt or "", special)}
    messages = [
        {"role": "system", "content": without_markup(job.system_prompt, special)},
        {"role": "user", "content": [*({"type": kind} for kind in kinds), question]},
    ]
    text = str(processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    # The processor gives each pair of frames markers of its own. Since transformers 5.10 it keeps those that the
    # template puts around the whole video, without which the models were trained. For vLLM, see `chat_template` in its
    # command.
    return text.replace(
        processor.vision_start_token + processor.video_token + processor.vision_end_token, processor.video_token
    )


def _share_context(checkpoint: Checkpoint, job: Job, text: str) -> tuple[int, int]:
    """Return how many tokens the answer and the media may have. The media get at least half of what the text leaves."""
    room = checkpoint.context - len(checkpoint.processor.tokenizer(text)["input_ids"])
    max_tokens = min(_answer_tokens(checkpoint, job), room // 2)
    if max_tokens < 1:
        raise too_long(f"The prompt fills the model's context of {checkpoint.context:,} tokens.")
    return max_tokens, room - max_tokens


def _answer_tokens(checkpoint: Checkpoint, job: Job) -> int:
    default = checkpoint.model.generation_config.max_new_tokens or DEFAULT_MAX_TOKENS
    return job.parameters.max_tokens or int(default)


def _room_for_answer(checkpoint: Checkpoint, prompt_tokens: int, max_tokens: int) -> int:
    room = checkpoint.context - prompt_tokens
    if room < 1:
        raise too_long(f"Prompt and media need {prompt_tokens:,} tokens; the context has {checkpoint.context:,}.")
    return min(max_tokens, room)


def _processor_arguments(media: list[DecodedMedia]) -> dict[str, Any]:
    """Return images and clips as the processor takes them: apart, with their order in the template's markers."""
    images = [medium for medium in media if not isinstance(medium, Clip)]
    clips = [medium for medium in media if isinstance(medium, Clip)]
    arguments: dict[str, Any] = {"images": images} if images else {}
    if clips:
        # The frames are sampled already, and the processor must not sample them again.
        arguments |= {
            "videos": [clip.frames for clip in clips],
            "video_metadata": [clip.metadata for clip in clips],
            "do_sample_frames": False,
            "cap_pixels_per_frame": True,
        }
    return arguments

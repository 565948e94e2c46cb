"""Stand-ins for the runners of `cosmos_guardrail` 0.3.2: they have its names and fail as it does, without its models.

The real ones are tested in `tests/omni`. Cosmos Framework has its own copy of them, with whose names
`tests/engines/test_guardrail_surface.py` compares these. Words in a prompt decide the verdict: a word of the block list
blocks the prompt, after `unlabelled` the model gives no label, and after `unseemly` the output is blocked.
"""

from typing import Any

import numpy as np

GREY = 90  # what stands in a corner of every frame, where the real one blurs faces
CORNER = 16  # pixels


class Blocklist:
    """The words that block a prompt."""

    def __init__(self, words: list[str]) -> None:
        self.blocklist_words = words

    def is_safe(self, input_prompt: str) -> tuple[bool, str]:
        return not any(word in input_prompt for word in self.blocklist_words), ""


class Qwen3Guard:
    """A classifier that answers "safe" when it raises an exception itself, as the real one does."""

    def extract_label_and_categories(self, prompt: str) -> tuple[bool, str]:
        label: Any = None if "unlabelled" in prompt else "Safe"
        return label.lower() != "unsafe", ""

    def is_safe(self, prompt: str) -> tuple[bool, str]:
        try:
            return self.extract_label_and_categories(prompt)
        except Exception:
            return True, "Unexpected error occurred when running Qwen3Guard guardrail."


class TextRunner:
    """Remembers the prompts that it was asked about."""

    def __init__(self, words: list[str]) -> None:
        self.safety_models: list[Any] = [Blocklist(words), Qwen3Guard()]
        self.seen: list[str] = []

    def run_safety_check(self, input: str) -> tuple[bool, str]:
        self.seen.append(input)
        return all(guardrail.is_safe(input)[0] for guardrail in self.safety_models), ""


class VideoRunner:
    """Remembers the shapes of the frames that it checked. It raises if `broken`, and refuses if `blocks` is set."""

    def __init__(self) -> None:
        self.safety_models: list[Any] = []
        self.postprocessors = ["RetinaFaceFilter"]
        self.seen: list[tuple[int, ...]] = []
        self.broken = self.blocks = False

    def run_safety_check(self, input: np.ndarray) -> tuple[bool, str]:
        self.seen.append(input.shape)
        return not self.blocks, ""

    def postprocess(self, frames: np.ndarray) -> np.ndarray:
        if self.broken:
            raise RuntimeError("the face detector failed")
        frames = frames.copy()
        frames[:, :CORNER, :CORNER] = GREY
        return frames


class Checker:
    """A checker of guardrails with the methods that Diffusers calls."""

    def __init__(self, words: list[str]) -> None:
        self.text_guardrail, self.video_guardrail = TextRunner(words), VideoRunner()

    def to(self, *_: object) -> None:
        """Do nothing: the checker has no weights that could be moved to a device."""

    def check_text_safety(self, prompt: str) -> bool:
        self.video_guardrail.blocks = "unseemly" in prompt
        return self.text_guardrail.run_safety_check(prompt)[0]

    def check_video_safety(self, frames: np.ndarray) -> np.ndarray | None:
        safe, _ = self.video_guardrail.run_safety_check(frames)
        return self.video_guardrail.postprocess(frames) if safe else None

"""Cosmos 3's transformer that takes every second step's change, in the middle of the denoising, from the step before.

What the layers add to the noise's stream changes little from one step to the next: a skipped step adds what was added
last, without the layers. Which steps these are follows from their number alone, so that the time is known beforehand.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from cosmos_batch.engines.generator.diffusers.understanding import ReadingOnce

FIRST = LAST = 4
"""So many steps are computed at the beginning, and at the end."""


def is_skipped(step: int, steps: int) -> bool:
    """Of 35 steps, 14 are."""
    return FIRST <= step < steps - LAST and (step - FIRST) % 2 == 0


class SkippingSteps(ReadingOnce):
    """That transformer. A step has several passes, such as for the prompt and for the negative prompt: each has its own
    change.
    """

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While a job is made, its changes are kept."""
        self._changes: dict[tuple[str, int], Tensor] = {}
        with super().reading():
            try:
                yield
            finally:
                self._changes.clear()

    @contextmanager
    def cache_context(self, name: str, **where: Any) -> Iterator[None]:
        """Diffusers tells here which pass of which step comes."""
        self._pass, self._step, self._steps = name, where["step_index"], where["num_inference_steps"]
        with super().cache_context(name, **where):
            yield

    def _through_layers(self, noise: Tensor, *others: Any) -> Tensor:
        change = self._changes.pop((self._pass, self._step - 1), None)
        if change is not None:
            return noise + change
        behind = super()._through_layers(noise, *others)
        if is_skipped(self._step + 1, self._steps):
            self._changes[self._pass, self._step] = behind - noise
        return behind

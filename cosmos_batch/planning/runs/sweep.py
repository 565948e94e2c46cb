"""Repeat the inputs of a run with each of several prompts and seeds. Shards repeat them for each pipeline."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.runs import RunItem, RunRequest


@dataclass(frozen=True)
class Sweep:
    """The prompts and seeds of a sweep: every input is asked with each of them. One prompt and one seed repeat nothing.

    Prompts are numbered from 1. A line with a prompt of its own is asked that one alone.
    """

    prompts: Sequence[str] = ()
    seeds: Sequence[int] = ()

    @property
    def varies(self) -> bool:
        """Return whether an input becomes more than one item."""
        return len(self.prompts) > 1 or len(self.seeds) > 0

    def items(self, item: RunItem, request: RunRequest) -> Iterator[RunItem]:
        """Yield the items of one input."""
        if not self.varies:
            yield item
            return
        has_own = len(self.prompts) < 2 or item.prompt is not None
        numbers: Iterable[int | None] = [None] if has_own else range(1, len(self.prompts) + 1)
        seeds: Iterable[int | None] = self.seeds or [None]
        for number, seed in itertools.product(numbers, seeds):
            yield self._variant(item, request, number, seed)

    def _variant(self, item: RunItem, request: RunRequest, number: int | None, seed: int | None) -> RunItem:
        variant: dict[str, JsonValue] = dict(item.variant)
        changes: dict[str, object] = {}
        if number is not None:
            variant["prompt"] = number
            changes["prompt"] = self.prompts[number - 1]
        if seed is not None:
            variant["seed"] = seed
            changes.update(_with_seed(item, request, seed))
        name = ",".join(f"{name}={value}" for name, value in variant.items())
        return item.model_copy(update={**changes, "variant": variant, "id": f"{item.id}#{name}" if name else item.id})


def _with_seed(item: RunItem, request: RunRequest, seed: int) -> dict[str, object]:
    """Return the changed field of an item: its parameters, or the run's, with a seed."""
    if request.generation is not None:
        generation = item.generation or request.generation
        return {"generation": generation.overridden_by(GenerationParameters(seed=seed))}
    return {"parameters": (item.parameters or request.parameters).model_copy(update={"seed": seed})}


def merged_parameters(request: RunRequest, own: Parameters) -> Parameters:
    """Return the run's parameters with those that a line sets in their place."""
    return request.parameters.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})

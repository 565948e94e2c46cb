"""Profile of one generation: the seconds of each part of the pipeline and of each kind of GPU kernel."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from benchmarks.kernel_trace import LONGEST, kernel_kind


@dataclass
class Profile:
    """For each part: its calls, its seconds on the host, and its seconds on the GPU from start to end.

    For a part that waits for the GPU, as Diffusers' own scheduler does, the wait counts as the host's time and not as
    the GPU's.
    """

    calls: dict[str, int] = field(default_factory=dict)
    host: dict[str, float] = field(default_factory=dict)
    _events: dict[str, list[tuple[Any, Any]]] = field(default_factory=dict)

    def seconds(self) -> dict[str, dict[str, float]]:
        """Return the profile in seconds; without a GPU it has the host's seconds only."""
        gpu = {
            part: sum(began.elapsed_time(ended) for began, ended in pairs) / 1000
            for part, pairs in self._events.items()
        }
        return {
            part: {"calls": calls, "host": round(self.host[part], 3)}
            | ({"gpu": round(gpu[part], 3)} if part in gpu else {})
            for part, calls in self.calls.items()
        }

    def watched(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function wrapped so that its time is recorded."""
        import torch

        on_gpu = torch.cuda.is_available()

        def timed(*arguments: Any, **named: Any) -> Any:
            began, events = time.perf_counter(), _events() if on_gpu else None
            if events:
                events[0].record()
            result = function(*arguments, **named)
            if events:
                events[1].record()
                self._events.setdefault(part, []).append(events)
            self.calls[part] = self.calls.get(part, 0) + 1
            self.host[part] = self.host.get(part, 0.0) + time.perf_counter() - began
            return result

        return timed


def kernels(run: Callable[[], Any]) -> dict[str, dict[str, float]]:
    """Return the GPU's seconds by kind of kernel, and of the longest kernels by name; empty without a GPU."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    if not torch.cuda.is_available():
        return {}
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run()
    seconds = {one.key: one.self_device_time_total / 1e6 for one in profiler.key_averages()}
    totals: dict[str, float] = {}
    for name, took in seconds.items():
        kind = kernel_kind(name)
        totals[kind] = totals.get(kind, 0.0) + took
    longest = sorted(seconds.items(), key=lambda item: -item[1])[:LONGEST]
    return {
        "kinds": {kind: round(took, 3) for kind, took in totals.items() if took},
        "longest": {name: round(took, 4) for name, took in longest},
    }


def _events() -> tuple[Any, Any]:
    import torch

    event: Any = torch.cuda.Event
    return event(enable_timing=True), event(enable_timing=True)


@contextmanager
def profiled(omni: Any) -> Iterator[Profile]:
    """Profile one generation of a `Cosmos3OmniPipeline` while the context lasts."""
    import diffusers

    profile, scheduler = Profile(), diffusers.UniPCMultistepScheduler
    watched: list[tuple[Any, str, str]] = [
        (omni.transformer, "forward", "transformer"),
        (omni.vae, "_decode_chunk" if hasattr(omni.vae, "decode_chunks") else "decode", "vae"),
        (scheduler, "step", "scheduler"),
        (omni.video_processor, "postprocess_video", "frames"),
    ]
    with ExitStack() as stack:
        for owner, name, part in watched:
            stack.enter_context(patch.object(owner, name, profile.watched(part, getattr(owner, name))))
        yield profile

"""The scheduler of Diffusers' generations, which lets the host prepare a step while the GPU computes the one before."""

from typing import Any

from diffusers import UniPCMultistepScheduler


class TimestepsOnHost(UniPCMultistepScheduler):  # type: ignore[misc] # its base class has no types
    """Diffusers' UniPC, whose timesteps stay in the host's memory.

    The pipelines read each timestep as a number. From a GPU's memory that takes until the GPU has done all work before,
    and then the GPU waits until the host has prepared the step.
    """

    def set_timesteps(self, num_inference_steps: int | None = None, device: Any = None, **options: Any) -> None:  # noqa: ARG002 - Diffusers' signature
        """Set the timesteps as Diffusers does, but never move them to `device`."""
        super().set_timesteps(num_inference_steps, None, **options)

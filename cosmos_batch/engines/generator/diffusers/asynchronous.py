"""Steps of a `Cosmos3OmniPipeline` whose work a GPU's host can queue without waiting for results (decision 041).

Diffusers reads numbers back from the GPU several times in each step. Each time, the host waits until the GPU has
nothing left to do, and the GPU then waits until the host has prepared the next pass.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from diffusers import UniPCMultistepScheduler
from torch import Tensor


class AsynchronousUniPC(UniPCMultistepScheduler):
    """Diffusers' UniPC, whose timesteps and coefficients are computed on the host.

    Both of its updates return a sum of tensors, each times a coefficient that depends on the noise levels alone.
    Diffusers' own code computes the coefficients, from unit vectors in place of the tensors. Diffusers computes them on
    the GPU in each step, and waits for several of them. The sum is rounded otherwise.
    """

    model_outputs: list[Any]

    def set_timesteps(self, *arguments: Any, device: Any = None, **named: Any) -> None:  # noqa: ARG002 - overridden
        """Set the timesteps of a generation, whatever device they are to be used on."""
        super().set_timesteps(*arguments, device="cpu", **named)

    def multistep_uni_p_bh_update(
        self,
        model_output: Tensor,  # noqa: ARG002 - overridden
        *,
        sample: Tensor,
        order: int,
    ) -> Tensor:
        """Predict the sample of the next step from this one's and from the last `order` outputs of the model."""
        predict = super().multistep_uni_p_bh_update

        def coefficients(units: Sequence[Tensor]) -> Tensor:
            predicted: Tensor = predict(units[0], sample=units[0], order=order)
            return predicted

        return self._combined(coefficients, [sample], order)

    def multistep_uni_c_bh_update(
        self,
        this_model_output: Tensor,
        *,
        last_sample: Tensor,
        this_sample: Tensor,  # noqa: ARG002 - overridden
        order: int,
    ) -> Tensor:
        """Correct a predicted sample by the model's output for it."""
        correct = super().multistep_uni_c_bh_update

        def coefficients(units: Sequence[Tensor]) -> Tensor:
            corrected: Tensor = correct(units[0], last_sample=units[1], this_sample=units[0], order=order)
            return corrected

        return self._combined(coefficients, [this_model_output, last_sample], order)

    def _combined(
        self, coefficients: Callable[[Sequence[Tensor]], Tensor], own: Sequence[Tensor], order: int
    ) -> Tensor:
        """Return what an update computes from tensors of its own, the last of which is a sample, and from the last
        `order` outputs of the model."""
        outputs = self.model_outputs[-order:]
        units = torch.eye(len(own) + order, dtype=torch.float64).unsqueeze(1).unbind()
        kept, self.model_outputs = self.model_outputs, list(units[len(own) :])
        try:
            weights = coefficients(units).flatten().tolist()
        finally:
            self.model_outputs = kept
        combined: Any = sum(weight * tensor for weight, tensor in zip(weights, [*own, *outputs], strict=True))
        result: Tensor = combined.to(own[-1].dtype)
        return result


def mask_velocities(
    preds_vision: list[Tensor],
    preds_sound: list[Tensor] | None,
    vision_condition_mask: list[Tensor],
    sound_condition_mask: list[Tensor] | None = None,
    preds_action: list[Tensor] | None = None,
    action_condition_mask: list[Tensor] | None = None,
    raw_action_dim: int | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return velocities of video, sound and actions that are zero for what conditions the generation.

    It replaces the pipeline's `_mask_velocity_predictions`, which first asks the GPU whether anything remains.
    """
    sound = action = None
    if preds_sound is not None and sound_condition_mask is not None:
        sound = _masked(preds_sound[0], sound_condition_mask[0].T)
    if preds_action is not None and action_condition_mask is not None:
        action = _masked(preds_action[0], action_condition_mask[0])
        if raw_action_dim is not None:
            action[:, raw_action_dim:] = 0
    return _masked(preds_vision[0], vision_condition_mask[0]), sound, action


def _masked(prediction: Tensor, mask: Tensor) -> Tensor:
    return prediction * (1.0 - mask).to(dtype=prediction.dtype, device=prediction.device)

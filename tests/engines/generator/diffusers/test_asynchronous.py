"""The host queues the work of all steps without reading a number back from the device."""

import copy
from typing import Any

import pytest
import torch

from cosmos_batch.engines.library_imports import import_diffusers

STEPS = 6
LATENTS = (1, 4, 3, 2, 2)  # batch, channels, frames, height, width


@pytest.fixture(params=[1, 2, 3])
def schedulers(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Return Diffusers' scheduler and ours, with the settings of Cosmos 3 but for the order."""
    diffusers = import_diffusers()
    from cosmos_batch.engines.generator.diffusers.asynchronous import AsynchronousUniPC

    theirs = diffusers.UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=5.0, solver_order=request.param
    )
    return theirs, AsynchronousUniPC.from_config(theirs.config)


def samples(scheduler: Any) -> list[torch.Tensor]:
    """Return the sample after each step, for outputs of a model that follow from the sample."""
    scheduler.set_timesteps(STEPS, device="cpu")
    sample, found = torch.randn(LATENTS, generator=torch.Generator().manual_seed(1)), []
    for timestep in scheduler.timesteps:
        sample = scheduler.step((sample * 1.7 + timestep / 1000).sin(), timestep, sample, return_dict=False)[0]
        found.append(sample)
    return found


def test_each_step_is_that_of_diffusers(schedulers: tuple[Any, Any]) -> None:
    theirs, ours = map(samples, schedulers)
    assert len(ours) == STEPS
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_step_reads_no_number_back_from_the_device(schedulers: tuple[Any, Any]) -> None:
    # Tensors of the device `meta` have no numbers, so each read raises an error.
    scheduler = schedulers[1]
    scheduler.set_timesteps(STEPS, device="meta")
    assert scheduler.timesteps.device.type == "cpu"
    sample = torch.empty(LATENTS, device="meta")
    for timestep in scheduler.timesteps:
        sample = scheduler.step(torch.empty_like(sample), timestep, sample, return_dict=False)[0]
    assert sample.device.type == "meta"


def test_a_generation_with_sound_has_two_independent_schedulers(schedulers: tuple[Any, Any]) -> None:
    scheduler = schedulers[1]
    scheduler.set_timesteps(STEPS, device="cpu")
    second = copy.deepcopy(scheduler)
    expected = samples(schedulers[0])
    samples(scheduler)
    torch.testing.assert_close(samples(second)[-1], expected[-1], rtol=1e-4, atol=1e-5)


def test_an_update_that_fails_leaves_the_outputs_of_the_model(
    schedulers: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = schedulers[1]
    scheduler.set_timesteps(STEPS, device="cpu")
    sample = torch.ones(LATENTS)
    scheduler.step(sample, scheduler.timesteps[0], sample)
    before = list(scheduler.model_outputs)

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(type(scheduler).__mro__[1], "multistep_uni_p_bh_update", fail)
    with pytest.raises(MemoryError):
        scheduler.multistep_uni_p_bh_update(sample, sample=sample, order=1)
    assert all(one is other for one, other in zip(scheduler.model_outputs, before, strict=True))


@pytest.mark.parametrize("conditioned", [0, 1, 3], ids=["none", "first frame", "all"])
def test_velocities_are_masked_as_diffusers_masks_them(conditioned: int) -> None:
    diffusers = import_diffusers()
    from cosmos_batch.engines.generator.diffusers.asynchronous import mask_velocities

    def predictions(*shape: int) -> list[torch.Tensor]:
        return [torch.randn(shape, generator=torch.Generator().manual_seed(2)).bfloat16()]

    def mask(*shape: int) -> list[torch.Tensor]:
        return [(torch.arange(3) < conditioned).float().reshape(shape)]

    arguments: dict[str, Any] = {
        "preds_vision": predictions(1, 4, 3, 2, 2),
        "vision_condition_mask": mask(3, 1, 1),
        "preds_sound": predictions(5, 3),
        "sound_condition_mask": mask(3, 1),
        "preds_action": predictions(3, 7),
        "action_condition_mask": mask(3, 1),
        "raw_action_dim": 4,
    }
    theirs = diffusers.Cosmos3OmniPipeline._mask_velocity_predictions(**arguments)
    for one, other in zip(mask_velocities(**arguments), theirs, strict=True):
        assert one is not None
        assert torch.equal(one, other)
        assert one.dtype == other.dtype
    without = {name: arguments[name] for name in ("preds_vision", "vision_condition_mask")}
    assert mask_velocities(preds_sound=None, **without)[1:] == (None, None)


def test_masking_reads_no_number_back_from_the_device() -> None:
    import_diffusers()
    from cosmos_batch.engines.generator.diffusers.asynchronous import mask_velocities

    prediction = torch.empty(1, 4, 3, 2, 2, device="meta")
    masked = mask_velocities([prediction], None, [torch.empty(3, 1, 1, device="meta")])[0]
    assert masked.shape == prediction.shape

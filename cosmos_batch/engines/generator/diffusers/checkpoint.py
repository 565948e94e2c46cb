"""Loading a generator's checkpoint and guardrails with Diffusers."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.engines.checkpoints import GENERATORS, fixed_noise_levels, loading, refuse_incomplete
from cosmos_batch.engines.generator.diffusers.acceleration import (
    Accelerations,
    accelerate,
    accelerated,
    conditioning_latents,
    warm_up,
)
from cosmos_batch.engines.generator.diffusers.lossy import apply_lossy_modes, refuse_lossy_modes
from cosmos_batch.engines.generator.guardrails import GUARDRAIL_PACKAGE, guardrails_failed
from cosmos_batch.engines.hub_cache import offline_process
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.library_imports import import_diffusers
from cosmos_batch.engines.strict_guardrails import make_strict

# These loggers write prompts, and the parts that guardrails refused, into the log: they are disabled.
_PROMPT_LOGGERS = ("cosmos_guardrail.cosmos_guardrail", "diffusers.modular_pipelines.modular_pipeline")


@dataclass(frozen=True)
class LoadedGuardrails:
    """Loaded guardrails.

    Attributes
    ----------
    checker
        `CosmosSafetyChecker` of `cosmos_guardrail`, made strict.
    by
        Name and version of `cosmos_guardrail`.
    verdicts
        The verdicts on the job that is being generated, by what was checked. One job is generated at a time.
    """

    checker: Any
    by: str
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def checks(self) -> Checks:
        """Return the verdicts so far, for the job's document."""
        return Checks.model_validate({"by": self.by, **self.verdicts})


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A loaded model in two Diffusers pipelines that share all weights.

    Attributes
    ----------
    name
        The name of its folder.
    omni
        `Cosmos3OmniPipeline`, for all modes but `transfer`.
    modular
        `Cosmos3OmniModularPipeline`, for `transfer`; of a distilled model `Cosmos3DistilledModularPipeline`, for all
        modes.
    fixed_steps
        The number of steps that the model is distilled to; None if it is not distilled.
    device
        `cuda` or `cpu`.
    guardrails
        The guardrails, which a job may use or not; None if none are loaded.
    accelerations
        The accelerations that were applied.
    lossy
        The lossy modes that were applied.
    """

    name: str
    omni: Any
    modular: Any
    fixed_steps: int | None
    device: str
    guardrails: LoadedGuardrails | None
    accelerations: Accelerations
    lossy: Sequence[LossyMode] = ()

    def accelerated_job(self, generation: Generation) -> AbstractContextManager[None]:
        """Return a context in which one job is generated with all accelerations."""
        pipeline = self.omni if self.fixed_steps is None else self.modular
        return accelerated(pipeline, self.accelerations, conditioning_latents(generation))

    def warm_up(self, journal: Journal) -> None:
        """Generate a small video before the first job; see `acceleration.warm_up`."""
        needed = "fp8Attention" in self.lossy
        warm_up(self.omni, self.accelerations, self.device, journal, needs_flash_attention=needed)


def import_libraries(journal: Journal) -> None:
    """Import torch and Diffusers, which takes seconds, and silence the loggers that would write down prompts."""
    import torch

    diffusers = import_diffusers()
    diffusers.utils.logging.disable_progress_bar()
    for name in _PROMPT_LOGGERS:
        logging.getLogger(name).disabled = True
    journal.note(f"imported torch {torch.__version__}, diffusers {diffusers.__version__}")


def load_checkpoint(
    folder: Path,
    guardrails: LoadedGuardrails | None,
    offload: bool,
    accelerations: Accelerations,
    journal: Journal,
    lossy: Sequence[LossyMode] = (),
) -> LoadedCheckpoint:
    """Load a checkpoint in bfloat16 on a GPU, or in float32 on a CPU, without network access.

    With `offload`, the transformer's layers stay in the host's memory, and each is copied to the GPU while the one
    before computes. This excludes the accelerations that change layers, because Diffusers' offloading hooks need each
    layer to be called once in each pass, and the fused decoder, because memory is short.

    Raises Failure: ModelUnavailable if the folder holds no complete checkpoint; EngineFailed if a lossy mode is
    impossible on this machine.
    """
    refuse_incomplete(folder, "model_index.json", models=GENERATORS)
    noise_levels = fixed_noise_levels(folder)
    refuse_lossy_modes(lossy, offload)
    import torch

    diffusers: Any = import_module("diffusers")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if offload:
        left_out = dict.fromkeys(("cached_prompts", "flash_attention", "compiled", "fused_decoder"), False)
        accelerations = replace(accelerations, **left_out)
    with loading(folder, GENERATORS), journal.listening("diffusers"):
        omni = diffusers.Cosmos3OmniPipeline.from_pretrained(
            folder,
            # Where a CPU has no bfloat16 arithmetic, torch emulates it hundreds of times slower than float32.
            dtype=torch.bfloat16 if device == "cuda" else torch.float32,
            local_files_only=True,
            use_safetensors=True,
            safety_checker=guardrails.checker if guardrails else None,
            enable_safety_checker=guardrails is not None,  # else the setting saved in the checkpoint holds
        )
        _place(omni, device, offload)
        accelerate(omni, accelerations, device, journal)
        apply_lossy_modes(omni, lossy)
        modular = _modular(diffusers, omni, noise_levels)
    omni.set_progress_bar_config(disable=True)
    _hide_bars(modular._blocks)
    where = f"{device}, its layers offloaded" if offload else device
    journal.note(
        f"loaded {folder.name} on {where}; guardrails {'on' if guardrails else 'off'}; "
        f"lossy: {', '.join(lossy) or 'no'}"
    )
    fixed_steps = None if noise_levels is None else len(noise_levels)
    return LoadedCheckpoint(folder.name, omni, modular, fixed_steps, device, guardrails, accelerations, lossy)


def load_guardrails(cache: Path, models: Mapping[str, Path]) -> LoadedGuardrails | None:
    """Load the guardrails of `cosmos_guardrail`; None if the package is not installed.

    `models` are local copies of their models, which become a Hub cache in the folder `cache`; see `offline_process`.
    Raises Failure (EngineFailed) if they do not load, or if `make_strict` does not know their parts.
    """
    diffusers: Any = import_module("diffusers")
    if not diffusers.utils.is_cosmos_guardrail_available():
        return None
    try:
        with offline_process(cache, models):
            guardrails = LoadedGuardrails(
                import_module(GUARDRAIL_PACKAGE).CosmosSafetyChecker(),
                f"{GUARDRAIL_PACKAGE} {version(GUARDRAIL_PACKAGE)}",
            )
        make_strict(
            guardrails.checker.text_guardrail, guardrails.checker.video_guardrail, guardrails.verdicts.__setitem__
        )
        return guardrails
    except Exception as error:
        raise guardrails_failed(f"{type(error).__name__}: {error}") from error


def _place(omni: Any, device: str, offload: bool) -> None:
    """Move the pipeline to the device, or only its parts beside an offloaded transformer.

    The pipeline's own `enable_group_offload` does not work with `Cosmos3OmniPipeline`.
    """
    import torch

    if not offload:
        omni.to(device)
        return
    for part in omni.components.values():
        if isinstance(part, torch.nn.Module) and part is not omni.transformer:
            part.to(device)
    omni.transformer.enable_group_offload(
        onload_device=torch.device(device),
        offload_device=torch.device("cpu"),
        offload_type="block_level",
        num_blocks_per_group=1,
        use_stream=device == "cuda",
    )


def _modular(diffusers: Any, omni: Any, noise_levels: Sequence[float] | None) -> Any:
    if noise_levels is None:
        modular = diffusers.Cosmos3OmniModularPipeline()
    else:
        modular = diffusers.Cosmos3DistilledModularPipeline()
        modular.update_components(distilled_sigmas=list(noise_levels))
    modular.update_components(**{name: part for name, part in omni.components.items() if name != "safety_checker"})
    if omni.safety_checker is not None:
        modular.enable_safety_checker(omni.safety_checker)
    return modular


def _hide_bars(block: Any) -> None:
    """Disable the progress bars of all nested blocks; Diffusers' own method disables those of the outermost blocks."""
    for inner in block.sub_blocks.values():
        if hasattr(inner, "set_progress_bar_config"):
            inner.set_progress_bar_config(disable=True)
        _hide_bars(inner)

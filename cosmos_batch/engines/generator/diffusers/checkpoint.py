"""Loading a generator with Diffusers."""

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
from cosmos_batch.engines.checkpoints import GENERATORS, loading, refuse_distilled, refuse_incomplete
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

# Loggers that would write down what a guardrail found in a prompt, or the prompt with it.
_TALKATIVE = ("cosmos_guardrail.cosmos_guardrail", "diffusers.modular_pipelines.modular_pipeline")


@dataclass(frozen=True)
class LoadedGuardrails:
    """Loaded guardrails.

    Attributes
    ----------
    checker
        `CosmosSafetyChecker` of `cosmos_guardrail`, made strict.
    by
        Name and version of that package.
    verdicts
        What it said of the job that is being generated: one job is at a time.
    """

    checker: Any
    by: str
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def checks(self) -> Checks:
        """The verdicts so far, for the job's document."""
        return Checks.model_validate({"by": self.by, **self.verdicts})


@dataclass(frozen=True)
class LoadedCheckpoint:
    """One model in two pipelines that share every weight: Diffusers has transfer in a modular one only.

    Attributes
    ----------
    omni
        `Cosmos3OmniPipeline`: all modes but transfer.
    modular
        `Cosmos3OmniModularPipeline`: transfer.
    device
        Where it computes.
    guardrails
        Its guardrails, which each job may have or leave; None where there are none.
    accelerations
        What was taken to make it fast.
    """

    omni: Any
    modular: Any
    device: str
    guardrails: LoadedGuardrails | None
    accelerations: Accelerations

    def accelerated_job(self, asked: Generation) -> AbstractContextManager[None]:
        """While one job is made."""
        return accelerated(self.omni, self.accelerations, conditioning_latents(asked))

    def warm_up(self, journal: Journal) -> None:
        """Before the first job."""
        warm_up(self.omni, self.accelerations, self.device, journal)


def import_libraries(journal: Journal) -> None:
    """Import what every load needs, which takes seconds."""
    import torch

    diffusers = import_diffusers()
    diffusers.utils.logging.disable_progress_bar()
    for name in _TALKATIVE:
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
    """Load a checkpoint in bfloat16 on a GPU, or in float32 on a CPU; nothing is asked of the network.

    With `offload`, the transformer's layers wait in the host's memory, and each is moved while the one before computes.
    Then they run as Diffusers wrote them: what moves them counts on each being called once in a pass.

    `guardrails` are its guardrails, if it has any; a job that wants what is not there is refused. Raises Failure
    (ModelUnavailable) where the folder holds no checkpoint, or a broken one, and (EngineFailed) where the lossy modes
    cannot be had.
    """
    refuse_incomplete(folder, "model_index.json", models=GENERATORS)
    refuse_distilled(folder)
    refuse_lossy_modes(lossy, offload)
    import torch

    diffusers: Any = import_module("diffusers")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if offload:
        accelerations = replace(accelerations, cached_prompts=False, flash_attention=False, compiled=False)
    with loading(folder, GENERATORS), journal.listening("diffusers"):
        omni = diffusers.Cosmos3OmniPipeline.from_pretrained(
            folder,
            # Where a CPU has no bfloat16 arithmetic, torch emulates it hundreds of times slower than float32.
            dtype=torch.bfloat16 if device == "cuda" else torch.float32,
            local_files_only=True,
            use_safetensors=True,
            safety_checker=guardrails.checker if guardrails else None,
            enable_safety_checker=guardrails is not None,  # what was saved would be inherited
        )
        _place(omni, device, offload)
        accelerate(omni, accelerations, device, journal)
        apply_lossy_modes(omni, lossy)
        modular = _modular(diffusers, omni)
    omni.set_progress_bar_config(disable=True)
    _hide_bars(modular._blocks)
    where = f"{device}, its layers offloaded" if offload else device
    journal.note(
        f"loaded {folder.name} on {where}; guardrails {'on' if guardrails else 'off'}; "
        f"lossy: {', '.join(lossy) or 'no'}"
    )
    return LoadedCheckpoint(omni, modular, device, guardrails, accelerations)


def load_guardrails(cache: Path, models: Mapping[str, Path]) -> LoadedGuardrails | None:
    """Load `cosmos_guardrail`'s checker, if that is installed; for `models`, see `offline_process`.

    Raises Failure where it does not load, or is not one of which is known how it fails.
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
    """`enable_group_offload` of a whole pipeline does not work with this one."""
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


def _modular(diffusers: Any, omni: Any) -> Any:
    modular = diffusers.Cosmos3OmniModularPipeline()
    modular.update_components(**{name: part for name, part in omni.components.items() if name != "safety_checker"})
    if omni.safety_checker is not None:
        modular.enable_safety_checker(omni.safety_checker)
    return modular


def _hide_bars(block: Any) -> None:
    """The modular pipeline hides those of its outermost blocks, and the steps are counted further in."""
    for inner in block.sub_blocks.values():
        if hasattr(inner, "set_progress_bar_config"):
            inner.set_progress_bar_config(disable=True)
        _hide_bars(inner)

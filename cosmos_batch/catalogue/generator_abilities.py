"""Define the fields that tell what a generator engine can do, for its row in the registry (`catalogue/engines.py`)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cosmos_batch.catalogue.generation import MODES, SIZES, LossyMode, Mode, Resolution

Axis = Literal["tp", "cfg", "ulysses"]

_ALL: tuple[Mode, ...] = tuple(MODES)
_WITH_SOUND: tuple[Mode, ...] = tuple(name for name, rules in MODES.items() if rules.sound)
PLAIN_VIDEOS: tuple[Mode, ...] = ("t2v", "i2v", "v2v")
ACTIONS: tuple[Mode, ...] = tuple(name for name, rules in MODES.items() if rules.action)

PROMPT_CHECKER = "Qwen/Qwen3Guard-Gen-0.6B"
COSMOS_GUARDRAIL = ("nvidia/Cosmos-1.0-Guardrail", PROMPT_CHECKER)
"""The models that the package `cosmos_guardrail` loads from the Hub."""

# Megapixels of all frames together, and the peak GiB beside weights and VAE. Each GPU of a parallel plan needs all of
# it, because each decodes the whole video with its VAE. Measured with Diffusers and with an input video to encode; text
# to video, which encodes none, takes up to 0.9 less.
PEAKS_OF_DIFFUSERS = ((0.0, 1.8), (11.6, 1.8), (75.5, 5.9), (174.2, 12.4))

# Cosmos Framework has these domains since its release of August 2026.
NEWER_DOMAINS = (
    *("xdof_yam", "molmoact2_yam", "abc_yam", "maniparena", "robotwin"),
    *("behavior1k_lerobot", "drawanything"),
)


@dataclass(frozen=True)
class GeneratorAbilities:
    """The abilities of one generator engine: it can do what is listed here and nothing else.

    Attributes
    ----------
    modes
        Modes that it can run.
    sound
        Modes in which it can generate sound.
    guardrail_models
        The models that its guardrails load from the Hub, by name; empty if it has no guardrails.
    unguarded
        Modes in which its guardrails check nothing.
    steps_limit
        The most denoising steps; None if it has no limit of its own.
    fewest_frames
        The fewest frames of a video without actions.
    long_transfers
        Whether a transfer may have more frames than other videos of its size can have.
    table_sizes
        Modes in which it can generate only the sizes of NVIDIA's table.
    tiers
        The tiers of NVIDIA's table that it has, in these modes.
    whole_fps
        Whether it accepts whole frame rates only.
    weights
        Whether control videos can have different weights.
    one_upload
        Whether its server takes one file with a request, so that a transfer by an endpoint has one control.
    flow_shift
        The flow shift that its worker is started with; None if each job has its own.
    forward_only
        Domains whose actions it can follow, but not predict.
    unknown_domains
        Domains that it does not have.
    domain_names
        Its own names of domains, where they differ from ours.
    domain_ids
        NVIDIA's numbers of domains that it accepts by number only.
    axes
        The ways in which it can share one job among GPUs.
    exclusive_axes
        Whether it can either shard the weights or share the job, but not both: it shards them over all of its
        processes, which then share the job too.
    offload
        Whether it can keep layers in the host's memory.
    lossy
        Modes in which it is faster and changes the result.
    distilled
        Whether it runs models that are distilled to a few fixed steps.
    fastest_on
        The kinds of GPUs, keys of `hardware.GPUS`, of which one made Nano's videos faster with it than with the other
        engines that were measured there.
    memory_peaks
        Megapixels of all frames together, and the peak GiB of a GPU beside weights and VAE, in ascending order. An
        engine that was not measured is assumed to need as much as Diffusers.
    """

    modes: tuple[Mode, ...] = _ALL
    sound: tuple[Mode, ...] = _WITH_SOUND
    guardrail_models: tuple[str, ...] = COSMOS_GUARDRAIL
    unguarded: tuple[Mode, ...] = ()
    guidance_least: float = 0
    guidance_limit: float = math.inf
    fps_least: float = 0
    fps_limit: float = math.inf
    steps_limit: int | None = None
    fewest_frames: int = 0
    long_transfers: bool = True
    table_sizes: tuple[Mode, ...] = ()
    tiers: tuple[Resolution, ...] = tuple(SIZES)
    whole_fps: bool = False
    weights: bool = True
    one_upload: bool = False
    flow_shift: float | None = None
    forward_only: tuple[str, ...] = ()
    unknown_domains: tuple[str, ...] = ()
    domain_names: Mapping[str, str] = field(default_factory=dict)
    domain_ids: Mapping[str, int] = field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    exclusive_axes: bool = False
    offload: bool = False
    lossy: tuple[LossyMode, ...] = ()
    distilled: bool = False
    fastest_on: tuple[str, ...] = ()
    memory_peaks: tuple[tuple[float, float], ...] = PEAKS_OF_DIFFUSERS

    @property
    def guardrails(self) -> bool:
        """Return whether the engine has guardrails."""
        return bool(self.guardrail_models)

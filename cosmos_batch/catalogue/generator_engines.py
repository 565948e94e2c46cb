"""What each engine of generators can do. docs/generator-engines.md says what was run and what was read of each.

The versions are those of the container images.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cosmos_batch.catalogue.generation import MODES, LossyMode, Mode

Axis = Literal["tp", "cfg", "ulysses"]

_ALL: tuple[Mode, ...] = tuple(MODES)
_WITH_SOUND: tuple[Mode, ...] = tuple(name for name, rules in MODES.items() if rules.sound)
_PLAIN_VIDEOS: tuple[Mode, ...] = ("t2v", "i2v", "v2v")
_ACTIONS: tuple[Mode, ...] = tuple(name for name, rules in MODES.items() if rules.action)

_PROMPT_CHECKER = "Qwen/Qwen3Guard-Gen-0.6B"
COSMOS_GUARDRAIL = ("nvidia/Cosmos-1.0-Guardrail", _PROMPT_CHECKER)
"""The models that the package `cosmos_guardrail` loads from the Hub."""

# Cosmos Framework has these domains since its release of August 2026.
_NEWER_DOMAINS = (
    *("xdof_yam", "molmoact2_yam", "abc_yam", "maniparena", "robotwin"),
    *("behavior1k_lerobot", "drawanything"),
)


@dataclass(frozen=True)
class GeneratorAbilities:
    """What one engine of generators can do.

    Attributes
    ----------
    title
        The engine's name for people.
    modes
        Modes that it can run.
    sound
        Modes in which it can generate sound.
    guardrail_models
        The models that its guardrails load from the Hub, by name; empty if it has no guardrails.
    unguarded
        Modes in which its guardrails check nothing.
    table_sizes
        Modes in which it can generate only the sizes of NVIDIA's table.
    whole_fps
        Whether it accepts whole frame rates only.
    weights
        Whether control videos can have different weights.
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
    """

    title: str
    modes: tuple[Mode, ...] = _ALL
    sound: tuple[Mode, ...] = _WITH_SOUND
    guardrail_models: tuple[str, ...] = COSMOS_GUARDRAIL
    unguarded: tuple[Mode, ...] = ()
    guidance_least: float = 0
    guidance_limit: float = math.inf
    fps_least: float = 0
    table_sizes: tuple[Mode, ...] = ()
    whole_fps: bool = False
    weights: bool = True
    flow_shift: float | None = None
    forward_only: tuple[str, ...] = ()
    unknown_domains: tuple[str, ...] = ()
    domain_names: Mapping[str, str] = field(default_factory=dict)
    domain_ids: Mapping[str, int] = field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    exclusive_axes: bool = False
    offload: bool = False
    lossy: tuple[LossyMode, ...] = ()

    @property
    def guardrails(self) -> bool:
        """Whether it has guardrails."""
        return bool(self.guardrail_models)


# The fastest first, by NVIDIA's table (inference_benchmarks.md, June 2026: Nano, 720p, one H100: 202, 208 and 240 s).
# There is no such figure for PhyAI.
GENERATOR_ABILITIES: dict[str, GeneratorAbilities] = {
    "vllm-omni": GeneratorAbilities(
        "vLLM-Omni",
        guidance_least=1,  # it does not guide at all below 1
        fps_least=1,
        table_sizes=("transfer",),
        domain_ids={"robotwin": 17},  # 0.30.0 has no name for it
        axes=("tp", "cfg", "ulysses"),
        offload=True,
    ),
    "cosmos-framework": GeneratorAbilities(
        "Cosmos Framework",
        guardrail_models=("nvidia/Cosmos-Guardrail1", _PROMPT_CHECKER),
        unguarded=("transfer",),
        guidance_limit=7,
        table_sizes=tuple(name for name in MODES if name not in _ACTIONS),
        whole_fps=True,
        forward_only=("hand_pose", "libero"),
        domain_names={
            "galbot": "embodiment_b",
            "agibot_gear_gripper": "embodiment_c_gripper",
            "agibot_gear_gripper_ext": "embodiment_c_gripper_ext",
        },
        axes=("tp", "cfg", "ulysses"),
        exclusive_axes=True,
    ),
    "diffusers": GeneratorAbilities(
        "Diffusers",
        weights=False,
        unknown_domains=("libero", *_NEWER_DOMAINS),
        offload=True,
        lossy=("fp8", "stepCache"),
    ),
    "phyai": GeneratorAbilities(
        "PhyAI",
        modes=(*_PLAIN_VIDEOS, *_ACTIONS),
        sound=("t2v", "i2v"),
        guardrail_models=(),
        guidance_least=1,
        flow_shift=10.0,
        unknown_domains=_NEWER_DOMAINS,
        axes=("tp", "cfg"),
    ),
}

FASTEST_GENERATOR = "vllm-omni"
"""The engine that `auto` stands for.

By NVIDIA's figures for Nano on an H100 with 189 frames it takes 6.97 s at 320x192 and 58.2 s at 832x480. Diffusers took
6.9 to 7.0 s and 57 s on one (`docs/benchmarks.md`), but uses one GPU for a job, so on the default instance types it
would have to offload layers; vLLM-Omni shares them among GPUs. The other engines were not run on a GPU.
"""


def guardrail_models(engine: str) -> tuple[str, ...]:
    """Return the models that an engine's guardrails load; a custom engine is assumed to use `cosmos_guardrail`."""
    return GENERATOR_ABILITIES[engine].guardrail_models if engine in GENERATOR_ABILITIES else COSMOS_GUARDRAIL

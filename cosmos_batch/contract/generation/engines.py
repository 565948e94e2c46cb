"""What each engine can do. What it cannot is refused before it works, with the engines that can.

What was run and what was read of each is in `docs/generator-engines.md`; the versions are those of the images.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.lossy import LossyMode
from cosmos_batch.contract.generation.modes import MODES, Mode
from cosmos_batch.contract.generation.parameters import GUIDANCE_LIMIT
from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.contract.generation.sizes import is_in_table

Axis = Literal["tp", "cfg", "ulysses"]

_ALL: tuple[Mode, ...] = tuple(MODES)
_WITH_SOUND: tuple[Mode, ...] = tuple(name for name, rules in MODES.items() if rules.sound)
_PLAIN_VIDEOS: tuple[Mode, ...] = ("t2v", "i2v", "v2v")
_ACTIONS: tuple[Mode, ...] = tuple(name for name, rules in MODES.items() if rules.action)
_PROMPT_CHECKER = "Qwen/Qwen3Guard-Gen-0.6B"
COSMOS_GUARDRAIL = ("nvidia/Cosmos-1.0-Guardrail", _PROMPT_CHECKER)
"""What the package `cosmos_guardrail` asks of the Hub."""


# Cosmos Framework has them since its release of August 2026.
_NEWER_DOMAINS = (
    *("xdof_yam", "molmoact2_yam", "abc_yam", "maniparena", "robotwin"),
    *("behavior1k_lerobot", "drawanything"),
)

_UNCHECKED = "set guardrails to false"


class Obstacle(NamedTuple):
    """What stands between an engine and a job."""

    reason: str
    """As the end of a sentence that begins with the engine."""

    way_out: str
    """What the caller can change, as the end of a sentence."""


@dataclass(frozen=True)
class Abilities:
    """What one engine can do, and how.

    Attributes
    ----------
    sound
        Modes with which it makes sound.
    guardrail_models
        What its guardrails load from the Hub, by name; nothing where it has none.
    unguarded
        Modes that it does not check all the same.
    table_sizes
        Modes in which it makes the sizes of NVIDIA's table alone.
    whole_fps
        Whether it takes whole frame rates alone.
    weights
        Whether one control can count more than another.
    flow_shift
        The one that its worker is started with; None where each job has its own.
    forward_only
        Domains of which it can follow actions and not predict them.
    unknown_domains
        Domains that it does not know.
    domain_names
        How it calls domains that have another name with us.
    domain_ids
        NVIDIA's numbers of domains that it takes by number alone.
    axes
        How one job can be spread over GPUs.
    exclusive_axes
        Whether GPUs that share the weights can share nothing by plan: it shards them over all of its processes, and
        has these share the job too.
    offload
        Whether layers can wait in the host's memory.
    lossy
        Modes in which it is faster and makes something else.
    """

    title: str
    modes: tuple[Mode, ...] = _ALL
    sound: tuple[Mode, ...] = _WITH_SOUND
    guardrail_models: tuple[str, ...] = COSMOS_GUARDRAIL
    unguarded: tuple[Mode, ...] = ()
    guidance_least: float = 0
    guidance_limit: float = GUIDANCE_LIMIT
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
        """Whether it has any."""
        return bool(self.guardrail_models)

    def why_not(self, asked: Generation) -> Obstacle | None:
        """The first thing that it cannot do of this; None if it can."""
        return next((found for found in self._obstacles(asked) if found), None)

    def _obstacles(self, asked: Generation) -> Iterator[Obstacle | None]:
        yield self._mode(asked)
        yield self._rates(asked)
        mode, action, size = asked.mode, asked.action, asked.size
        if mode in self.table_sizes and size is not None and not is_in_table(size):
            yield Obstacle(f"makes the sizes of NVIDIA's table, not {size}", "say resolution and aspectRatio instead")
        if self.flow_shift not in (None, asked.flow_shift):
            yield Obstacle(
                f"has a flowShift of {self.flow_shift:g} from its start, not {asked.flow_shift:g}",
                "leave flowShift out",
            )
        if asked.transfer and not self.weights and len({one.weight for one in asked.transfer.controls.values()}) > 1:
            yield Obstacle("gives all controls one weight", "leave their weights out")
        if action and action.domain_name in self.unknown_domains:
            yield Obstacle(f"does not know the domain {action.domain_name}", "use a domain that it knows")
        if action and action.domain_name in self.forward_only and mode != "forward_dynamics":
            yield Obstacle(f"predicts no actions of {action.domain_name}", "use mode forward_dynamics")

    def _mode(self, asked: Generation) -> Obstacle | None:
        mode = asked.mode
        if mode not in self.modes:
            return Obstacle(
                f"does not do {mode} ({MODES[mode].title})", f"use one of its modes: {', '.join(self.modes)}"
            )
        if asked.sound and mode not in self.sound:
            return Obstacle(f"makes no sound with {mode}", "leave sound out")
        if asked.guardrails and not self.guardrails:
            return Obstacle("has no guardrails", _UNCHECKED)
        if asked.guardrails and mode in self.unguarded:
            return Obstacle(f"has no guardrails for {mode}", _UNCHECKED)
        return None

    def _rates(self, asked: Generation) -> Obstacle | None:
        guidance, fps = asked.guidance_scale, asked.fps
        for beyond, words, limit in (
            (guidance < self.guidance_least, "at least", self.guidance_least),
            (guidance > self.guidance_limit, "at most", self.guidance_limit),
        ):
            if beyond:
                return Obstacle(
                    f"takes a guidanceScale of {limit:g} {words}, not {guidance:g}", f"set guidanceScale to {limit:g}"
                )
        if fps is not None and fps < self.fps_least:
            return Obstacle(
                f"takes an fps of {self.fps_least:g} at least, not {fps:g}", f"set fps to {self.fps_least:g} or more"
            )
        if self.whole_fps and fps is not None and fps % 1:
            return Obstacle(f"takes whole frame rates, not {fps:g}", f"set fps to {round(fps) or 1}")
        return None


# The fastest first, by NVIDIA's own table (inference_benchmarks.md, June 2026: Nano, 720p, one H100: 202, 208 and
# 240 s); of PhyAI there is no such figure.
ABILITIES: dict[str, Abilities] = {
    "vllm-omni": Abilities(
        "vLLM-Omni",
        guidance_least=1,  # below it does not guide at all
        fps_least=1,
        table_sizes=("transfer",),
        domain_ids={"robotwin": 17},  # 0.30.0 has no name for it
        axes=("tp", "cfg", "ulysses"),
        offload=True,
    ),
    "cosmos-framework": Abilities(
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
    "diffusers": Abilities(
        "Diffusers",
        weights=False,
        unknown_domains=("libero", *_NEWER_DOMAINS),
        offload=True,
        lossy=("fp8", "stepCache"),
    ),
    "phyai": Abilities(
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


FASTEST = "vllm-omni"
"""By NVIDIA's figures for Nano on an H100, 189 frames: 6.97 s at 320x192 and 58.2 s at 832x480. Diffusers as it runs
here took 6.9 to 7.0 and 57 s on one (`docs/benchmarks.md`), but gives a job one GPU: on the default instance types its
layers would wait in the host's memory, and vLLM-Omni shares them out. The other engines were not run on a GPU."""


def guardrail_models(engine: str) -> tuple[str, ...]:
    """What the guardrails of an engine load; one by its class is taken to have those of `cosmos_guardrail`."""
    return ABILITIES[engine].guardrail_models if engine in ABILITIES else COSMOS_GUARDRAIL


def engines_for(asked: Generation) -> list[str]:
    """The engines that can do this, the fastest first."""
    return [name for name, engine in ABILITIES.items() if engine.why_not(asked) is None]


def refuse_engine(name: str, asked: Generation) -> None:
    """Raises Failure where an engine of ours cannot do this; of one by its class we know nothing."""
    obstacle = ABILITIES[name].why_not(asked) if name in ABILITIES else None
    if obstacle is not None:
        can = engines_for(asked)
        others = (
            f"Use a pipeline on {' or '.join(ABILITIES[one].title for one in can)}" if can else "No engine of ours can"
        )
        raise Failure(
            "InvalidInput",
            f"{ABILITIES[name].title}, the engine of this pipeline, {obstacle.reason}.",
            f"{others}; or {obstacle.way_out}.",
        )

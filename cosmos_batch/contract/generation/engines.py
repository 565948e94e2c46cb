"""What each engine can do. What it cannot is refused before it works, with the engines that can.

What was run and what was read of each is in `docs/generator.md`; the versions are those of the images.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from cosmos_batch.contract.error import Failure
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


@dataclass(frozen=True)
class Engine:
    """Of one engine.

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
    domain_names
        How it calls domains that have another name with us.
    axes
        How one job can be spread over GPUs.
    exclusive_axes
        Whether GPUs that share the weights can share nothing by plan: it shards them over all of its processes, and
        has these share the job too.
    offload
        Whether layers can wait in the host's memory.
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
    domain_names: Mapping[str, str] = field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    exclusive_axes: bool = False
    offload: bool = False

    @property
    def guardrails(self) -> bool:
        """Whether it has any."""
        return bool(self.guardrail_models)

    def why_not(self, asked: Generation) -> str | None:
        """Why it cannot do this, as the end of a sentence; None if it can."""
        mode, action = asked.mode, asked.action
        if mode not in self.modes:
            return f"does not do {mode} ({MODES[mode].title})"
        if asked.sound and mode not in self.sound:
            return f"makes no sound with {mode}"
        if asked.guardrails and not self.guardrails:
            return "has no guardrails"
        if asked.guardrails and mode in self.unguarded:
            return f"has no guardrails for {mode}"
        if asked.guidance_scale < self.guidance_least:
            return f"takes a guidanceScale of {self.guidance_least:g} at least, not {asked.guidance_scale:g}"
        if asked.guidance_scale > self.guidance_limit:
            return f"takes a guidanceScale of {self.guidance_limit:g} at most, not {asked.guidance_scale:g}"
        if mode in self.table_sizes and asked.size is not None and not is_in_table(asked.size):
            return f"makes the sizes of NVIDIA's table, not {asked.size}"
        if asked.fps is not None and asked.fps < self.fps_least:
            return f"takes an fps of {self.fps_least:g} at least, not {asked.fps:g}"
        if self.whole_fps and asked.fps is not None and asked.fps % 1:
            return f"takes whole frame rates, not {asked.fps:g}"
        if self.flow_shift not in (None, asked.flow_shift):
            return f"has a flowShift of {self.flow_shift:g} from its start, not {asked.flow_shift:g}"
        if asked.transfer and not self.weights and len({one.weight for one in asked.transfer.controls.values()}) > 1:
            return "gives all controls one weight"
        if action and action.domain_name in self.forward_only and mode != "forward_dynamics":
            return f"predicts no actions of {action.domain_name}"
        return None


# The fastest first, by NVIDIA's own table (inference_benchmarks.md, June 2026: Nano, 720p, one H100: 202, 208 and
# 240 s); of PhyAI there is no such figure.
ENGINES: dict[str, Engine] = {
    "vllm-omni": Engine(
        "vLLM-Omni",
        guidance_least=1,  # below it does not guide at all
        fps_least=1,
        table_sizes=("transfer",),
        axes=("tp", "cfg", "ulysses"),
        offload=True,
    ),
    "cosmos-framework": Engine(
        "Cosmos Framework",
        guardrail_models=("nvidia/Cosmos-Guardrail1", _PROMPT_CHECKER),
        unguarded=("transfer",),
        guidance_limit=7,
        table_sizes=tuple(name for name in MODES if name not in _ACTIONS),
        whole_fps=True,
        forward_only=("hand_pose",),
        domain_names={
            "galbot": "embodiment_b",
            "agibot_gear_gripper": "embodiment_c_gripper",
            "agibot_gear_gripper_ext": "embodiment_c_gripper_ext",
        },
        axes=("tp", "cfg", "ulysses"),
        exclusive_axes=True,
    ),
    "diffusers": Engine("Diffusers", weights=False, offload=True),
    "phyai": Engine(
        "PhyAI",
        modes=(*_PLAIN_VIDEOS, *_ACTIONS),
        sound=("t2v", "i2v"),
        guardrail_models=(),
        guidance_least=1,
        flow_shift=10.0,
        axes=("tp", "cfg"),
    ),
}


def guardrail_models(engine: str) -> tuple[str, ...]:
    """What the guardrails of an engine load; one by its class is taken to have those of `cosmos_guardrail`."""
    return ENGINES[engine].guardrail_models if engine in ENGINES else COSMOS_GUARDRAIL


def engines_for(asked: Generation) -> list[str]:
    """The engines that can do this, the fastest first."""
    return [name for name, engine in ENGINES.items() if engine.why_not(asked) is None]


def refuse_engine(name: str, asked: Generation) -> None:
    """Raises Failure where an engine of ours cannot do this; of one by its class we know nothing."""
    reason = ENGINES[name].why_not(asked) if name in ENGINES else None
    if reason is not None:
        can = engines_for(asked)
        others = (
            f"Use a pipeline on {' or '.join(ENGINES[one].title for one in can)}" if can else "No engine of ours can"
        )
        raise Failure(
            "InvalidInput",
            f"{ENGINES[name].title}, the engine of this pipeline, {reason}.",
            f"{others}; or leave it out.",
        )

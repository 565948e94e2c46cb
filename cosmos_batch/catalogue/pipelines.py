"""The pipelines, one row each: the model, the GPUs and memory that it needs, its modes and its pace."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from cosmos_batch.catalogue.generation import MODES, Mode, ModeRules, Resolution

ATTRIBUTION = "Built on NVIDIA Cosmos"
OWN_MODELS = "cosmos-batch/"  # the prefix of names of models that this project trained, which are not NVIDIA's
RANDOM_WEIGHTS = "random-weights"  # the prefix of folder names of checkpoints with random weights, for tests and demos
PIPELINE_TAG = "cosmos-batch:pipeline"  # the tag of jobs and instances by which costs are allocated to pipelines
DEFAULT_PROMPT = "Caption the video in detail."
DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."

Surface = Literal["reasoner", "generator"]


@dataclass(frozen=True)
class GeneratorWeights:
    """The weights of a generator's model, on which the memory of a GPU depends.

    Attributes
    ----------
    layers
        The layers of the model: each keeps the keys and values of a prompt for all steps.
    gib
        GiB of weights on each GPU, by the number of GPUs that share them.
    """

    layers: int
    gib: Mapping[int, float]


@dataclass(frozen=True)
class Pipeline:
    """A way to use a model, as a reasoner or as a generator.

    Attributes
    ----------
    config_key
        The key of its settings in `config.json`.
    min_gpu_memory_gb
        The memory that each GPU of a worker must have, in GB.
    min_memory_gib
        The memory of the host that a worker needs, in GiB.
    gpus_per_worker
        The GPUs of a worker, which share the weights.
    instance_types
        The default instance types in the order of preference.
    fallback_instance_types
        The default types for when none of the preferred ones is available.
    h100_seconds
        Seconds that an H100 takes for a unit of a job's weight (`planning/pace.py`) when its worker is fully loaded.
        They are used until workers have measured their own.
    context
        Tokens of media, prompt and answer together; None for a generator.
    weights
        The weights of a generator's model; None for a reasoner.
    modes
        The modes of a generator; empty for a reasoner.
    default_tier
        The tier of a request that sets no size, where it is not that of the other generators: 720p, and 480p with
        actions. Reasons and sources are in docs/decisions/042-the-models-own-defaults.md.
    own_rules
        The rules of the modes in which the model has other ones than its family.
    """

    id: str
    config_key: str
    surface: Surface
    model: str
    model_size: str
    min_gpu_memory_gb: int
    min_memory_gib: int
    gpus_per_worker: int
    instance_types: tuple[str, ...]
    h100_seconds: float
    fallback_instance_types: tuple[str, ...] = ()
    context: int | None = None
    weights: GeneratorWeights | None = None
    modes: tuple[Mode, ...] = ()
    default_tier: Resolution | None = None
    own_rules: Mapping[Mode, ModeRules] = field(default_factory=dict)

    @property
    def is_cosmos3(self) -> bool:
        """Return whether its model is one of Cosmos 3."""
        return self.id.startswith("cosmos3-")

    def rules(self, mode: Mode) -> ModeRules:
        """Return the rules of a mode: the model's own where it has other ones than its family."""
        return self.own_rules.get(mode, MODES[mode])


# The context of every reasoner. NVIDIA's models accept 262,144 tokens, but media are scaled to fill the context: one
# long video would occupy the whole KV cache of a GPU. The most pixels of a video (seen_media.py) are 12,288 tokens and
# fit beside the longest usual answer, 4,096.
REASONER_CONTEXT = 32_768


def attribution_of(model: str) -> str | None:
    """Return what a document must say about the model that wrote it; None for a model that this project trained."""
    return None if model.startswith(OWN_MODELS) else ATTRIBUTION


# Nano's and Super's GiB were measured on an H100 (`planning/generation/memory.py`). Edge's follow from its shape:
# 2.82 billion weights in layers, which are shared, and 0.55 billion beside them, which are not.
_EDGE_WEIGHTS = GeneratorWeights(layers=28, gib={1: 6.3, 2: 3.7, 4: 2.4, 8: 1.7})
_NANO_WEIGHTS = GeneratorWeights(layers=36, gib={1: 28.3, 2: 15.3, 4: 8.9, 8: 5.6})
_SUPER_WEIGHTS = GeneratorWeights(layers=64, gib={1: 119, 2: 61, 4: 32, 8: 17.5})

# Cosmos3-Edge was trained with other settings, without a system prompt (`default_use_system_prompt` of its
# `model_index.json`) and without sound. Its recipe for videos from images is of August 2026 (model card, and discussion
# 62 there); for the other modes it has none, and these are vLLM-Omni's (`COSMOS3_EDGE_*` in `pipeline_cosmos3.py`,
# 0.30.0).
_EDGE_RULES: dict[Mode, ModeRules] = {
    "t2i": replace(MODES["t2i"], system_prompt=False),
    "t2v": replace(MODES["t2v"], guidance_scale=5.0, flow_shift=3.0, sound=False, system_prompt=False),
    "i2v": replace(MODES["i2v"], steps=20, flow_shift=12.0, frames=121, sound=False, system_prompt=False),
}


def _super(
    pipeline_id: str,
    config_key: str,
    model: str,
    modes: tuple[Mode, ...],
    default_tier: Resolution | None = None,
) -> Pipeline:
    """Return a 64B generator. Four GPUs of 48 GB or more share its 119 GiB of weights."""
    return Pipeline(
        id=pipeline_id,
        config_key=config_key,
        surface="generator",
        model=model,
        model_size="Super",
        min_gpu_memory_gb=48,
        min_memory_gib=160,
        gpus_per_worker=4,
        instance_types=("g6e.12xlarge", "g6e.24xlarge"),
        h100_seconds=0.0277,  # an estimate: 4.2 times Nano's weights
        fallback_instance_types=("p5.48xlarge",),
        weights=_SUPER_WEIGHTS,
        modes=modes,
        default_tier=default_tier,
    )


# They stand in the order of their size: an upload with only a prompt runs on the first reasoner that is enabled.
#
# `h100_seconds` of the 2B are a little more than three H100 took with the vLLM that ships, 0.068 to 0.073 (see
# docs/benchmarks.md, also for the others). The 8B took 2.04 to 2.08 times as long as the 2B on H200. What is an
# estimate says so.
#
# `modes` are those in which NVIDIA shows each model. The table in Cosmos Framework's docs/inference.md leaves out that
# Super continues videos; cookbooks/cosmos3/generator/audiovisual/run_with_diffusers.ipynb of NVIDIA/cosmos at 8ef19d3
# shows it (`v2v_super_noaudio`, `v2vs_super`). Both show actions and transfer with Nano only. Edge continues no videos
# and follows no controls (`_validate_edge_generation_mode` of vLLM-Omni); NVIDIA recommends it for `i2v` and actions.
PIPELINES = (
    Pipeline(
        id="cosmos-reason2-2b",
        config_key="reason2B",
        surface="reasoner",
        model="nvidia/Cosmos-Reason2-2B",
        model_size="2B",
        min_gpu_memory_gb=24,
        min_memory_gib=16,
        gpus_per_worker=1,
        instance_types=("g6e.2xlarge", "g6e.4xlarge"),
        h100_seconds=0.076,
        context=REASONER_CONTEXT,
    ),
    # The only model of Cosmos 3 that is not gated: it needs no Hugging Face token.
    Pipeline(
        id="cosmos3-edge-reason",
        config_key="reasonEdge",
        surface="reasoner",
        model="nvidia/Cosmos3-Edge",
        model_size="Edge",
        min_gpu_memory_gb=24,
        min_memory_gib=16,
        gpus_per_worker=1,
        instance_types=("g6e.2xlarge", "g6e.4xlarge"),
        h100_seconds=0.076,  # an estimate: its language model is as large as the 2B's
        context=REASONER_CONTEXT,
    ),
    Pipeline(
        id="cosmos-reason2-8b",
        config_key="reason8B",
        surface="reasoner",
        model="nvidia/Cosmos-Reason2-8B",
        model_size="8B",
        min_gpu_memory_gb=32,
        min_memory_gib=24,
        gpus_per_worker=1,
        instance_types=("g6e.2xlarge", "g6e.4xlarge"),
        h100_seconds=0.152,
        context=REASONER_CONTEXT,
    ),
    # The reasoners of Cosmos 3 are one half of its checkpoints; the generator's weights stay on the disk.
    Pipeline(
        id="cosmos3-nano-reason",
        config_key="reasonNano",
        surface="reasoner",
        model="nvidia/Cosmos3-Nano",
        model_size="Nano",
        min_gpu_memory_gb=32,
        min_memory_gib=48,
        gpus_per_worker=1,
        instance_types=("g6e.2xlarge", "g6e.4xlarge"),
        h100_seconds=0.152,  # an estimate: its language model is as large as the 8B
        fallback_instance_types=("p5.4xlarge",),
        context=REASONER_CONTEXT,
    ),
    Pipeline(
        id="cosmos-reason2-32b",
        config_key="reason32B",
        surface="reasoner",
        model="nvidia/Cosmos-Reason2-32B",
        model_size="32B",
        min_gpu_memory_gb=48,
        min_memory_gib=96,
        gpus_per_worker=4,
        instance_types=("g6e.12xlarge", "g6e.24xlarge"),
        # An estimate from two runs on H200, of 256 clips sent at once: the 8B answered 8.05 a second on one, the 32B
        # 4.81 on two. Two GPUs are taken to be 2^0.8 times as fast, so it takes 8.05 / (4.81 / 2^0.8) = 2.9 times as
        # long as the 8B.
        h100_seconds=0.44,
        fallback_instance_types=("p5.48xlarge",),
        context=REASONER_CONTEXT,
    ),
    Pipeline(
        id="cosmos3-super-reason",
        config_key="reasonSuper",
        surface="reasoner",
        model="nvidia/Cosmos3-Super",
        model_size="Super",
        min_gpu_memory_gb=48,
        min_memory_gib=160,
        gpus_per_worker=4,
        instance_types=("g6e.12xlarge", "g6e.24xlarge"),
        h100_seconds=0.44,  # an estimate: its language model has the 32B's shape
        fallback_instance_types=("p5.48xlarge",),
        context=REASONER_CONTEXT,
    ),
    Pipeline(
        id="cosmos3-edge",
        config_key="edge4B",
        surface="generator",
        model="nvidia/Cosmos3-Edge",
        model_size="Edge",
        min_gpu_memory_gb=48,
        min_memory_gib=24,
        gpus_per_worker=1,
        instance_types=("g6e.2xlarge", "g6e.4xlarge"),
        h100_seconds=0.00483,  # NVIDIA's, not measured here: 13.3 s for 832x480, 121 frames, 20 steps on vLLM-Omni
        weights=_EDGE_WEIGHTS,
        modes=("t2i", "t2v", "i2v", "forward_dynamics", "inverse_dynamics", "policy"),
        default_tier="480p",
        own_rules=_EDGE_RULES,
    ),
    Pipeline(
        id="cosmos3-nano",
        config_key="nano16B",
        surface="generator",
        model="nvidia/Cosmos3-Nano",
        model_size="Nano",
        min_gpu_memory_gb=48,
        min_memory_gib=48,
        gpus_per_worker=1,
        instance_types=("g6e.12xlarge", "g6e.24xlarge"),
        # Fitted to vLLM-Omni's times without the encoding: 7.2 and 56.7 s were measured for 320x192 and 832x480, and
        # NVIDIA's 202 s for 1280x720 (`planning/pace.py`).
        h100_seconds=0.0066,
        # Its parallel plan gives a worker two L40S, so that no instance type with a single GPU can be a fallback.
        fallback_instance_types=("g6e.48xlarge",),
        weights=_NANO_WEIGHTS,
        modes=tuple(MODES),
    ),
    _super("cosmos3-super", "super64B", "nvidia/Cosmos3-Super", ("t2i", "t2v", "i2v", "v2v")),
    _super("cosmos3-super-text2image", "superText2Image64B", "nvidia/Cosmos3-Super-Text2Image", ("t2i",), "768p"),
    _super("cosmos3-super-image2video", "superImage2Video64B", "nvidia/Cosmos3-Super-Image2Video", ("i2v",)),
    # A unit of weight is a step, so that fewer of them make a job of these two lighter.
    _super(
        "cosmos3-super-text2image-4step",
        "superText2Image4Step",
        "nvidia/Cosmos3-Super-Text2Image-4Step",
        ("t2i",),
        "768p",
    ),
    _super(
        "cosmos3-super-image2video-4step",
        "superImage2Video4Step",
        "nvidia/Cosmos3-Super-Image2Video-4Step",
        ("i2v",),
        "480p",
    ),
)

GENERATORS = tuple(pipeline for pipeline in PIPELINES if pipeline.surface == "generator")


# A size in a model's name, such as NVIDIA's Cosmos-Reason2-32B, Cosmos3-Nano-Policy-DROID; of a NIM, cosmos-reason2-8b.
_SIZE_IN_A_NAME = re.compile(r"(?:^|[-_])([0-9]+(?:\.[0-9]+)?B|Nano|Super|Edge)(?=[-_]|$)", re.IGNORECASE)
UNKNOWN_SIZE = "unknown"


def size_of(model: str) -> str:
    """Return the size of a model from the catalogue, or else from its name."""
    known = next((pipeline.model_size for pipeline in PIPELINES if pipeline.model == model), None)
    named = _SIZE_IN_A_NAME.search(model.rsplit("/", 1)[-1])
    return known or (named[1].capitalize().replace("b", "B") if named else UNKNOWN_SIZE)


def pipeline_named(name: str) -> Pipeline | None:
    """Return the pipeline with this id, or None."""
    return next((pipeline for pipeline in PIPELINES if pipeline.id == name), None)

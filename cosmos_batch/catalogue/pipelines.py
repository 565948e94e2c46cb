"""The pipelines: their models, and the GPUs and memory that each needs."""

import re
from dataclasses import dataclass
from typing import Literal

ATTRIBUTION = "Built on NVIDIA Cosmos"
OWN_MODELS = "cosmos-batch/"  # the prefix of names of models that this project trained, which are not NVIDIA's
RANDOM_WEIGHTS = "random-weights"  # the prefix of folder names of checkpoints with random weights, for tests and demos
PIPELINE_TAG = "cosmos-batch:pipeline"  # the tag of jobs and instances by which costs are allocated to pipelines
DEFAULT_PROMPT = "Caption the video in detail."
DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."

Surface = Literal["reasoner", "generator"]


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
    context
        Tokens of media, prompt and answer together; None for a generator.
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
    fallback_instance_types: tuple[str, ...] = ()
    context: int | None = None


# The context of every reasoner. NVIDIA's models accept 262,144 tokens, but media are scaled to fill the context: one
# long video would occupy the whole KV cache of a GPU. Ten seconds of 1280 x 720 at 4 frames a second are 18,000 tokens
# and fit unscaled.
REASONER_CONTEXT = 32_768


def attribution_of(model: str) -> str | None:
    """Return what a document must say about the model that wrote it; None for a model that this project trained."""
    return None if model.startswith(OWN_MODELS) else ATTRIBUTION


def _super(pipeline_id: str, config_key: str, model: str) -> Pipeline:
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
        fallback_instance_types=("p5.48xlarge",),
    )


# In the order of their size: an upload with only a prompt runs on the first reasoner that is enabled.
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
        instance_types=("g6e.12xlarge", "g5.12xlarge"),
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
        instance_types=("g6e.12xlarge", "g6e.24xlarge"),
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
        instance_types=("g6e.12xlarge", "g6e.24xlarge"),
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
        # Its parallel plan gives a worker two L40S, so that no instance type with a single GPU can be a fallback.
        fallback_instance_types=("g6e.48xlarge",),
    ),
    _super("cosmos3-super", "super64B", "nvidia/Cosmos3-Super"),
    _super("cosmos3-super-text2image", "superText2Image64B", "nvidia/Cosmos3-Super-Text2Image"),
    _super("cosmos3-super-image2video", "superImage2Video64B", "nvidia/Cosmos3-Super-Image2Video"),
    _super("cosmos3-super-text2image-4step", "superText2Image4Step", "nvidia/Cosmos3-Super-Text2Image-4Step"),
    _super("cosmos3-super-image2video-4step", "superImage2Video4Step", "nvidia/Cosmos3-Super-Image2Video-4Step"),
)

COSMOS3_REASONERS = ("cosmos3-edge-reason", "cosmos3-nano-reason", "cosmos3-super-reason")


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

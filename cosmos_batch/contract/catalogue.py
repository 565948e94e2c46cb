"""What exists: pipelines, their models, the GPUs that carry them, the files they take."""

from dataclasses import dataclass
from typing import Literal

ATTRIBUTION = "Built on NVIDIA Cosmos"
DEFAULT_PROMPT = "Caption the video in detail."
DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."

# Bytes of UTF-8. A longer prompt is refused; one over the second limit travels by S3 pointer.
PROMPT_LIMIT = 32 * 1024
PROMPT_INLINE_LIMIT = 16 * 1024

VIDEO_EXTENSIONS = (".mp4", ".mov", ".avi", ".mkv", ".webm")
IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp")
EXTENSIONS = VIDEO_EXTENSIONS + IMAGE_EXTENSIONS

# Qwen3-VL scales an image to at most 16.8 million pixels; four times that is decoded for nothing, and 16,384 is
# where JPEG and H.264 tools stop agreeing.
IMAGE_PIXEL_LIMIT = 64_000_000
IMAGE_SIDE_LIMIT = 16_384
VIDEO_PIXEL_LIMIT = 7680 * 4320

# Bytes. A worker fetches a file whole, and the workers of a host share its 200 GiB disk with the image: eight such
# files still fit. It is hours of video, of which a model sees a few hundred frames.
INPUT_SIZE_LIMIT = 20 * 1024**3

Surface = Literal["reasoner"]


@dataclass(frozen=True)
class Pipeline:
    """One way to use one model. `min_gpu_memory_gb` is for one GPU of `gpus_per_worker`."""

    id: str
    config_key: str
    surface: Surface
    model: str
    model_size: str
    min_gpu_memory_gb: int
    gpus_per_worker: int
    instance_types: tuple[str, ...]


# In the order of their size: where a prompt alone asks for a reasoner, it is given the first one that is enabled.
PIPELINES = (
    Pipeline(
        id="cosmos-reason2-2b",
        config_key="reason2B",
        surface="reasoner",
        model="nvidia/Cosmos-Reason2-2B",
        model_size="2B",
        min_gpu_memory_gb=24,
        gpus_per_worker=1,
        instance_types=("g6e.12xlarge", "g5.12xlarge"),
    ),
    Pipeline(
        id="cosmos-reason2-8b",
        config_key="reason8B",
        surface="reasoner",
        model="nvidia/Cosmos-Reason2-8B",
        model_size="8B",
        min_gpu_memory_gb=32,
        gpus_per_worker=1,
        instance_types=("g6e.12xlarge", "g6e.24xlarge"),
    ),
)


@dataclass(frozen=True)
class InstanceType:
    """An EC2 instance type. Source: the AWS instance type pages, read November 2026."""

    gpu: str
    gpus: int
    gpu_memory_gb: int
    vcpus: int
    memory_gib: int


INSTANCE_TYPES = {
    "g5.12xlarge": InstanceType("A10G", 4, 24, 48, 192),
    "g6.12xlarge": InstanceType("L4", 4, 24, 48, 192),
    "g6e.xlarge": InstanceType("L40S", 1, 48, 4, 32),
    "g6e.2xlarge": InstanceType("L40S", 1, 48, 8, 64),
    "g6e.4xlarge": InstanceType("L40S", 1, 48, 16, 128),
    "g6e.12xlarge": InstanceType("L40S", 4, 48, 48, 384),
    "g6e.24xlarge": InstanceType("L40S", 4, 48, 96, 768),
    "g6e.48xlarge": InstanceType("L40S", 8, 48, 192, 1536),
    "p5.4xlarge": InstanceType("H100", 1, 80, 16, 256),
    "p5.48xlarge": InstanceType("H100", 8, 80, 192, 2048),
    "p5en.48xlarge": InstanceType("H200", 8, 141, 192, 2048),
}

# Of an instance's memory, what the kernel, the ECS agent and Batch's own reserve leave for containers.
_USABLE_MEMORY = 0.92


@dataclass(frozen=True)
class WorkerResources:
    """What one worker (Batch job) asks for: it must fit every listed type, so it is the least of them per GPU."""

    gpus: int
    vcpus: int
    memory_mib: int


def worker_resources(pipeline: Pipeline, instance_types: list[str]) -> WorkerResources:
    """The share of one worker when an instance is filled with workers of `pipeline.gpus_per_worker` GPUs each."""
    types = [INSTANCE_TYPES[name] for name in instance_types]
    gpus = pipeline.gpus_per_worker
    return WorkerResources(
        gpus=gpus,
        vcpus=min(one.vcpus * gpus // one.gpus for one in types),
        memory_mib=min(int(one.memory_gib * 1024 * _USABLE_MEMORY) * gpus // one.gpus for one in types),
    )


def pipeline_named(name: str) -> Pipeline | None:
    """The pipeline with this id, or None."""
    return next((pipeline for pipeline in PIPELINES if pipeline.id == name), None)

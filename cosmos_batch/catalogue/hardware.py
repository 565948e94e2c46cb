"""GPUs and the EC2 instance types that have them: memory, speed, software that they need, and prices.

This is the only table of hardware. To add an instance type, add a row to `INSTANCE_TYPES`, and a row to `GPUS` if its
GPU is new; plans, checks, prices and generated pages follow. Then run `make docs`.

Sources:

- GPUs: NVIDIA's data sheets, and nvidia.com/cuda-gpus for compute capabilities. Tensor TFLOPS are dense, in bfloat16.
- Instance types: aws.amazon.com/ec2/instance-types and its pages for G5, G6, G6e, G7e, P5 and P6.
- Prices: the AWS price list of On-Demand Linux instances in us-east-1.
- Software: CUDA's release notes. Blackwell (compute capability 10.0 and 12.0) needs CUDA 12.8 and a driver of 570 or
  later. Our images have CUDA 13.0, or 12.8 for a reasoner with `images.cuda` of `cu128`. The hosts' image, Amazon
  Linux 2023 for ECS with GPUs, has NVIDIA's open kernel modules, which Blackwell requires, a driver of 580, and Fabric
  Manager with NVLSM, which the NVSwitches of P6 require (github.com/aws/amazon-ecs-ami,
  scripts/enable-ecs-agent-gpu-support-al2023.sh).

Nothing was run on Blackwell yet: its rows follow from the sources alone (decision 081).

Which Availability Zones have a type differs between accounts and changes; no table can say it. Ask AWS:
`aws ec2 describe-instance-type-offerings --location-type availability-zone --filters Name=instance-type,Values=TYPE`.
"""

import re
from dataclasses import dataclass

HOURS_PER_MONTH = 730

# The place and time of the prices below. Every text with a number that follows from them repeats it.
PRICES_AS_OF = "us-east-1, On-Demand, as known in November 2026"

# The share of an instance's memory that the kernel, the ECS agent and Batch's reserve leave for containers.
USABLE_MEMORY = 0.92

HOPPER = 9  # major compute capability of H100 and H200, the only GPUs for which FlashAttention 3 was written
FP8_CAPABILITY = (8, 9)  # the least compute capability of a GPU that multiplies matrices in FP8


@dataclass(frozen=True)
class GpuKind:
    """A kind of GPU, and what planning and deployment have to know about it.

    Attributes
    ----------
    memory_gb
        Memory in GB as NVIDIA and AWS name it. Requirements of pipelines are compared with it.
    memory_gib
        Memory in GiB as `nvidia-smi` reports it. Plans of generations are computed with it.
    architecture
        The name of its generation.
    compute_capability
        CUDA's version number of the architecture; (9, 0) is sm_90.
    tensor_tflops
        TFLOP/s of dense bfloat16 matrix products.
    bandwidth_tb_per_s
        Bandwidth of its memory in TB/s.
    minimum_cuda
        The first version of CUDA that compiles for it.
    nvlink
        Whether the GPUs of an instance are connected by NVLink, which is paid for and only useful to workers that
        share a model among GPUs.
    clip_times_h100, video_times_h100
        How many times as long as an H100 it takes for a reasoner's clip, and for a video of a generator, where somebody
        measured it; else planning computes it.
    """

    memory_gb: int
    memory_gib: float
    architecture: str
    compute_capability: tuple[int, int]
    tensor_tflops: float
    bandwidth_tb_per_s: float
    minimum_cuda: tuple[int, int] = (11, 8)
    nvlink: bool = False
    clip_times_h100: float | None = None
    video_times_h100: float | None = None


GPUS = {
    "A10G": GpuKind(24, 22.5, "Ampere", (8, 6), 70, 0.6),
    "L4": GpuKind(24, 22.5, "Ada Lovelace", (8, 9), 121, 0.3),
    "L40S": GpuKind(48, 45.0, "Ada Lovelace", (8, 9), 362, 0.864),
    # NVIDIA measured Nano in FP8 with its Framework at 720p on this and on an H100, in 173.02 and 94.01 s
    # (`inference_benchmarks/` of NVIDIA/cosmos at c8353e1); the ratio is 1.51 at 256p and 1.82 at 480p.
    "RTX PRO 6000": GpuKind(96, 95.5, "Blackwell", (12, 0), 500, 1.597, minimum_cuda=(12, 8), video_times_h100=1.84),
    "H100": GpuKind(80, 79.6, "Hopper", (9, 0), 989, 3.35, nvlink=True, clip_times_h100=1.0, video_times_h100=1.0),
    # In different runs (docs/benchmarks.md): of the 2B at most 14.68 clips a second on an H100, at least 17.18 on this;
    # 56.70 and 57.63 s for a video of 832x480 with vLLM-Omni.
    "H200": GpuKind(141, 140.4, "Hopper", (9, 0), 989, 4.8, nvlink=True, clip_times_h100=0.85, video_times_h100=1.02),
    "B200": GpuKind(179, 179.0, "Blackwell", (10, 0), 2250, 8.0, minimum_cuda=(12, 8), nvlink=True),
}


@dataclass(frozen=True)
class InstanceType:
    """An EC2 instance type. `gpu` is a key of `GPUS`; `vcpus` and `memory_gib` are those of the whole instance."""

    gpu: str
    gpus: int
    vcpus: int
    memory_gib: int
    dollars_per_hour: float

    @property
    def gpu_memory_gb(self) -> int:
        """Return the nominal memory of one GPU in GB."""
        return GPUS[self.gpu].memory_gb

    @property
    def dollars_per_gpu_second(self) -> float:
        """Return the price of a second of one GPU and its share of the host."""
        return self.dollars_per_hour / self.gpus / 3600

    @property
    def dollars_per_month(self) -> float:
        """Return the price of one instance that runs for a whole month."""
        return self.dollars_per_hour * HOURS_PER_MONTH


INSTANCE_TYPES = {
    "g5.12xlarge": InstanceType("A10G", 4, 48, 192, 5.672),
    "g6.12xlarge": InstanceType("L4", 4, 48, 192, 4.602),
    "g6e.xlarge": InstanceType("L40S", 1, 4, 32, 1.861),
    "g6e.2xlarge": InstanceType("L40S", 1, 8, 64, 2.242),
    "g6e.4xlarge": InstanceType("L40S", 1, 16, 128, 3.004),
    "g6e.12xlarge": InstanceType("L40S", 4, 48, 384, 10.493),
    "g6e.24xlarge": InstanceType("L40S", 4, 96, 768, 15.066),
    "g6e.48xlarge": InstanceType("L40S", 8, 192, 1536, 30.131),
    "g7e.2xlarge": InstanceType("RTX PRO 6000", 1, 8, 64, 3.363),
    "g7e.4xlarge": InstanceType("RTX PRO 6000", 1, 16, 128, 3.998),
    "g7e.8xlarge": InstanceType("RTX PRO 6000", 1, 32, 256, 5.268),
    "g7e.12xlarge": InstanceType("RTX PRO 6000", 2, 48, 512, 8.286),
    "g7e.24xlarge": InstanceType("RTX PRO 6000", 4, 96, 1024, 16.572),
    "g7e.48xlarge": InstanceType("RTX PRO 6000", 8, 192, 2048, 33.144),
    "p5.4xlarge": InstanceType("H100", 1, 16, 256, 6.880),
    "p5.48xlarge": InstanceType("H100", 8, 192, 2048, 55.040),
    "p5en.48xlarge": InstanceType("H200", 8, 192, 2048, 63.296),
    "p6-b200.48xlarge": InstanceType("B200", 8, 192, 2048, 113.933),
}


def dotted(compute_capability: tuple[int, int]) -> str:
    """Return a compute capability as NVIDIA writes it, with a dot.

    >>> dotted((8, 9))
    '8.9'
    """
    return ".".join(map(str, compute_capability))


def gpu_kind(product_name: str) -> str | None:
    """Return the key of `GPUS` for a product name as `nvidia-smi` reports it, or None for a GPU that is not listed.

    >>> gpu_kind("NVIDIA RTX PRO 6000 Blackwell Server Edition")
    'RTX PRO 6000'
    """
    return next((kind for kind in GPUS if re.search(rf"\b{re.escape(kind)}\b", product_name)), None)

"""The EC2 instance types that workers may run on, and what they cost."""

from dataclasses import dataclass

HOURS_PER_MONTH = 730

# Of the prices below: where and when. Every number that we make of them says so.
PRICES_AS_OF = "us-east-1, On-Demand, as known in November 2026"

# The share of an instance's memory that the kernel, the ECS agent and Batch's reserve leave for containers.
USABLE_MEMORY = 0.92


@dataclass(frozen=True)
class InstanceType:
    """Source: the AWS instance type and price pages. `nvme_gb` is the instance store of the whole host."""

    gpu: str
    gpus: int
    gpu_memory_gb: int
    vcpus: int
    memory_gib: int
    nvme_gb: int
    dollars_per_hour: float

    @property
    def dollars_per_gpu_second(self) -> float:
        """Of one GPU's share of the host."""
        return self.dollars_per_hour / self.gpus / 3600

    @property
    def dollars_per_month(self) -> float:
        """Of one instance that never stops."""
        return self.dollars_per_hour * HOURS_PER_MONTH


INSTANCE_TYPES = {
    "g5.12xlarge": InstanceType("A10G", 4, 24, 48, 192, 3800, 5.672),
    "g6.12xlarge": InstanceType("L4", 4, 24, 48, 192, 3760, 4.602),
    "g6e.xlarge": InstanceType("L40S", 1, 48, 4, 32, 250, 1.861),
    "g6e.2xlarge": InstanceType("L40S", 1, 48, 8, 64, 450, 2.242),
    "g6e.4xlarge": InstanceType("L40S", 1, 48, 16, 128, 600, 3.004),
    "g6e.12xlarge": InstanceType("L40S", 4, 48, 48, 384, 3800, 10.493),
    "g6e.24xlarge": InstanceType("L40S", 4, 48, 96, 768, 3800, 15.066),
    "g6e.48xlarge": InstanceType("L40S", 8, 48, 192, 1536, 7600, 30.131),
    "p5.4xlarge": InstanceType("H100", 1, 80, 16, 256, 3800, 6.880),
    "p5.48xlarge": InstanceType("H100", 8, 80, 192, 2048, 30400, 55.040),
    "p5en.48xlarge": InstanceType("H200", 8, 141, 192, 2048, 30400, 63.296),
}

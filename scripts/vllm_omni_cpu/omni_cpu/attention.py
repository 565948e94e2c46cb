"""Attention on a CPU. It imports the platform, and so is not imported by it."""

from typing import Any

from vllm_omni.diffusion.attention.backends import sdpa


class CpuAttention(sdpa.SDPAImpl):
    """torch's own attention, which is chosen by the name of the platform."""

    def forward(self, *tensors: Any, **options: Any) -> Any:
        return self.forward_cuda(*tensors, **options)


class CpuAttentionBackend(sdpa.SDPABackend):
    """The backend by which vLLM-Omni finds `CpuAttention`."""

    @staticmethod
    def get_impl_cls() -> type:
        return CpuAttention

"""vLLM-Omni's diffusion worker on a CPU, for tests: everything is the real one but where it computes."""

from typing import Any

import psutil
import torch
from vllm.platforms.cpu import CpuPlatform
from vllm_omni.platforms.interface import OmniPlatform, OmniPlatformEnum

_WORKER = "vllm_omni.diffusion.worker.diffusion_worker"


class CpuOmniPlatform(OmniPlatform, CpuPlatform):
    """The platform of vLLM-Omni on a machine whose only device is the CPU."""

    _omni_enum = OmniPlatformEnum.OOT
    device_type = "cpu"
    device_control_env_var = "CPU_VISIBLE_MEMORY_NODES"
    dist_backend = "gloo"

    @classmethod
    def get_omni_ar_worker_cls(cls) -> str:
        return "vllm.v1.worker.cpu_worker.CPUWorker"

    get_omni_generation_worker_cls = get_omni_ar_worker_cls

    @classmethod
    def get_default_stage_config_path(cls) -> str:
        return "vllm_omni/model_executor/stage_configs"

    @classmethod
    def get_diffusion_attn_backend_cls(cls, *_: Any, **__: Any) -> str:
        return "omni_cpu.attention.CpuAttentionBackend"

    @classmethod
    def get_diffusion_worker_cls(cls) -> str:
        from vllm_omni.diffusion.worker.diffusion_worker import WorkerProc

        WorkerProc._async_output_loop = _send_results
        return f"{_WORKER}.DiffusionWorker"

    @classmethod
    def get_torch_device(cls, *_: Any) -> torch.device:
        return torch.device("cpu")

    @classmethod
    def get_device_count(cls) -> int:
        return 16  # processes that share the CPU

    @classmethod
    def get_device_version(cls) -> None:
        return None

    @classmethod
    def get_free_memory(cls, *_: Any) -> int:
        return psutil.virtual_memory().available

    @classmethod
    def get_device_memory(cls, *_: Any) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    @classmethod
    def supports_torch_inductor(cls) -> bool:
        return False

    @classmethod
    def supports_cpu_offload(cls) -> bool:
        return False

    @classmethod
    def is_available(cls) -> bool:
        return False

    @classmethod
    def set_device(cls, device: torch.device) -> None: ...

    @classmethod
    def synchronize(cls) -> None: ...

    @classmethod
    def empty_cache(cls) -> None: ...

    @classmethod
    def reset_peak_memory_stats(cls, *_: Any) -> None: ...

    @classmethod
    def max_memory_allocated(cls, *_: Any) -> int:
        return 0

    max_memory_reserved = max_memory_allocated


def _send_results(worker: Any) -> None:
    """Replace the loop that copies results from a device on a stream of its own."""
    from vllm_omni.diffusion.worker import diffusion_worker

    while (item := worker._async_output_queue.get()) is not None:
        output, name, _ = item
        diffusion_worker.pack_diffusion_output_shm(output)
        kind = diffusion_worker.AsyncOutputKind.OUTPUT_READY
        worker._enqueue_result(diffusion_worker.AsyncDiffusionOutput(kind=kind, async_output_id=name, output=output))
        with worker._async_output_done:
            worker._async_output_pending -= 1
            worker._async_output_done.notify_all()

"""Part of the stand-in for PhyAI, which `phyai/engine.py` describes."""

from dataclasses import dataclass
from typing import Any


@dataclass
class DeviceConfig:
    target: str
    params_dtype: Any


@dataclass
class ParallelConfig:
    world_size: int
    cfg_size: int
    tp_size: int


@dataclass
class RuntimeConfig:
    use_cuda_graph: bool


@dataclass
class EngineConfig:
    device: DeviceConfig
    parallel: ParallelConfig
    runtime: RuntimeConfig

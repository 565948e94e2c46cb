"""The requirements of reasoners in the catalogue agree with the memory that their models take."""

from dataclasses import dataclass

import pytest

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import PIPELINES, Pipeline, size_of
from cosmos_batch.planning.instance_types import why_not

REASONERS = [one for one in PIPELINES if one.surface == "reasoner"]
GIB = 1024**3
TAKEN = 0.92  # the share of a GPU's memory that vLLM takes
# Memory of buffers beside the weights, measured on an H100: 16.97 GiB of which 16.34 are weights.
BUFFERS = 0.63 * GIB


@dataclass(frozen=True)
class Shape:
    """The shape of a model from its published configuration (Qwen3-VL; Nano and Super have those of 8B and 32B).

    `parameters` counts the language model, `vision` the vision encoder, which each GPU holds whole
    (`--mm-encoder-tp-mode data`). `working` is the memory in GiB that steps of 16,384 tokens take: peak activations,
    memory outside of torch, and CUDA graphs. vLLM 0.26 reported it on an H100 for the 2B (0.78 + 0.22 + 0.46) and the
    8B (1.53 + 0.22 + 0.61); the value of the 32B is an estimate by its width and layers,
    and that of Edge, which is as large as the 2B, is the 2B's.
    """

    parameters: float
    vision: float
    layers: int
    heads: int
    working: float
    kv_heads: int = 8
    head_width: int = 128

    @property
    def bytes_per_token(self) -> int:
        """Return the bytes of a token's keys and values in every layer, in bfloat16."""
        return 2 * self.layers * self.kv_heads * self.head_width * 2


SHAPES = {
    "cosmos-reason2-2b": Shape(1.72e9, 0.41e9, layers=28, heads=16, working=1.46),
    "cosmos3-edge-reason": Shape(1.95e9, 0.49e9, layers=28, heads=16, working=1.46),
    "cosmos-reason2-8b": Shape(8.19e9, 0.58e9, layers=36, heads=32, working=2.36),
    "cosmos3-nano-reason": Shape(8.19e9, 0.58e9, layers=36, heads=32, working=2.36),
    "cosmos-reason2-32b": Shape(32.76e9, 0.58e9, layers=64, heads=64, working=3.5),
    "cosmos3-super-reason": Shape(32.76e9, 0.58e9, layers=64, heads=64, working=3.5),
}


def requests_at_once(pipeline: Pipeline, gpu_memory_gb: int) -> float:
    """Return how many requests that fill the context fit into the GPUs of a worker."""
    shape, gpus = SHAPES[pipeline.id], pipeline.gpus_per_worker
    weights = 2 * (shape.parameters / gpus + shape.vision)
    cache = gpu_memory_gb * 1e9 * TAKEN - weights - BUFFERS - shape.working * GIB
    assert pipeline.context is not None
    return cache / (pipeline.context * shape.bytes_per_token / gpus)


@pytest.mark.parametrize("pipeline", REASONERS, ids=lambda one: one.id)
def test_a_request_that_fills_the_context_fits_the_smallest_gpu_and_several_fit_the_usual_gpu(
    pipeline: Pipeline,
) -> None:
    assert requests_at_once(pipeline, pipeline.min_gpu_memory_gb) >= 1
    assert requests_at_once(pipeline, INSTANCE_TYPES[pipeline.instance_types[0]].gpu_memory_gb) >= 4


@pytest.mark.parametrize("pipeline", REASONERS, ids=lambda one: one.id)
def test_no_smaller_gpu_of_the_table_holds_a_full_context(pipeline: Pipeline) -> None:
    """The 2B is excepted, for which NVIDIA asks for 24 GB."""
    smaller = {one.gpu_memory_gb for one in INSTANCE_TYPES.values() if one.gpu_memory_gb < pipeline.min_gpu_memory_gb}
    assert all(requests_at_once(pipeline, memory) < 1 for memory in smaller)


@pytest.mark.parametrize("pipeline", REASONERS, ids=lambda one: one.id)
def test_the_gpus_of_a_worker_share_the_attention_heads_evenly(pipeline: Pipeline) -> None:
    shape = SHAPES[pipeline.id]
    assert shape.heads % pipeline.gpus_per_worker == 0 and shape.kv_heads % pipeline.gpus_per_worker == 0


def test_the_whole_context_of_the_models_would_fill_a_gpu_with_one_request() -> None:
    assert 262_144 * SHAPES["cosmos-reason2-2b"].bytes_per_token > 24e9


def test_ten_seconds_of_video_fit_unscaled() -> None:
    tokens = 20 * (1280 // 32) * (736 // 32)
    for pipeline in REASONERS:
        assert pipeline.context is not None and tokens < (pipeline.context - 4096) * 0.9


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda one: one.id)
def test_a_generator_alone_has_modes_and_the_memory_of_its_weights(pipeline: Pipeline) -> None:
    is_generator = pipeline.surface == "generator"
    assert bool(pipeline.modes) == is_generator == (pipeline.weights is not None)
    assert set(pipeline.own_rules) <= set(pipeline.modes)
    assert pipeline.is_cosmos3 == pipeline.model.startswith("nvidia/Cosmos3-")


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda one: one.id)
def test_the_default_instance_types_fit(pipeline: Pipeline) -> None:
    assert all(
        why_not(pipeline, name) is None for name in (*pipeline.instance_types, *pipeline.fallback_instance_types)
    )
    assert (pipeline.context is None) == (pipeline.surface == "generator")


@pytest.mark.parametrize("pipeline", REASONERS, ids=lambda one: one.id)
def test_an_instance_that_leaves_fast_gpus_idle_is_refused_and_another_named(pipeline: Pipeline) -> None:
    refused = "p5.48xlarge has 8 H100, of which a reasoner's worker uses one; use p5.4xlarge"
    assert why_not(pipeline, "p5.48xlarge") == (refused if pipeline.gpus_per_worker == 1 else None)


@pytest.mark.parametrize(
    ("model", "size"),
    [
        *((one.model, one.model_size) for one in PIPELINES),
        ("nvidia/Cosmos-Reason2-32B", "32B"),
        ("nvidia/Cosmos3-Nano-Policy-DROID", "Nano"),
        ("nvidia/Cosmos3-Super-Text2Image-4Step", "Super"),
        ("nvidia/Cosmos3-Edge", "Edge"),
        ("nvidia/cosmos-reason2-8b", "8B"),
        ("nvidia/cosmos3-nano", "Nano"),
        ("random-weights-tiny-Cosmos-Reason2", "unknown"),
        ("Nanotube/my-model", "unknown"),
    ],
)
def test_the_size_of_a_model_follows_from_the_catalogue_or_its_name(model: str, size: str) -> None:
    assert size_of(model) == size

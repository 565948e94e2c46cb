"""The table of hardware is complete, and the software that workers run on supports every GPU in it."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from cosmos_batch.catalogue.hardware import GPUS, INSTANCE_TYPES, GpuKind, InstanceType, gpu_kind
from cosmos_batch.catalogue.pipelines import PIPELINES, Pipeline
from cosmos_batch.contract.images import ImageSettings
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.planning.deployment import EnabledPipeline, enabled_pipelines

ROOT = Path(__file__).resolve().parents[2]
BLACKWELL = ("g7e.12xlarge", "g7e.24xlarge", "g7e.48xlarge", "p6-b200.48xlarge")


def deployed_on(pipeline: Pipeline, instance_type: str) -> EnabledPipeline:
    """Return the pipeline as it is deployed by a configuration with this instance type alone."""
    entry = {"enabled": True, "instanceTypes": [instance_type], "fallbackInstanceTypes": []}
    reasoner = pipeline.surface == "reasoner"
    block = {"enabled": True, "modelsReason" if reasoner else "modelsOmni": {pipeline.config_key: entry}}
    config = {"app": {"pipelines": {"useNvidiaCosmos" if reasoner else "useNvidiaCosmos3": block}}}
    (enabled,) = enabled_pipelines(parse_config(json.dumps(config)))
    return enabled


def test_every_gpu_of_an_instance_type_is_listed() -> None:
    assert {instance.gpu for instance in INSTANCE_TYPES.values()} == set(GPUS)


@pytest.mark.parametrize(
    ("product_name", "kind"),
    [
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA L40", None),
        ("NVIDIA GB200", None),
    ],
)
def test_the_kind_of_a_gpu_follows_from_its_product_name(product_name: str, kind: str | None) -> None:
    assert gpu_kind(product_name) == kind


def test_the_cuda_of_every_image_compiles_for_every_gpu() -> None:
    versions = {str(value) for value in get_args(ImageSettings.model_fields["cuda"].annotation)}
    for dockerfile in (ROOT / "containers").glob("*/Dockerfile"):
        versions |= set(re.findall(r"\bcu\d{3}\b", dockerfile.read_text(encoding="utf-8")))
    assert versions == {"cu128", "cu130"}
    oldest = min((int(version[2:4]), int(version[4:])) for version in versions)
    assert all(gpu.minimum_cuda <= oldest for gpu in GPUS.values())


@pytest.mark.parametrize("instance_type", BLACKWELL)
@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.id)
def test_every_pipeline_can_be_deployed_on_blackwell(pipeline: Pipeline, instance_type: str) -> None:
    if pipeline.surface == "reasoner" and pipeline.gpus_per_worker > INSTANCE_TYPES[instance_type].gpus:
        pytest.skip("has fewer GPUs than a worker")
    if pipeline.surface == "reasoner" and pipeline.gpus_per_worker == 1 and instance_type.startswith("p6"):
        pytest.skip("is refused: a worker uses one of eight B200")
    enabled = deployed_on(pipeline, instance_type)
    assert enabled.instance_types == [instance_type]
    assert enabled.resources.gpus <= INSTANCE_TYPES[instance_type].gpus
    if enabled.serving is not None:
        assert not any(plan.offload for plan in enabled.serving.plans.values()), "96 GB need no offload"


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.id)
def test_a_new_gpu_needs_two_rows_and_nothing_else(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GPUS, "X1000", GpuKind(200, 199.0, "Next", (13, 0), 3000, 10.0))
    monkeypatch.setitem(INSTANCE_TYPES, "x9.12xlarge", InstanceType("X1000", 4, 96, 1024, 50.0))
    enabled = deployed_on(pipeline, "x9.12xlarge")
    assert enabled.instance_types == ["x9.12xlarge"]
    assert enabled.serving is None or list(enabled.serving.plans) == ["X1000"]

"""Which engine a name stands for, on which machine."""

import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path

import pytest

from cosmos_batch.catalogue.engines import AUTO, ENGINES, GENERATOR_ABILITIES
from cosmos_batch.contract.entries import GeneratorEntry, ReasonerEntry
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines import factory, gpus
from cosmos_batch.engines.reasoner.vllm import command as vllm_command
from tests.real_vllm import needs_vllm


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a machine's devices: it has two GPUs."""
    monkeypatch.setattr(gpus, "DEVICES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in ("nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(("chosen", "count"), [(None, 2), ("1", 1), ("0,1", 2), ("", 0), ("-1", 0)])
def test_the_gpus_of_a_process(devices: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None, count: int) -> None:
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert gpus.gpus_here() == count


def test_without_a_driver_there_is_none(devices: Path) -> None:
    (devices / "nvidiactl").unlink()
    assert gpus.gpus_here() == 0


@pytest.mark.parametrize(
    ("has_gpu", "has_vllm", "best"),
    [
        (True, True, "vllm"),
        (True, False, "transformers"),
        (False, True, "transformers"),
        (False, False, "transformers"),
    ],
)
def test_auto_is_vllm_where_a_gpu_and_vllm_are(
    devices: Path, monkeypatch: pytest.MonkeyPatch, has_gpu: bool, has_vllm: bool, best: str
) -> None:
    if not has_gpu:
        (devices / "nvidiactl").unlink()
    monkeypatch.setattr(factory, "find_spec", lambda name: object() if has_vllm and name == "vllm" else None)
    assert factory.default_reasoner() == best
    scripted = replace(ENGINES["vllm"], class_path="tests.e2e.scripted_engine:ScriptedEngine")
    monkeypatch.setitem(ENGINES, "vllm", scripted)
    assert factory.create_engine("auto").name.partition(" ")[0] == {"vllm": "scripted"}.get(best, best)


def test_a_reasoner_is_auto_unless_it_is_told() -> None:
    assert ReasonerEntry().engine == AUTO
    for name in ENGINES.keys() - GENERATOR_ABILITIES.keys():
        ReasonerEntry(engine=name)
    assert GeneratorEntry().engine == AUTO


def test_vllm_where_it_is_not_installed_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("cosmos_batch.engines.reasoner.vllm.engine.version", nothing)
    with pytest.raises(Failure) as raised:
        factory.create_engine("vllm").load(tmp_path)
    error = raised.value.error
    assert "vllm is not installed here" in error.message and not error.retryable
    assert "make vllm" in error.remedy and "'auto'" in error.remedy


@needs_vllm
def test_vllm_is_taken_where_it_is_asked_for() -> None:
    """Also without a GPU, where `auto` would not."""
    assert factory.create_engine("vllm").name == f"vllm {version('vllm')}"


@pytest.mark.parametrize(("gpus_here", "shared"), [(0, True), (1, True), (2, True), (4, True), (3, False), (8, False)])
def test_gpus_share_attention_heads_evenly(checkpoint_dir: Path, gpus_here: int, shared: bool) -> None:
    """The tiny checkpoint has four."""
    reason = vllm_command.uneven(checkpoint_dir, gpus_here)
    assert (reason is None) == shared
    assert shared or (reason is not None and "4 attention heads" in reason and f"{gpus_here} GPUs" in reason)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver that says of its GPUs what is in a file."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program, said = folder / "nvidia-smi", tmp_path / "said"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nwhile read -r line; do echo "$line"; done < {said}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return said


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ("24217, 24564\n", 0.92),  # nobody else is there
        ("21600, 24564\n", 0.85),  # a desktop and its windows
        ("81000, 81559\n40780, 81559\n", 0.47),  # the fullest of two
        ("no devices\n", 0.92),
        ("", 0.92),
    ],
)
def test_of_a_gpus_memory_it_takes_what_others_leave(driver: Path, said: str, taken: float) -> None:
    driver.write_text(said)
    assert vllm_command.memory_share(gpus.free_share()) == taken


def test_only_the_chosen_gpus_count(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.write_text("1, 1\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    gpus.free_share()
    assert driver.with_name("asked").read_text().endswith(" --id=1,2\n")


@pytest.mark.parametrize(
    ("said", "gpu"),
    [
        ("NVIDIA L40S, 46068\nNVIDIA L40S, 46068\n", ("NVIDIA L40S", 46068 / 1024)),
        ("NVIDIA H100 80GB HBM3, 81559\nTesla T4, 15360\n", ("Tesla T4", 15.0)),
        ("Graphics, of a name with commas, 24564\n", ("Graphics, of a name with commas", 24564 / 1024)),
        ("NVIDIA GB10, [N/A]\n", None),
        ("", None),
    ],
)
def test_the_gpus_of_a_machine(driver: Path, said: str, gpu: tuple[str, float] | None) -> None:
    driver.write_text(said)
    assert gpus.gpu_here() == gpu


def test_without_a_driver_all_is_taken_to_be_free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.free_share() == 1.0 and gpus.gpu_here() is None


@needs_vllm
def test_the_server_is_told(checkpoint_dir: Path, tmp_path: Path) -> None:
    plan = vllm_command.VllmPlan(context=1, sequences=1, gpus=4, memory=0.85)
    command = vllm_command.serve_command(checkpoint_dir, plan, tmp_path, tmp_path)
    told = dict(pairwise(command))
    assert told["--gpu-memory-utilization"] == "0.85"
    assert told["--tensor-parallel-size"] == "4" and told["--mm-encoder-tp-mode"] == "data"
    assert "--async-scheduling" in command
    variables = vllm_command.serve_environment(4, None, tmp_path)
    assert variables["VLLM_USE_DEEP_GEMM"] == "0" and variables["HF_HUB_OFFLINE"] == "1"
    assert variables["VLLM_WORKER_MULTIPROC_METHOD"] == "fork", "or its core imports all of it anew"


@pytest.mark.parametrize("kept_in", ["chat_template.jinja", "chat_template.json", "tokenizer_config.json"])
def test_the_template_leaves_out_the_markers_around_a_whole_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_in: str
) -> None:
    image, video = "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}", "{{ '<|video_pad|>' }}"
    template = image + "{{ '<|vision_start|><|video_pad|><|vision_end|>' }}"
    text = template if kept_in.endswith("jinja") else json.dumps({"chat_template": template})
    (tmp_path / kept_in).write_text(text)
    assert vllm_command.chat_template(tmp_path) == image + video
    monkeypatch.setattr(vllm_command, "version", lambda _: "4.57.1")
    assert vllm_command.chat_template(tmp_path) is None, "that processor needs them, and takes them away"


def test_a_template_without_them_or_none_at_all_stays_as_it_is(tmp_path: Path) -> None:
    assert vllm_command.chat_template(tmp_path) is None
    (tmp_path / "chat_template.jinja").write_text("{{ '<|video_pad|>' }}")
    assert vllm_command.chat_template(tmp_path) is None


def test_a_plan_that_is_lessened_takes_less_of_all_that_work_takes(checkpoint_dir: Path, tmp_path: Path) -> None:
    plan = vllm_command.VllmPlan(context=1, sequences=256, gpus=1)
    told = []
    for one in (plan, plan.smaller(), plan.smaller().smaller()):
        command = dict(pairwise(vllm_command.serve_command(checkpoint_dir, one, tmp_path, tmp_path)))
        told.append((command["--max-num-seqs"], command["--max-num-batched-tokens"]))
    assert told == [("256", "16384"), ("64", "4096"), ("16", "2048")]


@needs_vllm
def test_a_gpu_that_others_fill_is_not_asked_for_what_is_not_there(
    driver: Path, checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.write_text("300, 24564\n")
    monkeypatch.setattr("cosmos_batch.engines.reasoner.vllm.engine.gpus_here", lambda: 1)
    with pytest.raises(Failure, match="Other programs hold the GPU's memory") as raised:
        factory.create_engine("vllm").load(checkpoint_dir)
    assert "nvidia-smi" in raised.value.error.remedy


@pytest.mark.parametrize(
    ("release", "theirs"),
    [
        ("0.19.1", True),
        ("0.21.0", True),
        ("0.23.0", False),
        ("0.23.1rc0.dev5+gabc", False),
        ("0.32.0+cpu", False),
        ("1.0", False),
    ],
)
def test_cosmos_3_is_vllms_own_or_of_nvidias_plugin(
    release: str, theirs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where vLLM is told which plugins to load, it loads no others."""
    monkeypatch.setattr(vllm_command, "version", lambda _: release)
    (tmp_path / "config.json").write_text('{"model_type": "cosmos3_omni"}')
    told = dict(pairwise(vllm_command.serve_command(tmp_path, vllm_command.VllmPlan(1, 1, 1), tmp_path, tmp_path)))
    architecture = "Cosmos3ReasonerForConditionalGeneration" if theirs else "Cosmos3ForConditionalGeneration"
    assert json.loads(told["--hf-overrides"]) == {"architectures": [architecture]}
    plugins = vllm_command.serve_environment(1, None, tmp_path)["VLLM_PLUGINS"].split(",")
    assert plugins == ["cosmos_batch", *(["register_cosmos3"] if theirs else [])]

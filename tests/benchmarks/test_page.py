"""`docs/benchmarks.md` is what its generator writes from the results, and the results are of today's versions."""

import importlib
import json
import math
import re
import shlex
import struct
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks import headlines, page
from benchmarks.generator import (
    accelerations,
    accelerations_page,
    mode_results,
    modes_page,
    queue_page,
    true_generator,
)
from benchmarks.machine import gpus_of_this_process
from benchmarks.reasoner import comparison, goals_page, gpu_results, true_shapes
from benchmarks.reasoner import figures as reasoner_figures
from benchmarks.reasoner import gpu as reasoner_gpu
from benchmarks.reasoner import gpu_page as reasoner_gpu_page
from benchmarks.results import FOLDER, kept
from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.hardware import GPUS
from cosmos_batch.engines.generator.diffusers.acceleration import Accelerations
from cosmos_batch.engines.library_imports import import_torchvision
from tests.infra.assembly import STACKS


def test_the_page_says_what_was_measured() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text(), "run `make bench`"


def test_the_figures_of_the_readme_are_those_that_were_measured() -> None:
    assert headlines.text() in headlines.README.read_text(encoding="utf-8"), "run `make bench`"


def test_every_stack_of_the_app_was_measured() -> None:
    [resources] = [row.raw["resources"] for row in kept("deployment").measured if "resources" in row.raw]
    assert {name.removeprefix("CosmosBatch-") for name in resources} == set(STACKS)


def test_recorded_results_meet_their_limits() -> None:
    missed = [row.name for name in ("foundation", "deployment") for row in kept(name).measured if not row.met]
    assert not missed


def test_the_page_has_no_reasoner_of_a_vllm_that_does_not_ship() -> None:
    lock = (page.PAGE.parent.parent / "containers" / "reasoner" / "requirements.cu130.lock").read_text(encoding="utf-8")
    results = [json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("reasoner-*.json")]
    scheduled = [row.raw for row in kept("preemptions").measured]
    versions = {found["vllm"].removesuffix("+cpu") for found in [*results, *scheduled]}
    assert len(results) >= 2 and all(f"vllm=={version} " in lock for version in versions), versions


@pytest.mark.parametrize("path", sorted(FOLDER.glob("generator-*nano*.json")), ids=lambda path: path.stem)
def test_the_page_has_no_generator_of_packages_that_do_not_ship(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    engine = found["engine"] if "engine" in found else f"diffusers {found['diffusers']}"
    name, release = engine.split()
    image = page.PAGE.parent.parent / "containers" / {"vllm-omni": "omni"}.get(name, name)
    lock = (image / "requirements.lock").read_text(encoding="utf-8")
    assert f"torch=={found['torch']} " in lock
    if name == "phyai":  # it has no releases: its image builds a commit
        assert f"REVISION={release}" in (image / "Dockerfile").read_text(encoding="utf-8")
    else:
        assert f"{name}=={release} " in lock


def test_every_answer_had_the_length_that_was_forced() -> None:
    found = reasoner_figures.kept("tiny")
    expected = found["workload"]["clips"] * found["workload"]["tokens"]
    raw, worker = (found[step]["passes"] for step in ("raw", "worker"))
    assert {one["tokens"] for one in [*raw, *worker]} == {expected}
    assert raw[-1]["promptTokens"] == worker[-1]["promptTokens"], "the same was asked"


def test_clips_as_patches_were_measured_with_the_same_answers_and_no_slower() -> None:
    found = json.loads(gpu_results.RESULT.read_text(encoding="utf-8"))
    answers = found["bf16"]["answers"]
    assert answers["sameAnswers"] == answers["compared"] > 0
    assert gpu_results.best(found["bf16"]) > found["bf16"]["plain"]["perSecond"]
    assert {found[name][step]["tokens"] for name in ("bf16", "fp8", "fp8-kv") for step in ("ready 0",)} == {256.0}
    text = reasoner_gpu_page.text()
    assert text.count("**not met**") == 5, "16-bit on an H100, FP8, busy GPU, few cores, until asked"


@pytest.mark.parametrize(("ours", "verdict"), [(20.7, "met"), (20.5, "**not met**")])
def test_faster_than_raw_vllm_is_by_more_than_its_passes_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: float, verdict: str
) -> None:
    def set_slowest(found: dict[str, Any]) -> None:
        found["rounds"][0]["worker"]["steady"]["perSecond"] = ours
        for one, rate in zip(found["rounds"], (19.4, 20.0, 19.5), strict=True):
            one["raw"]["passes"][0]["seconds"] = found["clips"] / rate

    path = _found_elsewhere(gpu_results.FP8_THREE_TURNS, tmp_path, set_slowest)
    monkeypatch.setattr(goals_page, "FP8_THREE_TURNS", path)
    assert f"FP8 on an H200: {verdict}; H100: not measured" in reasoner_gpu_page.text()


@pytest.mark.parametrize(("cpu", "verdict"), [(3.6, "met"), (3.7, "**not met**")])
def test_four_cores_are_compared_with_the_fastest_way_of_sixteen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpu: float, verdict: str
) -> None:
    def set_rate(found: dict[str, Any]) -> None:
        found["bf16"]["1080p, 16 cores, CPU"]["perSecond"] = cpu

    monkeypatch.setattr(goals_page, "LARGE_ON_H200", _found_elsewhere(gpu_results.LARGE_ON_H200, tmp_path, set_rate))
    [row] = [line for line in reasoner_gpu_page.text().splitlines() if line.startswith("| 1920 x 1080: with 4 cores")]
    assert row.endswith(f"| {verdict} |")


def test_the_ratios_of_an_h200_are_those_that_were_measured() -> None:
    on_h100 = [json.loads(path.read_text(encoding="utf-8")) for path in (gpu_results.ON_H100, gpu_results.NEWEST)]
    ours, _ = gpu_results.rates_in_turn(json.loads(gpu_results.SHIPPED_ON_H200.read_text(encoding="utf-8")))
    clips = max(gpu_results.steady_rate(found, "bf16") for found in on_h100) / min(ours)
    one, other = (
        mode_results.read(path)["modes"]["plain"]["kinds"]["t2v"]["832x480"]["seconds"]["generate"]
        for path in (modes_page.RESULT, modes_page.EARLIER)
    )
    assert (GPUS["H200"].clip_times_h100, GPUS["H200"].video_times_h100) == (round(clips, 2), round(one / other, 2))


def test_auto_is_the_engine_that_was_measured_to_be_faster_on_a_gpu() -> None:
    def seconds(path: Path) -> dict[str, float]:
        videos = mode_results.read(path)["modes"]["plain"]["kinds"]["t2v"]
        return {size: job["seconds"]["generate"] for size, job in videos.items()}

    ours = json.loads(accelerations_page.OURS.read_text(encoding="utf-8"))["sizes"]
    on_h100 = {size: rows["asynchronous"]["seconds"] for size, rows in ours.items() if "asynchronous" in rows}
    faster = {
        "H100": (on_h100, seconds(modes_page.EARLIER)),
        "H200": (seconds(accelerations_page.AS_IT_SHIPS), seconds(modes_page.KINDS)),
    }
    for diffusers, omni in faster.values():
        both = diffusers.keys() & omni.keys()
        assert len(both) == 2 and all(diffusers[size] < omni[size] for size in both)
    assert set(GENERATOR_ABILITIES["diffusers"].fastest_on) == set(faster)


def test_agreement_counts_tokens_until_the_first_that_differs() -> None:
    exact = [[("a", -1.0), ("b", -1.0), ("c", -1.0)], [("d", -2.0), ("e", -1.0), ("f", -1.0)]]
    other = [[("a", -1.5), ("b", -1.0), ("c", -2.0)], [("d", -2.25), ("x", -1.0), ("f", -1.0)]]
    assert reasoner_gpu.agreement(other, exact) == {
        "compared": 2, "sameAnswers": 1, "sameTokens": 2.0, "sameFirstToken": 2, "largestDifference": 0.5,
    }  # fmt: skip
    nothing = reasoner_gpu.agreement([[("x", -1.0)]], [[("a", -1.0)]])
    assert (nothing["sameAnswers"], nothing["sameFirstToken"], nothing["largestDifference"]) == (0, 0, None)


def test_questions_are_compared_token_by_token_after_the_clip() -> None:
    words = [
        ("<s>", None),
        ("<|video_pad|>", -9.0),
        ("at 1 s", -2.0),
        ("<|video_pad|>", -9.0),
        ("What", -3.0),
        ("?", -1.5),
    ]
    prompt = [None if number is None else {"7": {"decoded_token": word, "logprob": number}} for word, number in words]
    assert reasoner_gpu.after_the_clip(prompt) == [-3.0, -1.5]
    found = reasoner_gpu.prompt_difference([[-3.0, -1.5], [-1.0]], [[-2.5, -1.75], [-1.0]])
    assert found == {"tokens": 3, "mean": 0.25, "largest": 0.5}


def test_answers_of_fp8_are_compared_with_the_exact_ones_of_the_same_file(tmp_path: Path) -> None:
    into = tmp_path / "found.json"
    results: dict[str, Any] = {}
    for name, token, number in (("bf16", "a", -1.0), ("fp8", "b", -1.5)):
        session = reasoner_gpu.ReasonerSession(into, name, comparison.TINY, results)
        session.keep("answers", {"greedy": [[(token, -1.0)]], "question": [[number]]})
        session.keep_agreement()
    found = json.loads(into.read_text(encoding="utf-8"))
    assert not {"agreement", "prompts"} & found["bf16"].keys()
    assert found["fp8"]["agreement"]["sameAnswers"] == 0 and found["fp8"]["prompts"]["mean"] == 0.5


def test_every_command_of_the_page_has_the_options_that_its_program_takes() -> None:
    commands = re.findall(r"(?:^|`)python -m (benchmarks[.\w]+)([^`\n]*)", page.text(), re.MULTILINE)
    assert len(commands) >= 30 and ("benchmarks.runs.items", "") in commands
    for program, arguments in commands:
        importlib.import_module(program).parse(shlex.split(arguments))
    with pytest.raises(SystemExit):
        reasoner_gpu.parse(["--work", "w", "--into", "f", "--stedy", "1"])


def test_the_true_shapes_have_the_published_number_of_parameters(tmp_path: Path) -> None:
    tiny = json.loads((true_shapes.build_random_checkpoint(tmp_path) / "config.json").read_text(encoding="utf-8"))
    for shape, published in reasoner_figures.PARAMETERS.items():
        tensors = true_shapes.true_tensors(true_shapes.true_config(shape, tiny, true_shapes.full_tokenizer()))
        assert sum(map(math.prod, tensors.values())) == published


def test_the_weights_of_the_32b_take_no_space(tmp_path: Path) -> None:
    weights = true_shapes.build("32b", tmp_path) / "model.safetensors"
    with weights.open("rb") as file:
        header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
        begins = file.tell()
    del header["__metadata__"]
    assert 2 * sum(math.prod(one["shape"]) for one in header.values()) == weights.stat().st_size - begins
    assert max(one["data_offsets"][1] for one in header.values()) == weights.stat().st_size - begins
    assert 33e9 < sum(math.prod(one["shape"]) for one in header.values()) < 34e9
    assert weights.stat().st_blocks * 512 < 10_000_000


def test_the_true_shape_of_the_generator_has_nanos_number_of_parameters() -> None:
    import_torchvision()
    import diffusers
    import torch

    with torch.device("meta"):
        parts = (
            diffusers.Cosmos3OmniTransformer(**true_generator.NANO),
            diffusers.AutoencoderKLWan(**true_generator.NANO_VAE),
        )
    billions = [sum(weight.numel() for weight in part.parameters()) / 1e9 for part in parts]
    assert [round(one, 1) for one in billions] == [15.2, 0.7]


def test_each_measure_of_the_generator_is_added_to_those_before() -> None:
    taken = [
        {name for name, value in asdict(one.measures).items() if value}
        for one in accelerations.ADDED
        if one.name != "frames"
    ]
    assert all(len(after - before) == 1 and before < after for before, after in pairwise(taken))
    default = next(one.measures for one in accelerations.ADDED if one.name == accelerations_page.DEFAULT)
    assert default == Accelerations(), "what is called our engine is our engine"


def test_a_measure_may_have_sizes_of_its_own() -> None:
    assert accelerations.chosen("fp8,all:320x192:1280x720", ("320x192", "832x480")) == {
        "fp8": ("320x192", "832x480"),
        "all": ["320x192", "1280x720"],
    }


def test_each_lossy_mode_is_measured_on_top_of_our_engine() -> None:
    assert {one.name: set(one.lossy) for one in accelerations.LOSSY} == {
        "fp8": {"fp8"}, "stepCache": {"stepCache"}, "both": {"fp8", "stepCache"},
        "fp8Attention": {"fp8Attention"}, "fp8Everywhere": {"fp8", "fp8Attention"},
        "all": {"fp8", "fp8Attention", "stepCache"},
    }  # fmt: skip
    assert {one.measures for one in accelerations.LOSSY} == {Accelerations()}


def _found_elsewhere(path: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Write the changed results of a file into another folder, and return the new file."""
    found = json.loads(path.read_text(encoding="utf-8"))
    change(found)
    (changed := folder / path.name).write_text(json.dumps(found))
    return changed


@pytest.mark.parametrize(
    ("encoding", "fp8", "pause", "idle", "met"),
    [
        (0.5, 2.9, 0.3, 0.3, 4),
        (0.6, 2.9, 0.3, 0.3, 3),
        (0.5, 3.1, 0.3, 0.3, 3),
        (0.5, 2.9, 0.4, 0.3, 3),
        (0.5, 2.9, 0.3, 0.31, 3),
    ],
)
def test_a_goal_of_the_generator_is_met_by_a_measurement_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: float, fp8: float, pause: float, idle: float, met: int
) -> None:
    def set_seconds(found: dict[str, Any]) -> None:
        videos = {mode: found["modes"][mode]["kinds"]["t2v"] for mode in ("plain", "fp8")}
        found["encodingSeconds"]["320x192"] = encoding
        videos["plain"]["320x192"]["seconds"]["generate"], videos["fp8"]["320x192"]["seconds"]["generate"] = 6.0, fp8
        del videos["fp8"]["832x480"]

    def set_pauses(found: dict[str, Any]) -> None:
        between = {"secondsBetweenLastAndFirstStep": [0.1, pause], "secondsFromEndToEnd": [6.0, 6.5]}
        found["modes"]["plain"] |= {**between, "gpuIdleSecondsOfAJob": idle}

    for module, name, change in (
        (modes_page, "RESULT", set_seconds),
        (modes_page, "KINDS", set_pauses),
        (queue_page, "OMNI", set_pauses),
    ):
        monkeypatch.setattr(module, name, _found_elsewhere(getattr(module, name), tmp_path, change))
    text = modes_page.text()
    goals = len(mode_results.EXACT) + len(modes_page.LOSSY) + 2
    assert (text.count("| met |"), text.count("| **not met** |")) == (met, goals - met)
    assert "| 832x480, FP8: at most 25 s | not measured | **not met** |" in text
    assert f"which is {int(3600 / 6.5)} an hour" in " ".join(text.split())
    row = f"| `t2v`, 320x192, as it ships | 6.00 s | {encoding:.2f} s | {6 + encoding:.2f} s | 33.1 GiB | 56 s |"
    assert row in text


def test_a_job_that_failed_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def let_fail(found: dict[str, Any]) -> None:
        found["modes"]["fp8"]["kinds"]["t2v"]["832x480"] = {"error": "It failed."}
        found["modes"]["plain"]["kinds"]["sound"] = {"320x192": {"error": "It failed."}}

    monkeypatch.setattr(modes_page, "RESULT", _found_elsewhere(modes_page.RESULT, tmp_path, let_fail))
    text = modes_page.text()
    assert "| 832x480, FP8: at most 25 s | not measured | **not met** |" in text


@pytest.mark.parametrize(("over", "verdict"), [(0.0, "met"), (0.01, "**not met**")])
def test_a_goal_of_diffusers_is_met_by_a_measurement_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: float, verdict: str
) -> None:
    ours, whole = (
        json.loads(path.read_text(encoding="utf-8")) for path in (accelerations_page.OURS, accelerations_page.WHOLE)
    )
    for size, goal in modes_page.LOSSY.items():
        ours["sizes"][size]["all"]["seconds"] = goal + over
    for size, goal in mode_results.EXACT.items():
        whole["sizes"][size][accelerations_page.DEFAULT]["whole"] = goal + over
    shipped = json.loads(accelerations_page.AS_IT_SHIPS.read_text(encoding="utf-8"))
    shipped["modes"]["plain"]["secondsBetweenLastAndFirstStep"] = [0.1, queue_page.PAUSE + over]

    def set_pauses(found: dict[str, Any]) -> None:
        plain = found["modes"]["plain"]
        plain["secondsBetweenLastAndFirstStep"], plain["gpuIdleSecondsOfAJob"] = [0.1], queue_page.PAUSE + over

    queue = _found_elsewhere(queue_page.DIFFUSERS, tmp_path, set_pauses)
    monkeypatch.setattr(queue_page, "DIFFUSERS", queue)
    for name, results in (("OURS", ours), ("WHOLE", whole), ("AS_IT_SHIPS", shipped)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(results))
        monkeypatch.setattr(accelerations_page, name, path)
    text = accelerations_page.text()
    modes = "`fp8`, `fp8Attention` and `stepCache`"
    for size, goal in modes_page.LOSSY.items():
        assert f"| {size}, {modes}, generation alone: at most {goal:g} s | {goal + over:.2f} s | {verdict} |" in text
    for size, goal in mode_results.EXACT.items():
        assert (
            f"| {size}, exact, generation and encoding: at most {goal:g} s | {goal + over:.2f} s | {verdict} |" in text
        )
    assert text.count(f"at most {queue_page.PAUSE} s | {queue_page.PAUSE + over:.2f} s | {verdict} |") == 2


def test_the_page_counts_the_passes_that_the_step_cache_computes() -> None:
    import_torchvision()
    from cosmos_batch.engines.generator.diffusers.transformer import is_step_reused

    steps = json.loads(accelerations_page.OURS.read_text(encoding="utf-8"))["workload"]["steps"]
    assert 2 * sum(not is_step_reused(step, steps) for step in range(steps)) == accelerations_page.COMPUTED


@pytest.mark.parametrize(
    ("chosen", "all_of_them", "first"),
    [
        (None, [], ["--id=0"]),
        ("", [], ["--id=0"]),
        ("1", ["--id=1"], ["--id=1"]),
        ("2,3", ["--id=2,3"], ["--id=2"]),
    ],
)
def test_nvidia_smi_is_asked_about_the_gpus_of_the_process(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, all_of_them: list[str], first: list[str]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert (gpus_of_this_process(), gpus_of_this_process(first=True)) == (all_of_them, first)

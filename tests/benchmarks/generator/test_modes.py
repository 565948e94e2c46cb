"""The benchmark of the generator's modes starts its servers as a deployment with the same mode does."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.generator import modes
from benchmarks.generator.jobs import KINDS, NANO, TINY, GeneratorWorkload, generation_for
from benchmarks.generator.modes import FP8, MODES, ON_ONE_GPU, encoding_seconds, main, more_options, parse
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.engines.generator.vllm_omni.command import OmniPlan


def command(sea_cache: bool = False, plan: ParallelPlan | None = None) -> list[str]:
    return OmniPlan(plan or ParallelPlan(), 1, guardrails=False, sea_cache=sea_cache).command(
        Path("/models"), Path("/tmp/s")
    )


def test_more_options_are_those_of_the_mode_and_end_with_it() -> None:
    plain = command()
    with more_options(MODES["both"].options):
        pairs = dict(pairwise(command(MODES["both"].sea_cache)))
    assert pairs["--cache-backend"] == "sea_cache" and pairs[FP8[0]] == FP8[1]
    assert command() == plain and not MODES["plain"].options


@pytest.mark.parametrize(
    ("mode", "flags"),
    [
        ("tp2", {"--tensor-parallel-size": "2"}),
        ("cfg2", {"--cfg-parallel-size": "2"}),
        ("cfg2Hsdp", {"--cfg-parallel-size": "2", "--hsdp-shard-size": "2"}),
    ],
)
def test_a_mode_of_two_gpus_shares_each_job_between_them(mode: str, flags: dict[str, str]) -> None:
    one = MODES[mode]
    with more_options(one.options):
        pairs = dict(pairwise(command(plan=one.plan)))
    assert flags.items() <= pairs.items() and one.plan.gpus == 2 and mode not in ON_ONE_GPU
    assert ("--use-hsdp" in pairs) == (mode == "cfg2Hsdp")


@pytest.mark.parametrize("workload", [TINY, NANO], ids=lambda one: one.shape)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_job_is_admitted_in_each_size(kind: str, workload: GeneratorWorkload) -> None:
    for size in workload.memory_sizes:
        job = generation_for(workload, size, kind)
        assert (job.mode, job.sound, job.steps) == (KINDS[kind]["mode"], kind == "sound", workload.steps)
        if job.action:
            assert job.num_frames == 17 and job.size is None, "its input's size decides"
        else:
            assert job.size is not None and str(job.size) == size
            assert job.num_frames == (1 if kind == "t2i" else workload.frames)


def test_another_engine_than_vllm_omni_has_none_of_its_modes(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["--engine", "phyai", "--modes", "plain,cfg2"]).modes == ["plain", "cfg2"]
    with pytest.raises(SystemExit):
        parse(["--engine", "phyai", "--modes", "plain,fp8"])
    assert "phyai has no mode fp8" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse(["--modes", "fast"])
    assert "Modes are plain, static" in capsys.readouterr().err


@pytest.mark.slow  # it loads PyTorch and the tiny model
@pytest.mark.parametrize("kind", ["t2v", "v2v", "policy", "transfer"])
def test_a_job_of_each_medium_is_measured_with_diffusers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "found.json"
    size = "320x192" if kind == "policy" else "64x48"
    arguments = f"--engine diffusers --modes plain --jobs {kind}:{size} --work {tmp_path} --into {into}"
    monkeypatch.setattr("sys.argv", ["modes", *arguments.split()])
    main()
    [measured] = json.loads(into.read_text(encoding="utf-8"))["modes"].values()
    assert measured["kinds"][kind][size]["seconds"]["generate"] > 0


@pytest.mark.slow  # it loads PyTorch and the tiny model
def test_a_job_that_fails_is_written_with_its_error_and_the_next_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into, first_file = tmp_path / "found.json", modes._first_file

    def broken_image(kind: str, size: str, frames: int, folder: Path) -> Path | None:
        path = first_file(kind, size, frames, folder)
        if path is not None:
            path.write_bytes(b"no image")
        return path

    monkeypatch.setattr(modes, "_first_file", broken_image)
    arguments = f"--engine diffusers --modes plain --jobs i2v:64x48,t2v:64x48 --work {tmp_path} --into {into}"
    monkeypatch.setattr("sys.argv", ["modes", *arguments.split()])
    main()
    [measured] = json.loads(into.read_text(encoding="utf-8"))["modes"].values()
    assert "no container format" in measured["kinds"]["i2v"]["64x48"]["error"]
    assert measured["kinds"]["t2v"]["64x48"]["seconds"]["generate"] > 0


def test_encoding_is_measured_with_a_clip_of_the_size(tmp_path: Path) -> None:
    assert encoding_seconds("64x48", 5, tmp_path) > 0 and not list(tmp_path.iterdir())


@pytest.mark.slow  # it loads PyTorch and the tiny model
def test_pauses_are_taken_between_jobs_that_the_engine_has_in_hand_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "found.json"
    arguments = f"--engine diffusers --modes plain --jobs t2v:64x48 --pauses 3 --work {tmp_path} --into {into}"
    monkeypatch.setattr("sys.argv", ["modes", *arguments.split()])
    main()
    [measured] = json.loads(into.read_text(encoding="utf-8"))["modes"].values()
    assert len(measured["secondsBetweenLastAndFirstStep"]) == len(measured["secondsFromEndToEnd"]) == 2
    assert all(seconds > 0 for seconds in measured["secondsFromEndToEnd"])

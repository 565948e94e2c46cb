"""The GPUs of a process, and their free memory."""

from pathlib import Path

import pytest

from cosmos_batch.engines import gpus


@pytest.mark.parametrize(("chosen", "count"), [(None, 2), ("1", 1), ("0,1", 2), ("", 0), ("-1", 0)])
def test_cuda_visible_devices_limits_the_gpus(
    devices: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None, count: int
) -> None:
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert gpus.gpus_here() == count


def test_without_a_driver_there_are_no_gpus(devices: Path) -> None:
    (devices / "nvidiactl").unlink()
    assert gpus.gpus_here() == 0


def test_only_visible_gpus_are_queried(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.write_text("1, 1\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    gpus.free_share()
    assert driver.with_name("asked").read_text().endswith(" --id=1,2\n")


@pytest.mark.parametrize(
    ("output", "gpu"),
    [
        ("NVIDIA L40S, 46068\nNVIDIA L40S, 46068\n", ("NVIDIA L40S", 46068 / 1024)),
        ("NVIDIA H100 80GB HBM3, 81559\nTesla T4, 15360\n", ("Tesla T4", 15.0)),
        ("Graphics, of a name with commas, 24564\n", ("Graphics, of a name with commas", 24564 / 1024)),
        ("NVIDIA GB10, [N/A]\n", None),
        ("", None),
    ],
)
def test_the_kind_of_gpu_is_that_with_least_memory(driver: Path, output: str, gpu: tuple[str, float] | None) -> None:
    driver.write_text(output)
    assert gpus.gpu_here() == gpu


@pytest.mark.parametrize(
    ("output", "capability"),
    [("9.0\n9.0\n", (9, 0)), ("12.0\n8.6\n", (8, 6)), ("10.0\n8.9\n", (8, 9)), ("[N/A]\n", None), ("", None)],
)
def test_the_compute_capability_is_that_of_the_oldest_gpu(
    driver: Path, output: str, capability: tuple[int, int] | None
) -> None:
    driver.write_text(output)
    assert gpus.compute_capability() == capability


def test_without_a_driver_all_memory_counts_as_free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.free_share() == 1.0 and gpus.gpu_here() is None

"""A driver that is too old for the image's CUDA is refused before the model is loaded."""

from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.worker.nvidia_driver import check_driver, driver_version

OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (dvs-builder@U22)  Tue Jul 29 2026
GCC version:  gcc version 11.5.0 20240719 (Red Hat 11.5.0-5) (GCC)
"""
PROPRIETARY = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Thu Feb  1 00:10:36 UTC 2024
GCC version:  gcc version 12.3.0
"""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (OPEN.format(version="580.95.05"), (580, 95)),
        (OPEN.format(version="580.159.04"), (580, 159)),  # the line of a host with an H100
        (OPEN.format(version="570.26"), (570, 26)),
        (PROPRIETARY.format(version="535.161.07"), (535, 161)),
        ("GCC version: 580.95.05", None),
        ("", None),
    ],
)
def test_the_driver_version_is_read(text: str, version: tuple[int, int] | None) -> None:
    assert driver_version(text) == version


@pytest.mark.parametrize(
    ("cuda", "version"), [("cu130", "580.65.06"), ("cu130", "590.10"), ("cu128", "570.26"), ("cu128", "580.95.05")]
)
def test_a_driver_that_is_new_enough_is_accepted(tmp_path: Path, cuda: str, version: str) -> None:
    file = tmp_path / "version"
    file.write_text(OPEN.format(version=version))
    check_driver(cuda, file)


@pytest.mark.parametrize(("cuda", "version"), [("cu130", "570.195.03"), ("cu130", "580.20"), ("cu128", "535.161.07")])
def test_a_driver_that_is_too_old_is_refused_with_both_versions(tmp_path: Path, cuda: str, version: str) -> None:
    file = tmp_path / "version"
    file.write_text(PROPRIETARY.format(version=version))
    with pytest.raises(Failure) as raised:
        check_driver(cuda, file)
    error = raised.value.error
    assert error.code == "EngineFailed"
    assert version.rsplit(".", 1)[0] in error.message and cuda in error.message
    assert ("app.cosmosBatch.images.cuda" in error.remedy) is (cuda == "cu130")  # nothing is built for less than cu128


def test_a_missing_driver_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure) as raised:
        check_driver("cu130", tmp_path / "version")
    assert "has no NVIDIA driver" in raised.value.error.message


def test_an_image_without_cuda_needs_no_driver(tmp_path: Path) -> None:
    check_driver(None, tmp_path / "version")


def test_a_version_in_another_form_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "version"
    file.write_text("something else")
    check_driver("cu130", file)

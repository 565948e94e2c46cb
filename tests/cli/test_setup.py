"""`setup.sh` chooses Python and torch, and passes pip's configuration on to uv."""

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def install() -> ModuleType:
    return script("install")


@pytest.fixture
def install_vllm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return script("install_vllm")


def set_up(tmp_path: Path, **pythons: str) -> subprocess.CompletedProcess[str]:
    """Run setup.sh where the only Pythons are scripts that print these versions."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("dirname",):
        (folder / tool).symlink_to(f"/usr/bin/{tool}")
    for name, answer in pythons.items():
        path = folder / name.replace("_", ".")
        path.write_text(f'#!/bin/sh\n[ "$1" = -c ] || {{ echo "$0 runs $1"; exit; }}\n{answer}\n')
        path.chmod(0o755)
    command = ["/bin/sh", str(ROOT / "scripts" / "setup.sh")]
    return subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)


def test_a_python_command_that_cannot_start_is_skipped(tmp_path: Path) -> None:
    ran = set_up(tmp_path, python3_11="exit 127", python3_12="echo old", python3_13="echo good", python3="echo good")
    assert ran.stdout.strip().endswith("python3.13 runs scripts/install.py")


def test_a_missing_python_is_explained(tmp_path: Path) -> None:
    ran = set_up(tmp_path, python3="echo old")
    assert ran.returncode == 1
    assert "no Python 3.11 or later" in ran.stderr


def test_a_python_without_ensurepip_is_explained(tmp_path: Path) -> None:
    ran = set_up(tmp_path, python3_12="echo no ensurepip")
    assert ran.returncode == 1
    assert "apt install python3.12-venv" in ran.stderr


def test_uv_gets_the_settings_of_pip(install: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (
        "global.index-url='https://one/simple'\nglobal.find-links='/a\\n/b'\n:env:.index-url='https://two/simple'\n"
    )
    monkeypatch.setattr(install.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=listed))
    environment = install.uv_environment()
    assert environment["UV_DEFAULT_INDEX"] == "https://two/simple"
    assert environment["UV_FIND_LINKS"] == "/a,/b"


@pytest.mark.parametrize(
    ("requires", "needs"),
    [(["filelock", "sympy"], False), (["filelock", 'nvidia-nccl-cu13==2; platform_system == "Linux"'], True)],
)
def test_a_build_with_cuda_is_known_by_what_it_brings(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, requires: list[str], needs: bool
) -> None:
    report = json.dumps({"install": [{"metadata": {"requires_dist": requires}}]})
    monkeypatch.setattr(install.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=report, returncode=0))
    assert install.needs_cuda("torch==1") is needs


@pytest.mark.parametrize(
    ("cuda", "reachable", "installed"),
    [(True, True, ["torch", "torchvision"]), (False, True, ["torchvision"]), (True, False, []), (False, False, [])],
)
def test_cpu_builds_come_from_where_they_are(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, cuda: bool, reachable: bool, installed: list[str]
) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(install, "needs_cuda", lambda _: cuda)
    monkeypatch.setattr(install, "reachable", lambda _: reachable)
    monkeypatch.setattr(install, "install", lambda *arguments: calls.append(arguments))
    install.install_cpu_torch()
    assert [one.split("==")[0] for call in calls for one in call if "==" in one] == installed
    assert all(install.CPU_INDEX in call for call in calls)


def test_every_pin_is_exact_and_public() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    assert all(line.count("==") == 1 and "+" not in line and "/" not in line for line in lines)


def test_pyproject_and_constraints_agree(install: ModuleType) -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for extra in install.EXTRAS.split(",") for one in project["optional-dependencies"][extra]]
    pins = {line.lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().splitlines()}
    for requirement in [*project["dependencies"], *extras]:
        name, _, version = requirement.partition("==")
        assert f"{name.split('[')[0]}=={version}".lower().replace("_", "-") in pins


def test_vllm_for_a_gpu_is_that_of_the_image_beside_all_that_is_there(
    install_vllm: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(install_vllm, "has_nvidia_gpu", lambda: True)
    monkeypatch.setattr(install_vllm, "uv", lambda *arguments: calls.append(arguments) or True)
    install_vllm.main(["gpu"])
    lock = (ROOT / "containers" / "reasoner" / "requirements.cu130.in").read_text().splitlines()
    [(_, project, vllm)] = calls
    assert vllm in lock and project == f"{ROOT}[{install_vllm.EXTRAS}]"
    install_vllm.main([])
    assert len(calls) == 1, "the tests' CPU build would take its place"


def test_without_a_gpu_no_vllm_for_gpus_is_installed(install_vllm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install_vllm, "has_nvidia_gpu", lambda: False)
    with pytest.raises(SystemExit, match="no NVIDIA GPU"):
        install_vllm.main(["gpu"])

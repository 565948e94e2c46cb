"""The Dockerfiles and locks of the images, as far as that goes without a Docker engine."""

import ast
import fnmatch
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import get_args

import pytest
import uv

from containers.locks import target
from cosmos_batch.catalogue.engines import DEFAULT_IMAGE, ENGINES, Image
from cosmos_batch.engines.reasoner.vllm import command as vllm_command
from cosmos_batch.engines.reasoner.vllm import plugin as vllm_plugin
from cosmos_batch.local.containers.dockerfile import instructions, read_image

ROOT = Path(__file__).resolve().parents[2]
IMAGES = list(get_args(Image))
# Packages that PyPI has as source alone, of pure Python.
WITHOUT_WHEEL = ("openai-whisper",)
LOCKS = sorted((ROOT / "containers").glob("*/requirements*.lock"))


def dockerfile(image: str) -> Path:
    return ROOT / "containers" / image / "Dockerfile"


def test_each_folder_is_an_image_that_some_engine_has() -> None:
    assert sorted(path.parent.name for path in (ROOT / "containers").glob("*/Dockerfile")) == sorted(IMAGES)
    assert {engine.image for engine in ENGINES.values()} | set(DEFAULT_IMAGE.values()) == set(IMAGES)


@pytest.mark.parametrize("image", IMAGES)
def test_a_dockerfile_is_clean(image: str) -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    command = [str(hadolint), "--config", str(ROOT / ".hadolint.yaml"), str(dockerfile(image))]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize("image", IMAGES)
def test_a_worker_starts_as_its_own_user_and_as_the_first_process(image: str) -> None:
    found = instructions(dockerfile(image))
    assert json.loads(dict(found)["ENTRYPOINT"])[1:] == ["-m", "cosmos_batch.worker"]
    assert [arguments for keyword, arguments in found if keyword == "USER"][-1] == "1000"
    assert "CMD" not in dict(found)


@pytest.mark.parametrize("image", IMAGES)
def test_bases_and_sources_are_pinned(image: str) -> None:
    found = instructions(dockerfile(image))
    bases = [arguments for keyword, arguments in found if keyword == "FROM"]
    assert bases
    stages = [base.partition(" AS ")[2] for base in bases]
    for base in [*bases, *re.findall(r"--from=(\S+)", dockerfile(image).read_text())]:
        name = base.partition(" ")[0]
        assert name in ["scratch", *stages] or re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", name), base
    for address in [arguments for keyword, arguments in found if keyword == "ADD"]:
        assert re.search(r"--checksum=sha256:[0-9a-f]{64} ", address)
    for arguments in [arguments for keyword, arguments in found if "git fetch" in arguments]:
        assert "${REVISION}" in arguments
        assert re.fullmatch(r"[0-9a-f]{40}", read_argument(found, "REVISION"))


def read_argument(found: list[tuple[str, str]], name: str) -> str:
    (value,) = [text.partition("=")[2] for keyword, text in found if keyword == "ARG" and text.startswith(f"{name}=")]
    return value


@pytest.mark.parametrize("image", IMAGES)
def test_the_packages_are_in_about_five_layers_that_a_host_pulls_at_the_same_time(image: str) -> None:
    found = instructions(dockerfile(image))
    [distributed] = [text for keyword, text in found if keyword == "RUN" and "layers.py" in text]
    [count] = re.findall(r"layers\.py (\d) /layers ", distributed)
    copied = [text for keyword, text in found if keyword == "COPY" and "--from=packages" in text]
    assert copied == [f"--link --from=packages /layers/{number} /" for number in range(1, int(count) + 1)]
    assert 4 <= int(count) <= 6


@pytest.mark.parametrize("image", IMAGES)
def test_all_that_a_worker_imports_is_compiled_when_the_image_is_built(image: str) -> None:
    """A container's user may not write bytecode beside the installed code, so each start would compile it again."""
    text = dockerfile(image).read_text()
    assert re.search(r"-m compileall -q -j 0 (/usr/local/lib/python3\.12|/usr/lib/python3\.12|/opt/python)", text)
    assert "--no-compile" not in text and "PIP_NO_COMPILE" not in text  # pip compiles unless it is told not to
    if "uv pip install" in text:
        assert "UV_COMPILE_BYTECODE=1" in text


@pytest.mark.parametrize("image", IMAGES)
def test_the_application_is_the_last_layer(image: str) -> None:
    """An edit of our code changes this layer alone, which is built, pushed and pulled in seconds."""
    found = instructions(dockerfile(image))
    ours = found.index(("COPY", "cosmos_batch ./cosmos_batch"))
    assert [keyword for keyword, _ in found[ours + 1 :]] == ["RUN", "USER", "WORKDIR", "ENTRYPOINT"]
    assert "--no-deps ." in found[ours + 1][1]
    assert not [text for keyword, text in found[:ours] if keyword == "COPY" and "cosmos_batch" in text]


@pytest.mark.parametrize("image", IMAGES)
def test_all_copied_files_exist_and_none_is_ignored(image: str) -> None:
    ignored = (ROOT / "containers" / image / "Dockerfile.dockerignore").read_text().splitlines()
    kept = [line[1:] for line in ignored if line.startswith("!")]
    for keyword, arguments in instructions(dockerfile(image)):
        if keyword != "COPY" or "--from" in arguments:
            continue
        for source in arguments.split()[:-1]:
            source = re.sub(r"\$\{\w+\}", "*", source)
            assert list(ROOT.glob(source)), source
            assert any(
                fnmatch.fnmatch(one, source) or one.startswith(source) or fnmatch.fnmatch(source, one) for one in kept
            )


def test_the_core_imports_what_every_image_has() -> None:
    """The modules that every worker imports need no package that only some of the images have."""
    core = {"boto3", "botocore", "huggingface_hub", "jsonschema", "pydantic", "pydantic_core"}
    core |= {"s3transfer", "urllib3"}  # which boto3 and botocore require
    for room in ("catalogue", "contract", "planning", "state", "store", "worker"):
        for path in (ROOT / "cosmos_batch" / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                for root in {name.partition(".")[0] for name in names}:
                    assert root in core | {"cosmos_batch"} | sys.stdlib_module_names, f"{path}: {root}"


@pytest.mark.parametrize("image", IMAGES)
def test_no_secret_is_built_in(image: str) -> None:
    text = dockerfile(image).read_text()
    assert not re.search(r"(?i)(ARG|ENV)\s+\S*(token|password|secret|key)", text)


@pytest.mark.parametrize("image", IMAGES)
def test_the_worker_knows_the_cuda_of_its_image(image: str) -> None:
    assert read_image(dockerfile(image)).environment["IMAGE_CUDA"] == "cu130"


def test_the_reasoner_is_built_for_either_driver() -> None:
    assert read_image(dockerfile("reasoner"), {"CUDA": "cu128"}).environment["IMAGE_CUDA"] == "cu128"
    assert {lock.name for lock in LOCKS if lock.parent.name == "reasoner"} == {
        "requirements.cu130.lock",
        "requirements.cu128.lock",
    }


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: f"{lock.parent.name}-{lock.stem}")
def test_a_lock_holds_what_its_image_asks_for_and_installs_on_its_target(lock: Path, tmp_path: Path) -> None:
    asked = re.findall(r"^([\w-]+)==(\S+)$", lock.with_suffix(".in").read_text(), re.MULTILINE)
    text = lock.read_text()
    for name, version in asked:
        assert f"{name.replace('_', '-')}=={version} " in text, "run: make locks"
    command = [uv.find_uv_bin(), "pip", "install", "--dry-run", "--no-deps", "--require-hashes"]
    command += [
        "--requirement",
        str(lock),
        "--only-binary",
        ":all:",
        *[word for name in WITHOUT_WHEEL for word in ("--no-binary", name)],
        "--target",
        str(tmp_path),
        *target(lock.parent.name),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert f"Would install {len(re.findall('^[a-z0-9].*==', text, re.MULTILINE))} packages" in answer.stderr


def test_cuda_is_the_version_in_the_name_of_the_lock() -> None:
    for lock in LOCKS:
        runtimes = re.findall(r"^nvidia-cuda-runtime(?:-cu12)?==(\d+\.\d+)", lock.read_text(), re.MULTILINE)
        if runtimes:
            assert runtimes == ["12.8" if "cu128" in lock.name else "13.0"], lock


# Where a module and its distribution are called differently.
DISTRIBUTIONS = {"PIL": "pillow", "cv2": "opencv-python-headless", "pillow_heif": "pillow-heif"}
# Packages that only the images of these engines have; their modules import them there.
PACKAGES_OF_OTHER_IMAGES = {
    "cosmos_framework",
    "cosmos_guardrail",
    "diffusers",
    "phyai",
    "phyai_utils_tools",
    "torchao",
    "vllm_omni",
}


@pytest.mark.parametrize("lock", [one for one in LOCKS if one.parent.name == "reasoner"], ids=lambda one: one.stem)
def test_the_reasoners_image_has_what_its_engines_import(lock: Path) -> None:
    locked = set(re.findall(r"^([a-z0-9-]+)==", lock.read_text(), re.MULTILINE))
    for room in ("engines", "media"):
        for path in (ROOT / "cosmos_batch" / room).rglob("*.py"):
            for root in third_party(path) - PACKAGES_OF_OTHER_IMAGES:
                assert _distribution(root) & locked, f"{path} imports {root}"


# Packages in the lock of Cosmos Framework, by its `pyproject.toml` at the image's commit and their requirements.
PACKAGES_OF_FRAMEWORK = {
    "av",
    "cv2",
    "huggingface_hub",
    "numpy",
    "packaging",
    "PIL",
    "tokenizers",
    "torch",
    "torchvision",
}


@pytest.mark.parametrize(
    ("image", "modules", "excepted"),
    [
        (
            "phyai",
            ["generator.phyai.engine", "generator.phyai.driver"],
            {"cv2"},
        ),  # only control videos need it, and this engine follows none
        ("omni", ["generator.vllm_omni.engine"], set()),
        ("diffusers", ["generator.diffusers.engine"], set()),
        # The engine's imports reach our plugin for vLLM, which only vLLM loads, and the reader of HEIC files, which are
        # refused with a message where its library is missing.
        (
            "framework",
            ["generator.cosmos_framework.engine", "cosmos_framework.driver"],
            PACKAGES_OF_FRAMEWORK | {"vllm", "pillow_heif"},
        ),
    ],
)
def test_a_generators_image_has_what_its_engine_imports(image: str, modules: list[str], excepted: set[str]) -> None:
    lock = ROOT / "containers" / image / "requirements.lock"
    locked = set(re.findall(r"^([a-z0-9-]+)==", lock.read_text(), re.MULTILINE))
    seen: set[str] = set()
    left = [f"cosmos_batch.engines.{name}" for name in modules]
    while left:
        name = left.pop()
        path = ROOT / Path(*name.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if name in seen or not path.is_file():
            continue
        seen.add(name)
        left += re.findall(r"^ *from (cosmos_batch[\w.]*) import", path.read_text(), re.MULTILINE)
        for root in third_party(path) - PACKAGES_OF_OTHER_IMAGES - excepted:
            assert _distribution(root) & locked, f"{path} imports {root}"
    assert {"cosmos_batch.engines.job_files", "cosmos_batch.engines.generator.inputs", "cosmos_batch.media"} <= seen


def _distribution(root: str) -> set[str]:
    """Return the names of the distributions that have a module. OpenCV has one with a GUI and one without."""
    name = DISTRIBUTIONS.get(root, root).replace("_", "-")
    return {name, name.removesuffix("-headless")}


def third_party(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names} - {"cosmos_batch"} - sys.stdlib_module_names


def test_the_reasoners_image_tells_vllm_of_our_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM finds the plugin that reads our clips by the entry point in the metadata of our installed package."""
    monkeypatch.setattr(vllm_command, "version", lambda _: "0.32.0")  # the image's; there may be none here
    context, wheels, installed = tmp_path / "context", tmp_path / "wheels", tmp_path / "installed"
    shutil.copytree(ROOT / "cosmos_batch", context / "cosmos_batch", ignore=left_out("reasoner"))
    shutil.copy(ROOT / "pyproject.toml", context)
    (context / "README.md").touch()  # as the Dockerfile does
    for command in (
        ["build", "--wheel", str(context), "--out-dir", str(wheels)],
        [
            "pip",
            "install",
            "--no-deps",
            "--no-index",
            "--find-links",
            str(wheels),
            "cosmos-batch",
            "--target",
            str(installed),
        ],
    ):
        answer = subprocess.run([uv.find_uv_bin(), *command], capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
    (package,) = metadata.distributions(path=[str(installed)])
    (plugin,) = package.entry_points.select(group="vllm.general_plugins")
    assert plugin.name == vllm_command.serve_environment(1, None, tmp_path / "socket")["VLLM_PLUGINS"]
    program = (
        "from cosmos_batch.engines.factory import create_engine\n"
        "from cosmos_batch.engines.reasoner.vllm import plugin\n"
        "create_engine('transformers'); print(plugin.__file__)"
    )
    environment = {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    where = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert where.stdout.strip() == str(installed / "cosmos_batch/engines/reasoner/vllm/plugin.py"), where.stderr
    assert plugin.value == "cosmos_batch.engines.reasoner.vllm.plugin:register" and callable(vllm_plugin.register)


def left_out(image: str) -> Callable[[str, list[str]], list[str]]:
    """Return the folders of `cosmos_batch` that an image does not have."""
    ignored = (ROOT / "containers" / image / "Dockerfile.dockerignore").read_text().splitlines()
    kept = [line.removeprefix("!cosmos_batch/") for line in ignored if line.startswith("!cosmos_batch/")]

    def choose(folder: str, names: list[str]) -> list[str]:
        top = Path(folder) == ROOT / "cosmos_batch"
        return [name for name in names if name == "__pycache__" or (top and name not in kept)]

    return choose

"""`containers/layers.py` makes layers of about one size of what was installed, and loses nothing of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from containers.layers import distribute

SCRIPT = Path(__file__).resolve().parents[2] / "containers" / "layers.py"
KIB = 1024


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Provide a folder with two packages larger than all others together, as torch and the CUDA libraries are."""
    root = tmp_path / "packages"
    site = root / "usr" / "local" / "lib" / "python3.12" / "site-packages"
    for library in ("cublas", "cudnn", "nccl"):
        write(site / "nvidia" / library / "lib" / "library.so", 90 * KIB)
    write(site / "torch" / "lib" / "libtorch.so", 150 * KIB)
    for number in range(100):
        write(site / f"package{number}" / "module.py", KIB)
    write(root / "usr" / "local" / "bin" / "vllm", 10)
    (root / "usr" / "local" / "bin" / "vllm").chmod(0o755)
    (site / "nvidia" / "empty").mkdir()
    (site / "lib64").symlink_to("torch/lib")
    (site / "gone").symlink_to("/nowhere")
    return root


def content(folder: Path) -> dict[str, object]:
    """Return the content at each path: bytes and mode of a file, the target of a link, nothing for a folder."""
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = (path.read_bytes(), path.stat().st_mode) if path.is_file() else None
    return found


def size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def test_every_file_folder_and_link_is_in_one_layer_at_its_path(installed: Path, tmp_path: Path) -> None:
    before = content(installed)
    distribute(5, tmp_path / "layers", installed, [installed / "usr"])
    layers = [content(tmp_path / "layers" / str(number)) for number in range(1, 6)]
    together = {name: what for layer in layers for name, what in layer.items()}
    assert together == before
    files = [name for layer in layers for name, what in layer.items() if what is not None]
    assert len(files) == len(set(files))


def test_no_layer_is_much_larger_than_the_others_although_two_packages_are(installed: Path, tmp_path: Path) -> None:
    total = size(installed)
    distribute(4, tmp_path / "layers", installed, [installed / "usr"])
    sizes = [size(tmp_path / "layers" / str(number)) for number in range(1, 5)]
    assert max(sizes) <= 1.5 * total / 4 and sum(sizes) == total


def test_there_are_as_many_layers_as_the_dockerfile_copies_even_of_a_single_file(tmp_path: Path) -> None:
    write(tmp_path / "root" / "opt" / "file", 1)
    distribute(5, tmp_path / "layers", tmp_path / "root", [tmp_path / "root" / "opt"])
    assert sorted(path.name for path in (tmp_path / "layers").iterdir()) == ["1", "2", "3", "4", "5"]


def test_it_runs_by_itself_in_an_image_that_has_nothing_of_ours(installed: Path, tmp_path: Path) -> None:
    arguments = ["5", str(tmp_path / "layers"), str(installed), str(installed / "usr")]
    subprocess.run([sys.executable, "-I", str(SCRIPT), *arguments], cwd=tmp_path, check=True)
    assert size(tmp_path / "layers") > 0 and size(installed) == 0


def test_bytecode_is_still_valid_where_the_layers_are_copied(installed: Path, tmp_path: Path) -> None:
    """Python uses bytecode whose source has the recorded time and size, and errors name the path of that source."""
    package = installed / "usr" / "local" / "compiled"
    package.mkdir()
    (package / "one.py").write_text("def fail():\n    raise ValueError\n")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # as in the images
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(package)], env=environment, check=True)
    distribute(5, tmp_path / "layers", installed, [installed / "usr"])
    image = tmp_path / "image"
    for number in range(1, 6):
        subprocess.run(["cp", "-a", f"{tmp_path / 'layers' / str(number)}/.", str(image)], check=True)
    program = "import one, sys; print(one.__cached__); one.fail()"
    place = {**environment, "PYTHONPATH": str(image / "usr" / "local" / "compiled")}
    answer = subprocess.run(
        [sys.executable, "-v", "-c", program], env=place, capture_output=True, text=True, check=False
    )
    assert f"code object from '{answer.stdout.strip()}'" in answer.stderr.replace('"', "'")
    assert f'File "{image}/usr/local/compiled/one.py"' in answer.stderr

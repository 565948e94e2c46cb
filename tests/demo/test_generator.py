"""The demo's generator."""

import subprocess
import sys
from pathlib import Path

import pytest

from cosmos_batch.demo.generator import GENERATOR_NAME, build_random_generator

# Of a snapshot of nvidia/Cosmos3-Nano, its generator's parts.
PARTS = {"model_index.json", "scheduler", "sound_tokenizer", "text_tokenizer", "transformer", "vae"}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_generator_has_the_layout_of_the_real_generator_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    folder = build_random_generator(tmp_path / "a")
    assert folder == tmp_path / "a" / GENERATOR_NAME and "random" in folder.name
    assert {path.name for path in folder.iterdir()} == PARTS
    assert contents(folder) == contents(build_random_generator(tmp_path / "b"))


def test_the_tiny_generator_has_less_than_ten_megabytes(tmp_path: Path) -> None:
    assert sum(map(len, contents(build_random_generator(tmp_path)).values())) < 10_000_000


@pytest.mark.parametrize(
    "imports",
    [
        pytest.param(
            "from cosmos_batch.demo.generator import import_diffusers; import_diffusers()",
            id="where it is built",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "from cosmos_batch.engines.generator.diffusers.checkpoint import Journal, import_libraries; "
            "import_libraries(Journal())",
            id="in a worker",
        ),
    ],
)
def test_imports_print_no_warning_that_a_person_could_do_nothing_about(imports: str) -> None:
    """Neither where it is built nor in a worker; what else is said is not lost."""
    code = (
        f"{imports}; import diffusers, logging, warnings; from cosmos_batch.demo.generator import SOUND; "
        "diffusers.Cosmos3OmniPipeline; diffusers.Cosmos3AVAEAudioTokenizer(**SOUND); "
        "logging.getLogger('torchao.quantization').warning('first'); warnings.warn('second', FutureWarning)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.splitlines() == ["first", "<string>:1: FutureWarning: second"]

"""The demo's generator."""

from pathlib import Path

from cosmos_batch.demo.generator import GENERATOR_NAME, build_random_generator

# Of a snapshot of nvidia/Cosmos3-Nano, its generator's parts.
PARTS = {"model_index.json", "scheduler", "sound_tokenizer", "text_tokenizer", "transformer", "vae"}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_generator_has_the_layout_of_the_real_one_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    folder = build_random_generator(tmp_path / "a")
    assert folder == tmp_path / "a" / GENERATOR_NAME and "random" in folder.name
    assert {path.name for path in folder.iterdir()} == PARTS
    assert contents(folder) == contents(build_random_generator(tmp_path / "b"))


def test_it_is_small_enough_for_a_test(tmp_path: Path) -> None:
    assert sum(map(len, contents(build_random_generator(tmp_path)).values())) < 10_000_000

"""Local copies of models laid out as a cache of the Hugging Face Hub, for libraries that load a model only by its
name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def offline_variables(cache: Path, models: Mapping[str, Path]) -> dict[str, str]:
    """Return environment variables with which a process downloads nothing and finds `models` by their names.

    If there are models, `cache` becomes a folder of links to them. It must exist as long as that process runs.
    """
    if not models:
        return {"HF_HUB_OFFLINE": "1"}
    _link(cache, models)
    return {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache)}


@contextmanager
def offline_process(cache: Path, models: Mapping[str, Path]) -> Iterator[None]:
    """Let this process download nothing and find `models` by their names while the block runs.

    Without models nothing changes. Environment variables would come too late, because the model store has imported the
    Hub\'s library already.
    """
    if not models:
        yield
        return
    from huggingface_hub import constants

    _link(cache, models)
    before = constants.HF_HUB_OFFLINE, constants.HF_HUB_CACHE
    constants.HF_HUB_OFFLINE, constants.HF_HUB_CACHE = True, str(cache)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, constants.HF_HUB_CACHE = before


def _link(cache: Path, models: Mapping[str, Path]) -> None:
    for model, folder in models.items():
        entry = cache / f"models--{model.replace('/', '--')}"
        (entry / "refs").mkdir(parents=True)
        (entry / "snapshots").mkdir()
        (entry / "refs" / "main").write_text(folder.name, encoding="utf-8")
        (entry / "snapshots" / folder.name).symlink_to(folder)

"""Copies of models as a cache of the Hub: what libraries load by name, and by nothing else, they find in it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def offline_variables(cache: Path, models: Mapping[str, Path]) -> dict[str, str]:
    """Variables with which a process asks nothing of the Hub, and finds `models` by name all the same.

    Where there are some, `cache` becomes a folder of links to them, which must stay as long as they are used.
    """
    if not models:
        return {"HF_HUB_OFFLINE": "1"}
    _link(cache, models)
    return {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache)}


@contextmanager
def offline_process(cache: Path, models: Mapping[str, Path]) -> Iterator[None]:
    """As `offline_variables`, of this process and for a while: the store downloads in it, too. Where there are none, it
    asks.
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
        kept = cache / f"models--{model.replace('/', '--')}"
        (kept / "refs").mkdir(parents=True)
        (kept / "snapshots").mkdir()
        (kept / "refs" / "main").write_text(folder.name, encoding="utf-8")
        (kept / "snapshots" / folder.name).symlink_to(folder)

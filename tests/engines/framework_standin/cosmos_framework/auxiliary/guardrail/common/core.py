"""A stand-in for the guardrails' files, which the framework downloads with another program."""

from pathlib import Path

from tests.support.guardrail_runners import TextRunner


class CheckpointDirHf:
    """The path of downloaded files, which is kept after the first download, as in the framework."""

    _path: str | None = None

    def download(self) -> str:
        assert self._path is not None, "it would start `uv`, which would ask its registry and the Hub"
        return self._path


GUARDRAIL1_CHECKPOINT = CheckpointDirHf()


class GuardrailRunner(TextRunner):
    """Loads the checks of a prompt: the words of a block list, and a model that is found by name."""

    def __init__(self) -> None:
        from huggingface_hub import snapshot_download

        files = Path(GUARDRAIL1_CHECKPOINT.download()) / "blocklist" / "custom" / "words"
        super().__init__(files.read_text().split())
        assert (Path(snapshot_download("Qwen/Qwen3Guard-Gen-0.6B")) / "config.json").is_file()

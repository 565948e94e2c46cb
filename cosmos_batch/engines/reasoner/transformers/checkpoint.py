"""Loading a checkpoint with transformers."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cosmos_batch.engines.checkpoints import loading, refuse_incomplete
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.library_imports import import_torchvision

_MODELS = "Cosmos-Reason2 or Cosmos 3"


@dataclass(frozen=True)
class Checkpoint:
    """A model on its device, with the processor that feeds it."""

    model: Any
    processor: Any
    device: str
    context: int
    """Tokens of prompt and answer together."""


def load_checkpoint(folder: Path, context: int | None, journal: Journal) -> Checkpoint:
    """Load a checkpoint in bfloat16 on a GPU, or in float32 on a CPU, without downloading anything.

    Only safetensors are read, and no code of the checkpoint is run.

    Raises
    ------
    Failure
        ModelUnavailable where the folder holds no checkpoint, a broken one, or an unknown architecture.
    """
    refuse_incomplete(folder, "config.json", models=_MODELS)
    _import_libraries(journal)
    with loading(folder, _MODELS), journal.listening("transformers"):
        device = _device(journal)
        model = _load_model(folder, device, journal)
        processor = _load_processor(folder, journal)
    model_limit = int(model.config.get_text_config().max_position_embeddings)
    return Checkpoint(model, processor, device, model_limit if context is None else min(model_limit, context))


def _import_libraries(journal: Journal) -> None:
    import torch

    import_torchvision()
    transformers = _transformers()
    transformers.utils.logging.disable_progress_bar()
    journal.note(f"imported torch {torch.__version__}, transformers {transformers.__version__}")


def _transformers() -> Any:
    """Return the module `transformers` as `Any`, because half of the library has no types."""
    return import_module("transformers")


def _device(journal: Journal) -> str:
    import torch

    if torch.cuda.is_available():
        journal.note(f"device: {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}")
        return "cuda"
    journal.note(f"device: CPU, {torch.get_num_threads()} threads")
    return "cpu"


def _load_model(folder: Path, device: str, journal: Journal) -> Any:
    import torch

    # Where a CPU has no bfloat16 arithmetic, torch emulates it hundreds of times slower than float32.
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model, report = _transformers().AutoModelForImageTextToText.from_pretrained(
        folder, dtype=dtype, local_files_only=True, use_safetensors=True, output_loading_info=True
    )
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise ValueError(f"{len(missing)} tensors are missing, {missing[0]} the first of them")
    size = model.get_memory_footprint() / 1e6
    journal.note(f"loaded {type(model).__name__} from {folder.name}: {model.num_parameters():,} parameters")
    model = model.to(device).eval()
    journal.note(f"{size:,.1f} MB of weights on {device} as {str(dtype).removeprefix('torch.')}")
    return model


def _load_processor(folder: Path, journal: Journal) -> Any:
    processor = _transformers().AutoProcessor.from_pretrained(folder, local_files_only=True)
    journal.note(f"loaded {type(processor).__name__}")
    return processor

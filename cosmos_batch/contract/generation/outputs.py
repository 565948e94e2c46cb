"""What a generation leaves behind, and what each file is called. VAMS's users know the names."""

from typing import Literal

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.contract.s3 import fitted_key

Role = Literal["video", "image", "actions", "preview", "contactSheet"]

DOCUMENT_ENDING = ".json"
_ENDINGS: dict[Role, str] = {
    "video": ".mp4",
    "image": ".png",
    "actions": ".actions.json",
    "preview": ".mp4.previewFile.gif",  # VAMS shows it for the file whose name it begins with
    "contactSheet": ".contactSheet.jpg",
}
_LONGEST = max(map(len, _ENDINGS.values()))
_TYPES = {
    ".mp4": "video/mp4",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".gif": "image/gif",
    ".json": "application/json",
}


def variant(pipeline: Pipeline) -> str:
    """How VAMS calls a pipeline's model, in its configuration and in the names of results."""
    return pipeline.id.removeprefix("cosmos3-")


def generation_document_key(directory: str, input_name: str | None, pipeline: Pipeline, timestamp: str) -> str:
    """Where the sidecar document goes: `{stem}_Cosmos3_{variant}_{timestamp}.json`, `cosmos3-...` without an input.

    What was made lies beside it, by the same name with another ending. Raises ValueError as `fitted_key` does.
    """
    if input_name is None:
        return fitted_key(directory, "", f"cosmos3-{variant(pipeline)}-{timestamp}", DOCUMENT_ENDING, _LONGEST)
    tail = f"_Cosmos3_{variant(pipeline)}_{timestamp}"
    return fitted_key(directory, input_name.rpartition(".")[0] or input_name, tail, DOCUMENT_ENDING, _LONGEST)


def output_key(document_key: str, role: Role, generation: Generation) -> str:
    """The key of a file beside its document."""
    ending = ".jpg" if role == "image" and generation.image_format == "jpeg" else _ENDINGS[role]
    return document_key.removesuffix(DOCUMENT_ENDING) + ending


def content_type(key: str) -> str:
    """Of what we write."""
    return _TYPES[key[key.rindex(".") :]]

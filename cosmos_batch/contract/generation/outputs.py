"""The files that a generation leaves behind, and their names, which users of VAMS know."""

from typing import Literal

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.s3 import fitted_key

Role = Literal["video", "image", "actions", "preview", "contactSheet"]

DOCUMENT_ENDING = ".json"
_ENDINGS: dict[Role, str] = {
    "video": ".mp4",
    "image": ".png",
    "actions": ".actions.json",
    "preview": ".mp4.previewFile.gif",  # VAMS shows it as the preview of the file whose name it starts with
    "contactSheet": ".contactSheet.jpg",
}
_LONGEST_ENDING = max(map(len, _ENDINGS.values()))
_CONTENT_TYPES = {
    ".mp4": "video/mp4",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".gif": "image/gif",
    ".json": "application/json",
}


def variant(pipeline: Pipeline) -> str:
    """Return VAMS's name for a pipeline's model, as in its configuration and in the names of results."""
    return pipeline.id.removeprefix("cosmos3-")


def generation_document_key(directory: str, input_name: str | None, pipeline: Pipeline, timestamp: str) -> str:
    """Return the key of the document: `{stem}_Cosmos3_{variant}_{timestamp}.json`, or `cosmos3-...` without an input.

    The other outputs have the same key with another ending. Raises ValueError as `fitted_key` does.
    """
    if input_name is None:
        return fitted_key(directory, "", f"cosmos3-{variant(pipeline)}-{timestamp}", DOCUMENT_ENDING, _LONGEST_ENDING)
    tail = f"_Cosmos3_{variant(pipeline)}_{timestamp}"
    return fitted_key(directory, input_name.rpartition(".")[0] or input_name, tail, DOCUMENT_ENDING, _LONGEST_ENDING)


def output_key(document_key: str, role: Role, generation: Generation) -> str:
    """Return the key of an output beside its document."""
    ending = ".jpg" if role == "image" and generation.image_format == "jpeg" else _ENDINGS[role]
    return document_key.removesuffix(DOCUMENT_ENDING) + ending


def content_type(key: str) -> str:
    """Return the content type of an output by the ending of its key."""
    return _CONTENT_TYPES[key[key.rindex(".") :]]

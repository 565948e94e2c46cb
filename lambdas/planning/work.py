"""Define `Work`, the result of planning a question or a generation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cosmos_batch.contract.job import InputFile


@dataclass(frozen=True)
class Work:
    """The part of a job that depends on its surface: its input, and where and what to write.

    Attributes
    ----------
    input
        The first input file; None for generations that start from text.
    output
        The prefix for results as an S3 URI; None to write beside the input.
    document_key
        A function that makes the key of the result document from a directory and a timestamp.
    fields
        Further fields of the job.
    """

    input: InputFile | None
    output: str | None
    document_key: Callable[[str, str], str]
    fields: dict[str, Any]

"""Name the paths of a job's input files in its working folder."""

from dataclasses import dataclass
from pathlib import Path

from cosmos_batch.catalogue.formats import extension
from cosmos_batch.catalogue.generation import Hint
from cosmos_batch.contract.job import Job


@dataclass(frozen=True)
class GenerationFiles:
    """The local input files of a generation: the file that it starts from, if any, and one file for some controls."""

    input: Path | None
    controls: dict[Hint, Path]


def generation_files(job: Job, workdir: Path) -> GenerationFiles:
    """Return which of a job's files is its input and which are controls. A control without a file of its own is
    computed from the input later."""
    paths = input_paths(job, workdir)
    input_path = None if job.input is None else paths.pop(0)
    transfer = job.generation.transfer if job.generation is not None else None
    controls = transfer.controls if transfer is not None else {}
    return GenerationFiles(
        input_path, dict(zip((hint for hint in controls if controls[hint].path), paths, strict=False))
    )


def input_paths(job: Job, workdir: Path) -> list[Path]:
    """Return the local paths of a job's inputs. Of an S3 key only the extension is used, because a key may hold
    anything.
    """
    return [workdir / f"input{number}{extension(source.key)}" for number, source in enumerate(job.inputs)]

"""Download the files that the lines of a run are about, or that they made."""

from pathlib import Path

from botocore.exceptions import ClientError

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.cli.errors import is_gone
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import ResultLine
from cosmos_batch.contract.s3 import parse_uri


def made_media(line: ResultLine) -> str | None:
    """Return the URI of the image or video that an item made; None if it made none."""
    return next((output.uri for output in line.outputs if extension(parse_uri(output.uri).key) in EXTENSIONS), None)


def download_media(run: StoredRun, uri: str, path: Path) -> bool:
    """Download a file to a path. Returns False where it is gone, or may not be read."""
    try:
        run.s3.download_file(*parse_uri(uri), str(path))
    except ClientError as error:
        if not is_gone(error):
            raise
        return False
    return True

"""Choose the files of a listing that a run takes, and say why the others are left out."""

import fnmatch
import re
from collections.abc import Sequence

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.catalogue.limits import INPUT_SIZE_LIMIT
from cosmos_batch.contract.s3 import KEY_LIMIT, is_own_output

FOLDER, OWN_OUTPUT, OTHER_KIND = "folders", "our own outputs", "files of other kinds"
NOT_CHOSEN, EMPTY, TOO_LARGE = "files that the patterns leave out", "empty files", "files that are too large"
OLD_VERSION = "versions of files that are not the latest"
NOT_MISSED = (FOLDER, OWN_OUTPUT, NOT_CHOSEN, OLD_VERSION)  # a person may have meant each of the others


class Selection:
    """The patterns of `--include` and `--exclude`, and the rules that hold for every listing.

    A pattern is compared with the path below the listed folder. As in the AWS command line, `*` also stands for `/`.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = [re.compile(fnmatch.translate(pattern)) for pattern in include]
        self._exclude = [re.compile(fnmatch.translate(pattern)) for pattern in exclude]

    def why_not(self, path: str, size: int) -> str | None:
        """Return why a file is left out, as a name for such files ("empty files"); None if the run takes the file.

        `path` is its path below the listed folder, and `size` is in bytes.
        """
        name = path.rpartition("/")[2]
        if not name:
            return FOLDER
        if not self._chosen(path):
            return NOT_CHOSEN
        if is_own_output(name):
            return OWN_OUTPUT
        if extension(name) not in EXTENSIONS or len(path.encode()) > KEY_LIMIT:
            return OTHER_KIND
        return EMPTY if size == 0 else TOO_LARGE if size > INPUT_SIZE_LIMIT else None

    def _chosen(self, path: str) -> bool:
        included = not self._include or any(pattern.match(path) for pattern in self._include)
        return included and not any(pattern.match(path) for pattern in self._exclude)

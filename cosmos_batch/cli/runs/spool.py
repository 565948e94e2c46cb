"""Lines kept on this machine's disk, so that a run of any size is planned in constant memory."""

import tempfile
from collections.abc import Iterator


class Spool:
    """A list of lines in a temporary file, which is gone when it is closed or when the process ends."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="cosmos-batch-run-")  # noqa: SIM115 - it outlives this call
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, line: bytes) -> None:
        """Append a line, which ends with a line break."""
        self._file.write(line)
        self._count += 1

    def __iter__(self) -> Iterator[bytes]:
        """Yield all lines. No line may be added meanwhile."""
        self._file.seek(0)
        yield from self._file

    def close(self) -> None:
        """Delete the lines."""
        self._file.close()

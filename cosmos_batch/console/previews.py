"""Conversions of videos for the browser, one at a time, in the background."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock

from cosmos_batch.console.kept_files import KeptFiles
from cosmos_batch.console.records import Preview
from cosmos_batch.console.transcoding import write_preview
from cosmos_batch.contract.error import Failure

_WAITING = 8  # conversions that may wait for the one at work


class _StoppedError(Exception):
    """The console ends."""


class Previews:
    """Converts videos on demand, and says how far each conversion is."""

    def __init__(self, kept: KeptFiles) -> None:
        self._kept = kept
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="preview")
        self._lock = Lock()
        self._shares: dict[Path, float] = {}
        self._stopped = Event()

    def ask(self, media: Path, url: str) -> Preview:
        """Return how far the conversion of a video is, after starting it if need be. `url` is where it will be."""
        with self._lock:
            if media in self._shares:
                return Preview(state="running", share=self._shares[media])
            try:
                self._kept.get(_key(media), _not_yet)
            except _NotYetError:
                return self._start(media)
            except Failure as failure:
                return Preview(state="failed", share=0, error=failure.error.message)
        return Preview(state="ready", share=1, url=url)

    def file(self, media: Path) -> Path | None:
        """Return the converted video, or None if it is not ready."""
        try:
            return self._kept.get(_key(media), _not_yet)
        except (_NotYetError, Failure):
            return None

    def stop(self) -> None:
        """End the conversion at work, and drop those that wait."""
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)

    def _start(self, media: Path) -> Preview:
        if len(self._shares) > _WAITING:
            return Preview(state="failed", share=0, error="Too many videos are being converted; open this one later.")
        self._shares[media] = 0.0
        self._pool.submit(self._convert, media)
        return Preview(state="running", share=0)

    def _convert(self, media: Path) -> None:
        try:
            self._kept.get(_key(media), lambda target: write_preview(media, target, self._reporter(media)))
        finally:
            with self._lock:
                del self._shares[media]

    def _reporter(self, media: Path) -> Callable[[float], None]:
        def report(share: float) -> None:
            if self._stopped.is_set():
                raise _StoppedError
            self._shares[media] = share

        return report


class _NotYetError(Exception):
    """The file was not made yet."""


def _not_yet(_: Path) -> None:
    raise _NotYetError


def _key(media: Path) -> str:
    """Return a key that changes with the file."""
    found = media.stat()
    return f"{media}\0{found.st_mtime_ns}\0{found.st_size}"

"""Conversions of videos for the browser, one at a time, in the background."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock

from cosmos_batch.console.collection import MediaFile
from cosmos_batch.console.kept_files import KeptFiles
from cosmos_batch.console.records import Preview
from cosmos_batch.console.run_backend import RefusalError
from cosmos_batch.console.transcoding import write_preview
from cosmos_batch.contract.error import Failure

_WAITING = 8  # conversions that may wait for the one at work

_log = logging.getLogger(__name__)


class _StoppedError(Exception):
    """A conversion was broken off, because the console ends."""


class Previews:
    """Converts videos on demand, and says how far each conversion is."""

    def __init__(self, kept: KeptFiles) -> None:
        self._kept = kept
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="preview")
        self._lock = Lock()
        self._shares: dict[str, float] = {}
        self._problems: dict[str, str] = {}  # of conversions that failed for a reason which may pass
        self._stopped = Event()

    def ask(self, media: MediaFile, url: str) -> Preview:
        """Return how far the conversion of a video is, after starting it if need be. `url` is where it will be.

        That it has failed for a reason which may pass, such as a full disk, is said once: who asks again starts anew.
        """
        key = media.key
        with self._lock:
            if key in self._shares:
                return Preview(state="running", share=self._shares[key])
            if key in self._problems:
                return Preview(state="failed", share=0, error=self._problems.pop(key))
            try:
                self._kept.get(_preview(media), _not_yet)
            except _NotYetError:
                return self._start(media, key)
            except Failure as failure:
                return Preview(state="failed", share=0, error=failure.error.message)
        return Preview(state="ready", share=1, url=url)

    def file(self, media: MediaFile) -> Path | None:
        """Return the converted video, or None if it is not ready."""
        try:
            return self._kept.get(_preview(media), _not_yet)
        except (_NotYetError, Failure):
            return None

    def stop(self) -> None:
        """End the conversion at work, and drop those that wait."""
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)

    def _start(self, media: MediaFile, key: str) -> Preview:
        if len(self._shares) > _WAITING:
            return Preview(state="failed", share=0, error="Too many videos are being converted; open this one later.")
        self._shares[key] = 0.0
        self._pool.submit(self._convert, media, key)
        return Preview(state="running", share=0)

    def _convert(self, media: MediaFile, key: str) -> None:
        def write(target: Path) -> None:
            with media.whole() as path:
                write_preview(path, target, self._reporter(key))

        problem = None
        try:
            self._kept.get(_preview(media), write)
        except (Failure, _StoppedError):
            pass  # a Failure is kept with the files
        except RefusalError as refusal:
            problem = str(refusal)
        except Exception as error:
            _log.exception("%s could not be converted", media.name)
            problem = f"The video could not be converted: {error}. The console's terminal shows more; try again."
        with self._lock:
            del self._shares[key]
            if problem is not None:
                self._problems[key] = problem

    def _reporter(self, key: str) -> Callable[[float], None]:
        def report(share: float) -> None:
            if self._stopped.is_set():
                raise _StoppedError
            self._shares[key] = share

        return report


class _NotYetError(Exception):
    """The file was not made yet."""


def _not_yet(_: Path) -> None:
    raise _NotYetError


def _preview(media: MediaFile) -> str:
    return f"preview\0{media.key}"

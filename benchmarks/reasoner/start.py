"""Benchmark of an engine's start on a new machine by phase, without and with code that another worker compiled.

    python -m benchmarks.reasoner.start MODEL CLIP BUCKET

Each start is a process of its own, from its first line to the first answer about a clip. Nothing of the model or of
vLLM is in the page cache, where that may be emptied. What is compiled is kept as a worker keeps it, with a folder in
S3's place.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.child_output import last_json_object

BEGAN = time.time()
PIPELINE = "cosmos-reason2-2b"
TOKENS = 8  # of the answer


class FolderAsBucket:
    """A folder with the S3 calls that `CompileCaches` makes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def list_objects_v2(self, *, Prefix: str, **_: Any) -> dict[str, Any]:  # noqa: N803 - names of S3's
        """Return the objects of a prefix, at most one."""
        path = self._folder / Prefix.replace("/", "_")
        return {"Contents": [{"Size": path.stat().st_size}]} if path.exists() else {}

    def download_file(self, _bucket: str, key: str, target: str) -> None:
        """Copy an object to a file."""
        shutil.copy(self._folder / key.replace("/", "_"), target)

    def upload_file(self, source: str, _bucket: str, key: str) -> None:
        """Copy a file into the folder."""
        shutil.copy(source, self._folder / key.replace("/", "_"))


def measure(model: Path, clip: Path, scratch: Path) -> dict[str, Any]:
    """Measure a start without compiled code, then two with the code of the first."""
    with tempfile.TemporaryDirectory(dir=scratch) as bucket:
        return {name: start(model, clip, Path(bucket)) for name in ("without", "with", "with 2")}


def start(model: Path, clip: Path, bucket: Path) -> dict[str, Any]:
    """Measure one start with the compiled code that the folder `bucket` holds, if any; leave there what it compiled."""
    shutil.rmtree(_compiled(), ignore_errors=True)
    forgotten = forget_files()
    began = time.time()
    command = [sys.executable, "-m", "benchmarks.reasoner.start", str(model), str(clip), str(bucket)]
    output = last_json_object(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    kept = sum(path.stat().st_size for path in bucket.iterdir())
    return {"seconds": output.pop("answered") - began, "filesForgotten": forgotten, "keptBytes": kept, **output}


def _compiled() -> Path:
    """Return the folder of compiled code of this benchmark. Like a worker's, its path is always the same."""
    return Path.home() / ".cache" / "cosmos-batch-benchmark"


def forget_files() -> bool:
    """Empty the page cache. Returns False if that is not allowed."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3", encoding="utf-8")
    except OSError:
        return False
    return True


def main() -> None:
    """Restore compiled code, load, answer about one clip, store compiled code; print the seconds of each."""
    from cosmos_batch.catalogue.pipelines import REASONER_CONTEXT
    from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
    from cosmos_batch.store import CompileCaches

    model, clip, bucket = map(Path, sys.argv[1:])
    seconds = {"boot": time.time() - BEGAN}
    engine: Any = VllmEngine()
    s3: Any = FolderAsBucket(bucket)
    caches = CompileCaches(_compiled(), PIPELINE, "bucket", s3)
    with _timed(seconds, "caches"):
        engine.caches = caches.restore({**engine.compiled_for(), "model": model.name})
    with _timed(seconds, "engine"):
        engine.load(model, REASONER_CONTEXT)
    with _timed(seconds, "answer"):
        asyncio.run(_ask(engine, clip))
    answered = time.time()
    caches.keep()
    engine.close()
    phases = {**seconds, **{f"engine: {name}": value for name, value in engine.startup_seconds.items()}}
    print(json.dumps({"answered": answered, "phases": phases}), flush=True)
    print(*engine.startup_logs, sep="\n", file=sys.stderr)


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    began = time.time()
    yield
    seconds[phase] = time.time() - began


async def _ask(engine: Any, clip: Path) -> None:
    from benchmarks.reasoner.clips import ReasonerWorkload, make_job
    from cosmos_batch.engines.job_files import input_paths

    job = make_job(0, clip, ReasonerWorkload("2b", 1, TOKENS, (), 1, 0))
    with tempfile.TemporaryDirectory() as folder:
        [path] = input_paths(job, Path(folder))
        shutil.copy(clip, path)
        await engine.run(job, Path(folder))


if __name__ == "__main__":
    main()

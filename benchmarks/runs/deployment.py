"""The app on a local cloud with an engine that answers at once, many small files, and a run over them."""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.runs.instant_engine import INFERENCES
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.run_keys import ERRORS, RESULTS
from cosmos_batch.state import Runs
from tests.support.deployed_app import TWO_B, App, configuration, running_app, wait_for

ENGINE = "benchmarks.runs.instant_engine:InstantEngine"
FOLDER = "clips/"
BAD_EVERY = 100
PROMPT = "What happens?"
PATIENCE_SECONDS = 3 * 3600
THREADS = 8
VCPUS = 24  # enough for two workers, one for each core of a small machine


@dataclass(frozen=True)
class RunTables:
    """Counts of the lines in the tables of a run that has ended, and of its documents in the asset bucket."""

    answers: int
    errors: int
    bad_answered: int
    good_failed: int
    items_twice: int
    documents: int

    @property
    def text(self) -> str:
        """Return the counts as a person reads them."""
        return f"{self.answers:,} answers, {self.errors:,} errors, {self.documents:,} documents"

    def is_exact(self, items: int) -> bool:
        """Return whether each good item has one answer and one document, and each bad one an error."""
        bad = items // BAD_EVERY
        return self == RunTables(items - bad, bad, 0, 0, 0, items - bad)


@dataclass
class RunsApp:
    """A deployed app with `items` files, of which every hundredth cannot be read as an image."""

    app: App
    items: int

    @cached_property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "COSMOS_BATCH_"))}
        return {**kept, **self.app.cloud.environment, "COSMOS_BATCH_HOME": str(self.app.folder / "home")}

    @property
    def prefix(self) -> str:
        return f"s3://{self.app.assets}/{FOLDER}"

    def start_command(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start `cosmos-batch runs` with these arguments, and return its process."""
        command = [sys.executable, "-m", "cosmos_batch.cli", "runs", *arguments]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL)

    def run_command(self, *arguments: str) -> None:
        """Run `cosmos-batch runs` with these arguments. Raises AssertionError if it fails."""
        status = self.start_command(*arguments).wait()
        assert status == 0, f"{arguments} ended with {status}"

    def command_output(self, *arguments: str) -> str:
        """Run `cosmos-batch runs` with these arguments, and return what it prints."""
        command = [sys.executable, "-m", "cosmos_batch.cli", "runs", *arguments]
        return subprocess.run(command, env=self.environment, check=True, stdout=subprocess.PIPE, text=True).stdout

    def start_arguments(self, run: str) -> list[str]:
        return ["start", self.prefix, "--prompt", PROMPT, "--name", run, "--yes"]

    def wait_until_ended(self, run: str) -> None:
        """Wait until a run has its summary and its execution has ended."""
        runs = Runs(self.app.table)

        def ended() -> bool:
            row = runs.get(run)
            return row is not None and row.ended_at is not None

        wait_for(ended, PATIENCE_SECONDS, f"{run} did not end")

    def done(self, run: str) -> int:
        """Return how many items of a run have ended."""
        return sum(shard.done for shard in Runs(self.app.table).shards.of_run(run))

    def objects(self, run: str) -> StoredRun:
        return StoredRun(self.app.client("s3"), self.app.outputs["StateBucketName"], run)

    def table(self, run: str) -> RunTables:
        """Count the lines of a run's tables and the documents."""
        answers, errors = (list(self.objects(run).lines(folder)) for folder in (RESULTS, ERRORS))
        ids = Counter(line.id for line in [*answers, *errors])
        keys = self.app.keys(FOLDER)
        return RunTables(
            answers=len(answers),
            errors=len(errors),
            bad_answered=sum("bad" in line.id for line in answers),
            good_failed=sum("bad" not in line.id for line in errors),
            items_twice=sum(number > 1 for number in ids.values()),
            documents=sum(key.endswith(".json") for key in keys),
        )

    def inferences(self) -> list[tuple[float, str]]:
        """Return when each inference began, and of which job."""
        log = self.app.folder / TWO_B / INFERENCES
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return [(float(at), job) for at, _, job in (line.partition(" ") for line in lines)]

    def upload(self, good: bytes) -> None:
        """Upload the files, and wait until the function `upload` has handled the events of all of them."""

        def put(number: int) -> None:
            is_bad = number % BAD_EVERY == BAD_EVERY - 1
            key = f"{FOLDER}{number // 1000:03}/{'bad' if is_bad else 'good'}-{number:06}.png"
            self.app.client("s3").put_object(Bucket=self.app.assets, Key=key, Body=b"no picture" if is_bad else good)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(put, range(self.items)))
        wait_for(lambda: not self._messages(), PATIENCE_SECONDS, "the events of the uploads are not handled")

    def _messages(self) -> dict[str, Any]:
        return {name: count for name, count in self.app.cloud.status()["messages"].items() if count}


@contextmanager
def deployed(items: int, **settings: Any) -> Iterator[RunsApp]:
    """Deploy the app with the times of a default configuration, and upload the files."""
    settings = {"worker": {"idleSeconds": 300}, "scaling": {}, "uploadGraceSeconds": 0, **settings}
    with tempfile.TemporaryDirectory() as folder:
        config = configuration(Path(folder), {"engine": ENGINE, "maxVCpus": VCPUS}, **settings)
        with running_app(Path(folder), config) as app:
            runs_app = RunsApp(app, items)
            began = time.monotonic()
            runs_app.upload(small_picture())
            print(f"{items} files put in {time.monotonic() - began:.0f} s", flush=True)
            yield runs_app


def small_picture() -> bytes:
    """Return a PNG of some hundred bytes."""
    import io

    from PIL import Image

    content = io.BytesIO()
    Image.new("RGB", (64, 48), "steelblue").save(content, "PNG")
    return content.getvalue()

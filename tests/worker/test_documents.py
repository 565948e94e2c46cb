"""The log lines of a document are limited in length, and its notes tell of misnamed files."""

import json
from collections.abc import Sequence
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.document import JOB_LOGS_LIMIT
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.worker.assembly import engine_for
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.documents import job_logs
from tests.support import media_files
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.conftest import WorkerFixture


class Converting(ScriptedEngine):
    """A reasoner's engine that has lossy modes."""

    lossy: Sequence[LossyMode] = ()


@example(startup_lines=["ü" * 30_000], job_lines=["何" * 30_000])
@given(
    startup_lines=st.lists(st.text(max_size=30_000), max_size=4),
    job_lines=st.lists(st.text(max_size=30_000), max_size=4),
)
def test_job_logs_stay_within_their_limit(startup_lines: list[str], job_lines: list[str]) -> None:
    text = job_logs(startup_lines, job_lines, {"generate": 1.25})
    assert len(text.encode()) <= JOB_LOGS_LIMIT
    assert text.endswith("generate: 1.250 s")


def test_a_note_names_content_and_extension_of_a_misnamed_file(bench: WorkerFixture, tmp_path: Path) -> None:
    misnamed = media_files.heic(tmp_path / "phone.jpg").read_bytes()
    bench.send(bench.job(body=misnamed))  # the job's key stays in/one.png
    bench.worker().run()
    notes = json.loads(bench.document("one"))["notes"]
    assert notes == ["The content is a HEIC image, though the name ends in .png: it was read as what it is."]


def test_a_document_says_that_the_weights_were_in_fp8(bench: WorkerFixture) -> None:
    environment = bench.environment("worker-1", "tests.worker.test_documents:Converting")
    environment = environment.model_copy(update={"lossy": ["fp8"]})
    assert WorkerEnvironment.read(environment.variables()) == environment, "as the container is given it"
    engine = engine_for(environment, Clients())
    bench.send(bench.job())
    bench.worker(engine=engine).run()
    document = json.loads(bench.document("one"))
    assert document["lossy"] == ["fp8"]
    assert any("Answered with fp8" in note and "not been evaluated" in note for note in document["notes"])


def test_a_document_names_the_gpus_decoder_without_a_note_on_the_answer(bench: WorkerFixture) -> None:
    """A clip that the GPU decoded has a note of its own; the answer to it is the same."""
    environment = bench.environment("worker-1", "tests.worker.test_documents:Converting")
    environment = environment.model_copy(update={"lossy": ["gpuDecode"]})
    bench.send(bench.job())
    bench.worker(engine=engine_for(environment, Clients())).run()
    document = json.loads(bench.document("one"))
    assert document["lossy"] == ["gpuDecode"]
    assert not any("Answered with" in note for note in document.get("notes", []))


def test_a_document_of_an_exact_engine_names_no_lossy_mode(bench: WorkerFixture) -> None:
    bench.send(bench.job())
    bench.worker(engine=Converting()).run()
    document = json.loads(bench.document("one"))
    assert "lossy" not in document and "notes" not in document

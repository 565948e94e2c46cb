"""The log lines of a document are limited in length, and its notes tell of misnamed files."""

import json
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from cosmos_batch.contract.document import JOB_LOGS_LIMIT
from cosmos_batch.worker.documents import job_logs
from tests.support import media_files
from tests.worker.conftest import Bench


@example(startup_lines=["ü" * 30_000], job_lines=["何" * 30_000])
@given(
    startup_lines=st.lists(st.text(max_size=30_000), max_size=4),
    job_lines=st.lists(st.text(max_size=30_000), max_size=4),
)
def test_job_logs_stay_within_their_limit(startup_lines: list[str], job_lines: list[str]) -> None:
    text = job_logs(startup_lines, job_lines, {"generate": 1.25})
    assert len(text.encode()) <= JOB_LOGS_LIMIT
    assert text.endswith("generate: 1.250 s")


def test_a_note_names_content_and_extension_of_a_misnamed_file(bench: Bench, tmp_path: Path) -> None:
    misnamed = media_files.heic(tmp_path / "phone.jpg").read_bytes()
    bench.send(bench.job(body=misnamed))  # as in/one.png
    bench.worker().run()
    notes = json.loads(bench.document("one"))["notes"]
    assert notes == ["The content is a HEIC image, though the name ends in .png: it was read as what it is."]

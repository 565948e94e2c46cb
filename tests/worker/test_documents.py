"""The log lines of a document are limited in length."""

from hypothesis import example, given
from hypothesis import strategies as st

from cosmos_batch.contract.document import JOB_LOGS_LIMIT
from cosmos_batch.worker.documents import job_logs


@example(startup_lines=["ü" * 30_000], job_lines=["何" * 30_000])
@given(
    startup_lines=st.lists(st.text(max_size=30_000), max_size=4),
    job_lines=st.lists(st.text(max_size=30_000), max_size=4),
)
def test_job_logs_stay_within_their_limit(startup_lines: list[str], job_lines: list[str]) -> None:
    text = job_logs(startup_lines, job_lines, {"generate": 1.25})
    assert len(text.encode()) <= JOB_LOGS_LIMIT
    assert text.endswith("generate: 1.250 s")

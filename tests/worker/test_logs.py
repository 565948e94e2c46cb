"""The log lines of a worker are JSON objects without secrets."""

import json
import logging

from botocore.exceptions import ClientError

from cosmos_batch.worker.logs import JsonLines

log = logging.getLogger("cosmos_batch.worker.test")


def line(record: logging.LogRecord) -> dict[str, object]:
    text = JsonLines().format(record)
    assert "\n" not in text
    fields: dict[str, object] = json.loads(text)
    return fields


def test_a_log_line_has_its_extra_fields() -> None:
    record = log.makeRecord(log.name, logging.INFO, "f", 1, "stage %s", ("decoded",), None, extra={"jobId": "one"})
    fields = line(record)
    assert fields.pop("time")
    assert fields == {"level": "INFO", "logger": log.name, "message": "stage decoded", "jobId": "one"}


def test_an_exception_is_logged_without_its_text_and_with_its_cause() -> None:
    try:
        try:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "my prompt"}}, "GetObject")
        except ClientError as error:
            raise ValueError("my prompt") from error
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    fields = line(log.makeRecord(log.name, logging.ERROR, "f", 1, "failed", (), info))
    assert "my prompt" not in json.dumps(fields)
    cause = fields["cause"]
    assert fields["error"] == "ValueError" and isinstance(cause, dict)
    assert (cause["error"], cause["code"]) == ("ClientError", "AccessDenied")
    assert "test_logs.py" in str(fields["frames"])

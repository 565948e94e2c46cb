"""Takes out of an export what is nobody else's business: tokens, signed URLs, account ids, buckets, absolute paths."""

import re
from typing import Any

_SIGNATURE = re.compile(r"\?[^\s\"'<>]*\b(?:X-Amz-|Signature=|AWSAccessKeyId=)[^\s\"'<>]*", re.IGNORECASE)
_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bBearer +[\w.~+/=-]+")
_BUCKET = re.compile(r"\bs3://[^/\s\"']+")
_ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")
_PATH = re.compile(r"(?<![\w:/.])(?:[A-Za-z]:\\|/)(?:[^\s/\\\"'<>:,;]+[/\\])+([^\s/\\\"'<>:,;]*)")
_LEFT_OUT = ("jobLogs", "batchJobId")


def redact(value: Any) -> Any:
    """Return a JSON value with nothing in its texts that shall not leave the machine; logs are left out."""
    if isinstance(value, str):
        return _redact_text(value)
    if isinstance(value, list):
        return [redact(one) for one in value]
    if isinstance(value, dict):
        return {_redact_text(name): redact(one) for name, one in value.items() if name not in _LEFT_OUT}
    return value


def _redact_text(text: str) -> str:
    text = _SIGNATURE.sub("", text)
    text = _TOKEN.sub("…", text)
    text = _BUCKET.sub("s3://bucket", text)
    text = _ACCOUNT.sub("…", text)
    return _PATH.sub(r"…/\1", text)

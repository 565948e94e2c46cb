"""Takes out of an export what is nobody else's business: tokens, signed URLs, account ids, buckets, absolute paths."""

import re
from typing import Any

# A match begins at the last question mark before a signature. If it could begin at any of them, the rest of a long text
# would be searched once for each.
_SIGNATURE = re.compile(r"\?[^\s\"'<>?]*\b(?:X-Amz-|Signature=|AWSAccessKeyId=)[^\s\"'<>]*", re.IGNORECASE)
# The texts of an export in which its page searches are in lower case.
_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bBearer +[\w.~+/=-]+", re.IGNORECASE)
_ACCOUNT = re.compile(r"(?<!\d)\d{12}(?!\d)")
_S3_HOST = r"s3[.-][\w.-]{0,60}?amazonaws\.com"
_BUCKETS = [
    re.compile(r"(?P<before>\b(?:s3[an]?://|arn:aws[\w-]*:s3:::))[^/\s\"']+"),
    re.compile(rf"(?P<before>(?<![\w.-]))[\w.-]{{1,63}}(?=\.{_S3_HOST})"),
    re.compile(rf"(?P<before>(?<![\w.-]){_S3_HOST}(?:\.cn)?/)[^/\s\"'<>?]+"),
]
_WORD = r"[^\s/\\\"<>]+"
# The name of a folder may have spaces. A text cannot say where such a path ends: what might be one of its folders is
# taken out, even if that takes some words more. After a colon or semicolon and a space, another part of a text begins.
_FOLDER = rf"{_WORD}(?:(?<![:;]) {{1,3}}{_WORD}){{0,20}}[/\\]+"
_ROOT = r"\bfile:/+|(?<![\w./])/(?!/)|(?<![\w./:])//|(?<![\w\\:])\\\\|\b[A-Za-z]:[/\\]+"
_PATH = re.compile(rf"(?:{_ROOT})(?:{_FOLDER})+(?:(?P<file>[^\s/\\\"'<>:,;]+\.\w+)|[^\s/\\\"'<>:,;]*)", re.IGNORECASE)
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
    for bucket in _BUCKETS:
        text = bucket.sub(r"\g<before>bucket", text)
    text = _PATH.sub(lambda path: f"…/{path['file']}" if path["file"] else "…", text)
    return _ACCOUNT.sub("…", text)

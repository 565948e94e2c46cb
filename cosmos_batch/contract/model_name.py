"""Parse a model's name in the configuration: `org/name`, `org/name@revision`, or the path of a folder."""

import re
from dataclasses import dataclass
from typing import Self

MAIN = "main"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PART = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}"
MODEL_NAME_PATTERN = rf"^({_PART}/{_PART}(@[A-Za-z0-9_.][A-Za-z0-9_./-]{{0,127}})?|/.+)$"


@dataclass(frozen=True)
class ModelName:
    """A model and the revision of it that is configured; a folder has none."""

    model: str
    revision: str = MAIN

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name that matches `MODEL_NAME_PATTERN`. The path of a folder may contain an `@`.

        >>> ModelName.parse("nvidia/Cosmos-Reason2-2B@v1.1")
        ModelName(model='nvidia/Cosmos-Reason2-2B', revision='v1.1')
        """
        model, at, revision = text.partition("@")
        return cls(text) if text.startswith("/") or not at else cls(model, revision)


def is_commit(revision: str) -> bool:
    """Return whether a revision is a commit, and not a tag or a branch, which can move."""
    return _COMMIT.fullmatch(revision) is not None

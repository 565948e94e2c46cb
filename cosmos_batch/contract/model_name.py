"""How a model is named in the configuration: `org/name`, `org/name@revision`, or the path of a folder."""

import re
from dataclasses import dataclass
from typing import Self

MAIN = "main"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PART = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}"
MODEL_NAME_PATTERN = rf"^({_PART}/{_PART}(@[A-Za-z0-9_.][A-Za-z0-9_./-]{{0,127}})?|/.+)$"


@dataclass(frozen=True)
class ModelName:
    """A model, and which revision of it is asked for; a folder has none."""

    model: str
    revision: str = MAIN

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `MODEL_NAME_PATTERN` allows. The path of a folder may contain an `@`.

        >>> ModelName.parse("nvidia/Cosmos-Reason2-2B@v1.1")
        ModelName(model='nvidia/Cosmos-Reason2-2B', revision='v1.1')
        """
        model, at, revision = text.partition("@")
        return cls(text) if text.startswith("/") or not at else cls(model, revision)


def is_commit(revision: str) -> bool:
    """Whether a revision names one commit for ever; a tag or a branch can move."""
    return _COMMIT.fullmatch(revision) is not None

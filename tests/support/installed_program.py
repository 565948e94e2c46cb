"""The installed command, `cosmos-batch`, as a person's shell starts it."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("cosmos-batch")


@dataclass(frozen=True)
class Shell:
    """A shell in a folder, with variables of its own instead of those about AWS and about this app."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def with_variables(self, variables: Mapping[str, str]) -> "Shell":
        """Return a shell in the same folder that has these variables too."""
        return Shell(self.folder, {**self.variables, **variables})

    def start(self, *arguments: str, program: Sequence[str] = (str(PROGRAM),)) -> subprocess.Popen[str]:
        """Start the program, or one in its place, with pipes for what it prints."""
        others = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "COSMOS_BATCH_"))}
        return subprocess.Popen(
            [*program, *arguments],
            cwd=self.folder,
            env={**others, **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, status: int = 0) -> tuple[str, str]:
        """Run the program to its end, and return what it prints to standard output and to standard error."""
        with self.start(*arguments) as process:
            out, err = process.communicate()
        assert process.returncode == status, f"{arguments}: {process.returncode}\n{out}\n{err}"
        return out, err

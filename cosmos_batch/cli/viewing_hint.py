"""Tell how to look at results in the browser."""

import shlex
import shutil
import sys
from pathlib import Path

from cosmos_batch.cli.messages import inform


def inform_how_to_view(document: Path, media: Path | None = None) -> None:
    """Name the command that shows a document in the browser. `media` is copied beside it, where the page finds it."""
    if media is not None and not (copy := document.parent / media.name).exists():
        shutil.copyfile(media, copy)
    program = "cosmos-batch" if shutil.which("cosmos-batch") else str(Path(sys.executable).with_name("cosmos-batch"))
    inform(f"To look at it in the browser: {shlex.join([program, 'view', str(document)])}")

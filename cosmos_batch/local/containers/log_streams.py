"""The output of a container: a stream of CloudWatch Logs, and a file in the home."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cosmos_batch.local import backends


def writer(group: str, stream: str, path: Path) -> Callable[[str], None]:
    """Create a log stream and a file; return the function that writes a line to both."""
    logs = backends.logs()
    logs.ensure_log_group(group)
    logs.ensure_log_stream(group, stream)
    events = logs.groups[group].streams[stream]
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a", buffering=1)

    def write(line: str) -> None:
        file.write(line + "\n")
        events.put_log_events([{"timestamp": int(time.time() * 1000), "message": line}])

    return write

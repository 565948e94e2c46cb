"""How long one file may keep a thread busy."""

import time
from collections.abc import Callable

from cosmos_batch.media.refusal import refuse

DECODE_SECONDS = 600


def in_time(check: Callable[[], None] = lambda: None) -> Callable[[], None]:
    """`check` with a clock that starts now. The result is called often, and refuses the file when its time is over."""
    deadline = time.monotonic() + DECODE_SECONDS

    def check_both() -> None:
        check()
        if time.monotonic() > deadline:
            raise refuse(
                f"The video takes more than {DECODE_SECONDS // 60} minutes to decode.",
                "Choose a shorter part by start and end, cut it into shorter clips, or scale it down.",
            )

    return check_both

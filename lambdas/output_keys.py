"""Names with a timestamp in them, of which each is one job's."""

from collections.abc import Callable
from datetime import datetime, timedelta

from cosmos_batch.contract.job import OutputKey
from cosmos_batch.state import ReservedKeys

# A name's resolution is a second; so many jobs on files of one stem, within one folder, are served at once.
NEXT_SECONDS = 600


def reserve_second(
    outputs: ReservedKeys, start: datetime, job_id: str, key_at: Callable[[str], OutputKey]
) -> tuple[OutputKey, str] | None:
    """The key of the first free second from `start` on, reserved for the job, and the timestamp in it.

    The same job gets the same key again. `key_at` makes the key of a timestamp. None where all are taken.
    """
    for seconds in range(NEXT_SECONDS):
        timestamp = f"{start + timedelta(seconds=seconds):%Y%m%d-%H%M%S}"
        output = key_at(timestamp)
        if outputs.reserve(output, job_id):
            return output, timestamp
    return None

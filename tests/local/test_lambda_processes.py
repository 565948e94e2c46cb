"""The processes of Lambda functions; this test needs no cloud."""

import fcntl
import os

from cosmos_batch.local.lambda_functions.processes import wait_readable


def test_file_descriptors_above_the_limit_of_select_can_be_waited_for() -> None:
    """A cloud with hundreds of executions has more than 1,024 files open."""
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD, 1500)

    assert not wait_readable(high, 0)
    os.write(writer, b"x")
    assert wait_readable(high, 0)

    for descriptor in (reader, writer, high):
        os.close(descriptor)

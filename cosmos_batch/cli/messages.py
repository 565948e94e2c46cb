"""Messages for the person at the terminal. Standard output is for results only."""

import sys


def inform(text: str) -> None:
    """Print a line to standard error."""
    print(text, file=sys.stderr, flush=True)

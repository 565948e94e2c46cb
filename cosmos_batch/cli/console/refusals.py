"""Errors of the commands and of AWS, as the console's page shows them."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from cosmos_batch.cli.errors import explain
from cosmos_batch.cli.runs.inputs import WrongInputs
from cosmos_batch.console.run_backend import RefusalError


@contextmanager
def refusals() -> Iterator[None]:
    """Turn errors that a command would print into ones that the page shows. Defects pass."""
    try:
        yield
    except WrongInputs as error:
        problems = "\n".join(map(str, error.first))
        raise RefusalError(f"{problems}\n{error.message}\nCorrect them, or leave out what cannot be used.") from error
    except click.UsageError as error:
        raise RefusalError(error.format_message()) from error
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        raise RefusalError(explained) from error

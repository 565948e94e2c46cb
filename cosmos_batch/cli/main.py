"""The entry point of `cosmos-batch`: it finds the command, and turns every exception into a message and a status."""

import os
import select
import traceback
from importlib.metadata import version

import click

from cosmos_batch.cli.command_line import LazyGroup, quiet_option, verbose_option
from cosmos_batch.cli.errors import INTERRUPTED, TERMINATED, WRONG_CALL
from cosmos_batch.cli.messages import Verbosity, set_verbosity, verbosity, warn
from cosmos_batch.cli.termination import interrupted_by_sigterm, lost_interrupts_sent_again

NAME = "cosmos-batch"
_STDOUT = 1  # the file descriptor
COMMANDS = {
    "run": "Answer files on this machine, and stop what was started for it.",
    "generate": "Make an image or a video, on this machine or wherever this shell points.",
    "submit": "Start a job for one file, or a run for several, a folder or a prefix.",
    "runs": "Plan, start, watch and export runs over many files.",
    "status": "List jobs: the named ones, or the recent ones.",
    "wait": "Wait until jobs have ended.",
    "result": "Print or save what jobs have answered.",
    "console": "Look at all runs and steer them, in the browser.",
    "view": "Look at documents or a run beside their videos and images, in the browser.",
    "logs": "Print what a job's worker has logged about it.",
    "cancel": "Stop jobs that have not ended.",
    "retry": "Start jobs again that have failed or were cancelled.",
    "doctor": "Check what would stop a run, and say what to do.",
    "models": "Bring models into a deployment, or move them to another commit.",
    "local": "Run the whole system on this machine, for as long as you like.",
    "demo": "Send one clip through everything on this machine.",
    "demo-generate": "Make one video through everything on this machine.",
    "completion": "Print the completion script of bash, zsh or fish.",
}

group = LazyGroup(
    name=NAME,
    summaries=COMMANDS,
    help="Batch inference for NVIDIA Cosmos: analyses and generations. Built on NVIDIA Cosmos.",
    epilog="`cosmos-batch COMMAND --help` has every option and examples.",
)
group.params += [
    quiet_option(),
    verbose_option(),
    click.Option(
        ["--version"], is_flag=True, is_eager=True, expose_value=False, help="Print the version.",
        callback=lambda context, _, is_set: _print_version(context) if is_set else None,
    ),
]  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Returns its exit status, one of those in `cosmos_batch.cli.errors`."""
    set_verbosity(Verbosity.NORMAL)
    with interrupted_by_sigterm() as termination, lost_interrupts_sent_again():
        status = _run(arguments)
    return TERMINATED if status == INTERRUPTED and termination.came else status


def _run(arguments: list[str] | None) -> int:
    try:
        status = int(group.main(arguments, prog_name=NAME, standalone_mode=False) or 0)
        print(end="", flush=True)
        return status
    except (BrokenPipeError, SystemExit):  # Click exits with 1 where the reader of a pipe, such as `head`, goes away
        if not _reader_is_gone():
            raise
        # Drop the buffered output, which nobody reads any more: https://docs.python.org/3/library/signal.html#note-on-sigpipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
        return 0
    except click.UsageError as error:
        error.show()
        return WRONG_CALL
    except (KeyboardInterrupt, click.Abort):
        warn("Interrupted.")
        return INTERRUPTED
    except Exception as error:
        from cosmos_batch.cli.errors import exit_status, explain

        explained = explain(error)
        if explained is None:
            raise
        if verbosity() == Verbosity.VERBOSE:
            traceback.print_exc()
        warn(f"error: {explained}")
        return exit_status(error)


def _reader_is_gone() -> bool:
    """Return whether standard output is a pipe that nobody reads any more."""
    poll = select.poll()
    poll.register(_STDOUT, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _print_version(context: click.Context) -> None:
    click.echo(f"{NAME} {version('cosmos-batch')}")
    context.exit()

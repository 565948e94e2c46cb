"""`cosmos-batch completion`: the script with which a shell completes commands, options and file names."""

import click
from click.shell_completion import get_completion_class

from cosmos_batch.cli.command_line import CosmosCommand

SHELLS = ("bash", "zsh", "fish")


@click.command(
    cls=CosmosCommand,
    examples=[
        "cosmos-batch completion bash >> ~/.bashrc",
        "cosmos-batch completion zsh >> ~/.zshrc",
        "cosmos-batch completion fish > ~/.config/fish/completions/cosmos-batch.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of bash (4.4 or later), zsh or fish."""
    root = context.find_root()
    completion = get_completion_class(shell)
    assert completion is not None, "Click has a class for each of SHELLS"
    script = completion(root.command, {}, str(root.info_name), "_COSMOS_BATCH_COMPLETE").source()
    # Click's script for fish (8.5.1) cuts what it shows, and names of files, at the first comma.
    click.echo(script.replace('string split ","', 'string split --max 1 ","'))

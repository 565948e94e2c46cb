"""Reading of command lines without running them."""

from typing import Any

import click

from cosmos_batch.cli.main import group


def parse(arguments: list[str]) -> dict[str, Any]:
    """Return the values of a command line's options. Raises click.UsageError where it is wrong."""
    command: click.Command | None = group
    context, name, rest = None, "cosmos-batch", list(arguments)
    while isinstance(command, click.Group):
        # Click keeps a command's help option from its first parsing, so the context needs the group's names for it.
        context = click.Context(command, parent=context, info_name=name, **command.context_settings)
        name, command, rest = command.resolve_command(context, rest)
    assert command is not None, "resolve_command raises for an unknown one"
    return command.make_context(name, rest, parent=context).params


def commands(command: click.Command = group, name: str = "cosmos-batch") -> dict[str, click.Command]:
    """Return a command and all those below it, by their names as they are typed."""
    if not isinstance(command, click.Group):
        return {name: command}
    context = click.Context(command)
    below = {key: command.get_command(context, key) for key in command.list_commands(context)}
    return {
        path: leaf
        for sub, child in below.items()
        if child is not None
        for path, leaf in commands(child, f"{name} {sub}").items()
    }

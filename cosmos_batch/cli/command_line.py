"""Add to Click options in sections, examples in --help, and commands whose modules load when they are used."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from cosmos_batch.cli.messages import Verbosity, set_verbosity

WIDTH = 100  # columns of --help, at most
PACKAGE = "cosmos_batch.cli.commands"
FIRST, LAST = "Options", "General"  # titles of sections

Decorated = TypeVar("Decorated", bound=Callable[..., Any] | click.Command)


class SectionOption(click.Option):
    """An option that --help lists under a section's title."""

    def __init__(self, *arguments: Any, section: str = FIRST, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.section = section


class CosmosCommand(click.Command):
    """A command with options in sections, and with examples, which a test runs."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*arguments, **{"context_settings": {"max_content_width": WIDTH}, **settings})
        self.examples = list(examples)
        self.params += [quiet_option(), verbose_option()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a table of options for each section, the general one first, and --help and the like last."""
        sections: dict[str, list[tuple[str, str]]] = {FIRST: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "section", LAST), []).append(record)
        last = sections.pop(LAST)
        for title, records in {**sections, LAST: last}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_text("\b\n" + "\n".join(self.examples))
        super().format_epilog(ctx, formatter)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used, so that --help is instant.

    `summaries` has what --help says of each command. The command `demo-generate` is `command` in the module
    `demo_generate` of `package`.
    """

    def __init__(self, *arguments: Any, summaries: Mapping[str, str], package: str = PACKAGE, **settings: Any) -> None:
        own = {"max_content_width": WIDTH, "help_option_names": ["-h", "--help"]}  # commands take over the names
        super().__init__(*arguments, **{"context_settings": own, **settings})
        self._summaries = summaries
        self._package = package

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `help COMMAND` as `COMMAND --help`."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's signature
        """Return the names in the order of the table."""
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - Click's signature
        """Import a command's module and return the command, or None if there is no command of this name."""
        if cmd_name not in self._summaries:
            return None
        command: click.Command = import_module(f"{self._package}.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that a call names. Raises NoSuchCommand, which suggests the nearest of our names."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self._summaries, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing them, and options as Click does."""
        matching = {name: text for name, text in self._summaries.items() if name.startswith(incomplete)}
        names = [CompletionItem(name, help=text) for name, text in matching.items()]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._summaries.items()))


def option(*names: str, section: str = FIRST, **settings: Any) -> Callable[[Decorated], Decorated]:
    """Declare an option of a command, listed under a section's title."""
    decorate: Callable[[Decorated], Decorated] = click.option(*names, cls=SectionOption, section=section, **settings)
    return decorate


def usage_of(line: str) -> list[str]:
    """Return the arguments of an example line, without the program's name."""
    return shlex.split(line)[1:]


def quiet_option() -> SectionOption:
    """Return the option that leaves out everything but results and errors."""
    return SectionOption(
        ["-q", "--quiet"], section=LAST, is_flag=True, expose_value=False, help="Print results and errors only.",
        callback=lambda _, __, is_set: set_verbosity(Verbosity.QUIET) if is_set else None,
    )  # fmt: skip


def verbose_option() -> SectionOption:
    """Return the option that prints more."""
    return SectionOption(
        ["-v", "--verbose"], section=LAST, is_flag=True, expose_value=False,
        help="Print where logs are, and an error's traceback.",
        callback=lambda _, __, is_set: set_verbosity(Verbosity.VERBOSE) if is_set else None,
    )  # fmt: skip

"""`cosmos-batch runs`: one request over many files, from the plan to one table of answers."""

from cosmos_batch.cli.command_line import LazyGroup

COMMANDS = {
    "plan": "Say what a run would do, take and cost, and start nothing.",
    "start": "Show the plan, ask whether to proceed, and start the run.",
    "list": "List runs.",
    "show": "Show all that is known of a run, with its errors by code.",
    "watch": "Follow a run until it has ended.",
    "cancel": "Stop runs.",
    "resume": "Go on with a run that is held, was cancelled or has failed.",
    "retry": "Start a run over the items of another that have failed.",
    "export": "Save the answers of a run as a table, a list or a dataset.",
    "diff": "Show which answers differ between two runs.",
}

command = LazyGroup(
    name="runs",
    package="cosmos_batch.cli.commands.runs",
    summaries=COMMANDS,
    help="Ask one question about many files, as one run with a plan, progress and one table of answers.",
    epilog="`cosmos-batch runs COMMAND --help` has every option and examples.",
)

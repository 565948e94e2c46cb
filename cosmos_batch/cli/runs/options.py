"""The options of `runs plan` and `runs start`, without the code that reads them: --help is to be instant."""

import click

from cosmos_batch.cli.command_line import option
from cosmos_batch.cli.options import Decorated, answer_options, pipeline_ids

INPUTS = "Inputs"
COSTS = "What it may cost"


def run_options(function: Decorated) -> Decorated:
    """Add the sources of a run, what to ask of each, where results go, and what it may cost."""
    function = answer_options(function)
    for decorate in (
        option("--workers", metavar="N", type=click.IntRange(min=1), section=COSTS,
               help="Say also how long N workers take."),
        option("--max-dollars", metavar="X", type=click.FloatRange(min=0, min_open=True), section=COSTS,
               help="Refuse a run that would cost more, and stop feeding once X is spent or in flight."),
        option("--name", metavar="RUN", help="Name the run; default: run- and the time."),
        option("--table-only", is_flag=True, help="Write no document beside each file, only the run's tables."),
        option("--output", metavar="s3://...", help="Write documents below this prefix; default: beside the files."),
        option("--skip-invalid", is_flag=True, section=INPUTS, help="Leave out what cannot be used, and go on."),
        option("--exclude", metavar="PATTERN", multiple=True, section=INPUTS,
               help="Leave out files of a prefix or folder whose paths fit. May be given again."),
        option("--include", metavar="PATTERN", multiple=True, section=INPUTS,
               help="Take only files whose paths fit, such as '*/front.mp4'. May be given again."),
        option("--parameters", "parameters_file", metavar="FILE", type=click.Path(),
               help="Read parameters from this JSON file, by their names in docs/reasoner.md or docs/generator.md; "
               "or from this text, if it begins with {."),
        option("--seeds", metavar="LIST", help="Ask everything with each of these seeds, such as 1,2,10-12."),
        option("--pipeline", "pipelines", metavar="ID", multiple=True, shell_complete=pipeline_ids(),
               help="Such as cosmos-reason2-2b; default: the smallest one enabled. Several answer everything each."),
        option("--prompt", "prompts", metavar="TEXT|@FILE", multiple=True,
               help="What to ask; default: the task's question, or a general one. Several are asked each."),
        click.argument("sources", metavar="[SOURCE ...]", type=click.Path(), nargs=-1),
    ):  # fmt: skip
        function = decorate(function)
    return function

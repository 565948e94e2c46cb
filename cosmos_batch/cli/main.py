"""The commands and their options."""

import argparse
import sys
from importlib import import_module
from typing import TypeAlias

from cosmos_batch.cli.options import add_generation, add_question

DESCRIPTION = "Batch inference for NVIDIA Cosmos: analyses and generations. Built on NVIDIA Cosmos."
INTERRUPTED = 130

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(argv: list[str] | None = None) -> int:
    """Run one command. Returns its exit status: 1 where it failed, 2 where it was called wrongly."""
    arguments = parser().parse_args(argv)
    module, _, function = arguments.command.partition(":")
    try:
        return int(getattr(import_module(f"cosmos_batch.cli.commands.{module}"), function)(arguments))
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        from cosmos_batch.cli.errors import explain

        explained = explain(error)
        if explained is None:
            raise
        print(f"error: {explained}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """Everything that can be said on the command line."""
    parser = argparse.ArgumentParser("cosmos-batch", description=DESCRIPTION)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_local(commands)
    _add_demo(commands)
    _add_run(commands)
    _add_generate(commands)
    _add_submit(commands)
    _add_status(commands)
    _add_result(commands)
    _add_models(commands)
    return parser


def _add_local(commands: Commands) -> None:
    local = commands.add_parser("local", help="the whole system on this machine")
    actions = local.add_subparsers(metavar="ACTION", required=True)
    up = actions.add_parser("up", help="start a local cloud and deploy config.json to it")
    up.set_defaults(command="local:up")
    start = actions.add_parser("start", help="start one that is empty, for `npx cdk deploy`")
    start.set_defaults(command="local:start")
    for action in (up, start):
        action.add_argument("--export", action="store_true", help="print lines that point a shell at it, for eval")
    actions.add_parser("down", help="stop it").set_defaults(command="local:down")
    actions.add_parser("status", help="say whether one runs").set_defaults(command="local:status")


def _add_demo(commands: Commands) -> None:
    demo = commands.add_parser(
        "demo", help="one clip through everything, on this machine; FILE and PROMPT come from the environment"
    )
    demo.set_defaults(command="demo:demo")
    generate = commands.add_parser(
        "demo-generate", help="one generation through everything, on this machine; PROMPT and FILE come likewise"
    )
    generate.set_defaults(command="demo_generate:demo_generate")


def _add_run(commands: Commands) -> None:
    run = commands.add_parser("run", help="answer one file on this machine, and stop what was started for it")
    run.add_argument("file", metavar="FILE")
    add_question(run)
    run.add_argument("--model", metavar="ID|FOLDER", help="Hugging Face id, or ID@REVISION, or a checkpoint's folder")
    run.add_argument("--endpoint", metavar="URL", help="ask this server of OpenAI's protocol, for --model if named")
    run.add_argument("--output", metavar="PATH", help="write the document there too")
    run.set_defaults(command="run:run")


def _add_generate(commands: Commands) -> None:
    generate = commands.add_parser(
        "generate", help="make an image or a video on this machine, or with --submit wherever this shell points"
    )
    add_generation(generate)
    where = generate.add_mutually_exclusive_group()
    where.add_argument("--submit", action="store_true", help="print the job's id and leave")
    where.add_argument(
        "--model", metavar="ID|FOLDER", help="on this machine: Hugging Face id, or a checkpoint's folder"
    )
    generate.add_argument("--output", metavar="FOLDER", default=".", help="for the files; default: here")
    generate.set_defaults(command="generate:generate")


def _add_submit(commands: Commands) -> None:
    submit = commands.add_parser("submit", help="upload files, or name some in S3; prints a job id for each")
    submit.add_argument("inputs", metavar="FILE|s3://...", nargs="+")
    add_question(submit)
    submit.add_argument("--json", action="store_true", help="print a JSON object a line: id, input")
    submit.set_defaults(command="submit:submit")


def _add_status(commands: Commands) -> None:
    status = commands.add_parser("status", help="list jobs: the named ones, or the recent ones")
    status.add_argument("ids", metavar="ID", nargs="*")
    status.add_argument("--json", action="store_true", help="print JSON")
    status.set_defaults(command="status:status")


def _add_result(commands: Commands) -> None:
    result = commands.add_parser("result", help="print the document of a job")
    result.add_argument("id", metavar="ID")
    result.add_argument("--wait", action="store_true", help="until it has ended")
    result.add_argument("--output", metavar="FOLDER", help="save it there, with all files that were made")
    result.set_defaults(command="result:result")


def _add_models(commands: Commands) -> None:
    models = commands.add_parser("models", help="the models of a deployment: bring them, move them to another commit")
    actions = models.add_subparsers(metavar="ACTION", required=True)
    put = actions.add_parser(
        "put", help="download one to TMPDIR, with HF_TOKEN or the login of `hf`, and upload it to the model bucket"
    )
    put.add_argument("name", metavar="NAME", help="Hugging Face id, such as nvidia/Cosmos-Reason2-2B, or ID@REVISION")
    put.set_defaults(command="models:put")
    update = actions.add_parser(
        "update", help="let pipelines load what the tags and branches of their models are on the Hub now"
    )
    update.add_argument("pipelines", metavar="PIPELINE", nargs="*", help="default: all")
    update.set_defaults(command="models:update")

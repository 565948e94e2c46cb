"""Options that say how to answer. They stand here by themselves, for the models load slowly and help is instant."""

import argparse

from cosmos_batch.contract.tasks import TASKS

# Name of the parameter, what its value is called, and what it does.
OPTIONS = (
    ("task", "TASK", f"a question of NVIDIA's prompt guides, the prompt its subject: {', '.join(TASKS)}"),
    ("max_tokens", "N", "longest answer"),
    ("seed", "N", "sampling seed"),
    ("temperature", "X", "0 to 2; 0 takes the likeliest token"),
    ("top_p", "X", "draw from the likeliest tokens of this share"),
    ("top_k", "N", "draw from so many of the likeliest tokens"),
    ("repetition_penalty", "X", "above 1: less of what was there"),
    ("presence_penalty", "X", "above 0: less of what was answered"),
    ("fps", "X", "frames a second that the model sees of a video; default: 4"),
    ("start", "SECONDS", "look at a video from here"),
    ("end", "SECONDS", "look at a video up to here"),
    ("long_video", "HOW", "sampleDown (default) or refuse, where a video is too long for its fps"),
    ("json_schema", "FILE", "JSON Schema that the answer must fit"),
)


def add_question(command: argparse.ArgumentParser) -> None:
    """What to ask, of which pipeline, and how to answer it."""
    command.add_argument("--prompt", metavar="TEXT", help="what to ask; default: the task's or the pipeline's question")
    command.add_argument(
        "--pipeline", metavar="ID", help="such as cosmos-reason2-2b; default: the smallest one enabled"
    )
    answer = command.add_argument_group("how to answer (docs/reasoner.md)")
    answer.add_argument("--system-prompt", metavar="TEXT", help="instead of the default one")
    answer.add_argument("--reasoning", action=argparse.BooleanOptionalAction, help="let the model think first, or not")
    answer.add_argument(
        "--with", dest="more_inputs", metavar="FILE|s3://...", action="append",
        help="show the model this file too, after the first; may be said again",
    )  # fmt: skip
    for name, value, text in OPTIONS:
        answer.add_argument(f"--{name.replace('_', '-')}", metavar=value, help=text)

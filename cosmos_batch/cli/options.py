"""The options that several commands share.

They stand in tables, without the models that check their values: those take a second to import, and --help is to be
instant.
"""

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeVar

import click

from cosmos_batch.cli.command_line import option
from cosmos_batch.contract.tasks import TASKS

# Kinds of control videos, and those that can be computed from the input. A test compares them with
# `catalogue.generation`.
HINTS, COMPUTED = ("edge", "blur", "depth", "seg", "wsm"), ("edge", "blur")
_SHOWN_BY = {
    "edge": "edges", "blur": "blurred frames", "depth": "depth maps", "seg": "segmentation masks",
    "wsm": "world scenario maps",
}  # fmt: skip

# Each option of a reasoner: the parameter's name, what --help calls its value, and what it does.
REASONER_OPTIONS = (
    ("task", "TASK", f"Ask a question of NVIDIA's prompt guides, whose subject is the prompt: {', '.join(TASKS)}."),
    ("max_tokens", "N", "Stop the answer after N tokens."),
    ("seed", "N", "Set the seed of sampling."),
    ("temperature", "X", "Draw tokens more freely: 0 to 2; 0 takes the likeliest."),
    ("top_p", "X", "Draw from the likeliest tokens that have this probability together."),
    ("top_k", "N", "Draw from the N likeliest tokens."),
    ("repetition_penalty", "X", "Above 1, repeat less of prompt and answer."),
    ("presence_penalty", "X", "Above 0, repeat less of the answer."),
    ("fps", "X", "Show the model X frames a second of a video; default: 4."),
    ("start", "SECONDS", "Look at a video from this second on."),
    ("end", "SECONDS", "Look at a video up to this second."),
    ("long_video", "HOW", "Where a video is too long for its fps: sampleDown (default) or refuse."),
    ("json_schema", "FILE", "Make the answer fit this JSON Schema."),
)


# Modes of generators. A test compares them with `catalogue.generation`.
MODES = ("t2i", "t2v", "i2v", "v2v", "transfer", "forward_dynamics", "inverse_dynamics", "policy")

# The options of a generator's parameters, in the same form.
GENERATION_OPTIONS = (
    ("mode", "MODE", f"{', '.join(MODES)}; default: by input."),
    ("negative_prompt", "TEXT|@FILE", "Name what not to make; default for videos: NVIDIA's own."),
    ("resolution", "TIER", "256p, 480p or 720p; for images also 768p."),
    ("aspect_ratio", "W:H", "1:1, 4:3, 3:4, 16:9 or 9:16."),
    ("width", "PIXELS", "Set the width, with --height, instead of a tier."),
    ("height", "PIXELS", "Set the height, with --width."),
    ("num_frames", "N", "Make N frames, rounded up to 4k+1; default: 189."),
    ("fps", "X", "Make X frames a second; default: 24."),
    ("steps", "N", "Take N denoising steps."),
    ("guidance_scale", "X", "Follow the prompt more closely with a greater guidance scale."),
    ("flow_shift", "X", "Set the scheduler's shift."),
    ("seed", "N", "Set the seed of the noise; without one it is drawn and recorded."),
    ("max_sequence_length", "TOKENS", "Refuse a prompt of more tokens."),
    ("condition_keep", "END", "v2v: keep the first or last part of a longer input."),
    ("domain_name", "NAME", "Name the embodiment of the actions, such as av."),
    ("action_chunk_size", "N", "Use N actions; the video has one frame more."),
    ("raw_action_dim", "N", "Numbers in each action; must be the domain's."),
    ("view_point", "VIEW", "ego_view, third_person_view, wrist_view or concat_view."),
    ("action_path", "FILE|s3://...", "forward_dynamics: JSON rows of numbers, one for each action."),
    ("control_guidance", "X", "transfer: follow the controls more closely."),
    ("frames_per_chunk", "N", "transfer: make N frames at once."),
    ("image_format", "FORMAT", "t2i: png or jpeg."),
)
GENERATION_SWITCHES = (
    ("sound", "Make sound too."),
    ("guardrails", "Check prompt and output; default: as the pipeline is configured."),
    ("use_resolution_template", "Say the size in the prompt."),
    ("use_duration_template", "Say duration and frame rate in the prompt."),
    ("upsample_prompt", "Let the configured model write NVIDIA's JSON of the prompt first."),
    ("preview", "Write a small GIF beside a video; default: yes."),
    ("contact_sheet", "Write an image of frames beside a video."),
)

# The words that a shell completes, of those parameters that have a fixed list.
_WORDS: dict[str, Callable[[], Iterable[str]]] = {
    "task": lambda: TASKS,
    "mode": lambda: MODES,
    "resolution": lambda: _of_generators("SIZES"),
    "aspect_ratio": lambda: _of_generators("ASPECT_RATIOS"),
    "domain_name": lambda: _of_generators("DOMAINS"),
    "view_point": lambda: _of_generators("VIEW_POINTS"),
}

HOW_TO_ANSWER = "How to answer (docs/reasoner.md)"
HOW_TO_MAKE = "How to make it (docs/generator.md)"
CONTROLS = "Controls of a transfer (docs/generator.md)"

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def reasoner_options(function: Decorated) -> Decorated:
    """Add the options that say what to ask, of which pipeline, and how to answer it."""
    function = answer_options(function)
    for decorate in (
        option(
            "--pipeline",
            metavar="ID",
            help="Such as cosmos-reason2-2b; default: the smallest one enabled.",
            shell_complete=pipeline_ids("reasoner"),
        ),
        option("--prompt-file", metavar="FILE", type=click.Path(), help="A file of text, or one of NVIDIA's *.yaml."),
        option("--prompt", metavar="TEXT|@FILE", help="What to ask; default: the task's question, or a general one."),
    ):
        function = decorate(function)
    return function


def answer_options(function: Decorated) -> Decorated:
    """Add the options that say how a reasoner is to answer."""
    for name, value, text in reversed(REASONER_OPTIONS):
        function = _table_option(name, value, text, HOW_TO_ANSWER)(function)
    for decorate in (
        option("--with", "more_inputs", metavar="FILE|s3://...", type=click.Path(), multiple=True,
               section=HOW_TO_ANSWER, help="Show the model this file too, after the first. May be given again."),
        option("--reasoning/--no-reasoning", default=None, section=HOW_TO_ANSWER,
               help="Let the model think first, or not."),
        option("--system-prompt", metavar="TEXT|@FILE", section=HOW_TO_ANSWER,
               help="Use this instead of the default one."),
    ):  # fmt: skip
        function = decorate(function)
    return function


def generator_options(function: Decorated) -> Decorated:
    """Add the options that say what to make, by which pipeline, and how."""
    for hint in reversed(HINTS):
        function = _control_options(function, hint)
    for name, text in reversed(GENERATION_SWITCHES):
        pair = f"{flag(name)}/--no-{flag(name)[2:]}"
        function = option(pair, default=None, help=text, section=HOW_TO_MAKE)(function)
    function = option(
        "--condition-frames", metavar="N ...", section=HOW_TO_MAKE, callback=lambda _, __, text: _numbers(text),
        help="v2v: keep these latent frames of the input.",
    )(function)  # fmt: skip
    for name, value, text in reversed(GENERATION_OPTIONS):
        function = _table_option(name, value, text, HOW_TO_MAKE)(function)
    pipeline = "Such as cosmos3-nano; default: the smallest that does the mode."
    function = option("--pipeline", metavar="ID", help=pipeline, shell_complete=pipeline_ids("generator"))(function)
    prompt_file = "A file of text, or of NVIDIA's JSON."
    function = option("--prompt-file", metavar="FILE", type=click.Path(), help=prompt_file)(function)
    return option("--prompt", metavar="TEXT|@FILE", help="What to make, in words or as NVIDIA's JSON.")(function)


def _table_option(name: str, value: str, text: str, section: str) -> Callable[[Decorated], Decorated]:
    """Declare an option of a table. The contract checks its value; a shell completes file names and known words."""
    return option(
        flag(name),
        metavar=value,
        help=text,
        section=section,
        type=click.Path() if value.startswith("FILE") else None,
        shell_complete=_completing(_WORDS[name]) if name in _WORDS else None,
    )


def pipeline_ids(surface: str | None = None) -> Callable[..., list[str]]:
    """Return a completion for ids of pipelines: of all, or of those with one surface."""

    def ids() -> list[str]:
        from cosmos_batch.catalogue.pipelines import PIPELINES

        return [pipeline.id for pipeline in PIPELINES if surface in (None, pipeline.surface)]

    return _completing(ids)


def _completing(words: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    return lambda _, __, typed: [word for word in words() if word.startswith(typed)]


def _of_generators(name: str) -> list[str]:
    """Return a list of words of `catalogue.generation`, which is imported only when a shell asks for them."""
    return list(getattr(import_module("cosmos_batch.catalogue.generation"), name))


def flag(name: str) -> str:
    """Return the option of a parameter: `--max-tokens` for `max_tokens`."""
    return f"--{name.replace('_', '-')}"


def joined_numbers(arguments: list[str], name: str) -> list[str]:
    """Return the arguments with the numbers after an option joined by commas: Click has no option with many values."""
    joined: list[str] = []
    for argument in arguments:
        if len(joined) > 1 and joined[-2] == name and re.fullmatch(r"\d+(,\d+)*", joined[-1]) and argument.isdigit():
            joined[-1] += f",{argument}"
        else:
            joined.append(argument)
    return joined


def _control_options(function: Decorated, hint: str) -> Decorated:
    is_computed = hint in COMPUTED
    if is_computed:
        strength = "How strong it is where it is made from the input: very_low, low, medium, high or very_high."
        function = option(f"--{hint}-strength", metavar="HOW", help=strength, section=CONTROLS)(function)
    weight = "Its share among several controls; default: 1."
    function = option(f"--{hint}-weight", metavar="X", help=weight, section=CONTROLS)(function)
    source = "; without a name, it is made from the input." if is_computed else "."
    text = f"Follow this video of {_SHOWN_BY[hint]}{source}"
    return option(
        f"--{hint}",
        metavar="[FILE|s3://...]",
        type=click.Path(),
        is_flag=False,
        flag_value="",
        help=text,
        section=CONTROLS,
    )(function)


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text} is not a list of numbers such as 0 2.") from error

"""Options that say how to answer. They stand here by themselves, for the models load slowly and help is instant."""

import argparse

from cosmos_batch.contract.tasks import TASKS

# Of `contract.generation.controls`, which a test compares.
HINTS, COMPUTED = ("edge", "blur", "depth", "seg", "wsm"), ("edge", "blur")

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


# The same of a generation, by the names of its parameters.
GENERATION_OPTIONS = (
    ("mode", "MODE", "t2i, t2v, i2v, v2v, transfer, forward_dynamics, inverse_dynamics, policy; default: by the input"),
    ("negative_prompt", "TEXT", "what not to make; default: NVIDIA's own for videos"),
    ("resolution", "TIER", "256p, 480p, 720p; 768p for images"),
    ("aspect_ratio", "W:H", "1:1, 4:3, 3:4, 16:9, 9:16"),
    ("width", "PIXELS", "with --height, in place of a tier"),
    ("height", "PIXELS", "with --width"),
    ("num_frames", "N", "rounded up to 4k+1; default: 189"),
    ("fps", "X", "frames a second; default: 24"),
    ("steps", "N", "denoising steps"),
    ("guidance_scale", "X", "how closely to follow the prompt"),
    ("flow_shift", "X", "the scheduler's shift"),
    ("seed", "N", "of the noise; drawn and recorded if absent"),
    ("max_sequence_length", "TOKENS", "a longer prompt is refused"),
    ("condition_keep", "END", "v2v: first or last part of a longer input"),
    ("domain_name", "NAME", "embodiment of the actions, such as av"),
    ("action_chunk_size", "N", "actions; the video has one frame more"),
    ("raw_action_dim", "N", "numbers of an action; must be the domain's"),
    ("view_point", "VIEW", "ego_view, third_person_view, wrist_view, concat_view"),
    ("action_path", "FILE|s3://...", "forward_dynamics: JSON rows of numbers, one for each action"),
    ("control_guidance", "X", "transfer: how closely to follow the controls"),
    ("frames_per_chunk", "N", "transfer: frames made at once"),
    ("image_format", "FORMAT", "t2i: png or jpeg"),
)
GENERATION_SWITCHES = (
    ("sound", "make sound too"),
    ("guardrails", "check prompt and output; default: as the pipeline is configured"),
    ("use_resolution_template", "say the size in the prompt"),
    ("use_duration_template", "say duration and frame rate in the prompt"),
    ("upsample_prompt", "let the configured model write NVIDIA's JSON of the prompt first"),
    ("preview", "a small GIF beside a video; default: yes"),
    ("contact_sheet", "an image of frames beside a video"),
)


def add_generation(command: argparse.ArgumentParser) -> None:
    """What to make, by which pipeline, and how."""
    command.add_argument(
        "file", metavar="FILE|s3://...", nargs="?",
        help="image or video to start from; or a *.cosmos.json request, or the document of what shall be made again",
    )  # fmt: skip
    command.add_argument("--prompt", metavar="TEXT", help="what to make, in words or as NVIDIA's JSON")
    command.add_argument(
        "--pipeline", metavar="ID", help="such as cosmos3-nano; default: the smallest that does the mode"
    )
    making = command.add_argument_group("how to make it (docs/generator.md)")
    for name, value, text in GENERATION_OPTIONS:
        making.add_argument(f"--{name.replace('_', '-')}", metavar=value, help=text)
    making.add_argument(
        "--condition-frames", metavar="N", nargs="+", type=int, help="v2v: latent frames kept of the input"
    )
    for name, text in GENERATION_SWITCHES:
        making.add_argument(f"--{name.replace('_', '-')}", action=argparse.BooleanOptionalAction, help=text)
    for hint in HINTS:
        making.add_argument(
            f"--{hint}", metavar="FILE|s3://...", nargs="?", const="", help=f"transfer: control video for {hint}" +
            ("; without a name, made from the input" if hint in COMPUTED else "")
        )  # fmt: skip
        making.add_argument(f"--{hint}-weight", metavar="X", help="its share among several controls; default: 1")
        if hint in COMPUTED:
            making.add_argument(
                f"--{hint}-strength", metavar="HOW", help="where it is made: very_low, low, medium, high, very_high"
            )

"""The templates of VAMS 2.6: forms whose fields become the configuration of a run.

Every value is text. A blank one is ignored: the value of the file's metadata, of the asset's, or the default is used.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cosmos_batch.catalogue.generation import HINTS, MODES, Mode
from cosmos_batch.catalogue.pipelines import DEFAULT_PROMPT, Pipeline
from cosmos_batch.contract.generation.outputs import variant
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.planning.generation.metadata import CONTROL_PATH, CONTROL_TYPE, CONTROL_WEIGHT, MODEL_VARIANT


@dataclass(frozen=True)
class Template:
    """A form. `tags` are the configuration's keys that a person fills in, with their labels and descriptions."""

    id: str
    name: str
    description: str
    instructions: str
    fixed: dict[str, str]
    tags: dict[str, tuple[str, str]]
    defaults: dict[str, str] = field(default_factory=dict)
    is_default: bool = False

    def as_vams(self) -> dict[str, Any]:
        """Return the template in the form of VAMS's files `templates/*.json`."""
        return {
            "templateId": self.id,
            "templateName": self.name,
            "description": self.description,
            "configFormat": "json",
            "configBody": json.dumps({**self.fixed, **{key: f"{{{{{key}}}}}" for key in self.tags}}),
            "allowCustomEdit": True,
            "inputInstructions": self.instructions,
            "isDefault": self.is_default,
            "tagSchema": [
                {
                    "tagKey": key,
                    "type": "string",
                    "required": False,
                    "label": label,
                    "description": text,
                    # VAMS before c1d3fbf6 (templateTagSchema.py) fills no value for an optional tag without a
                    # default, and then refuses the run for its unmatched tag; every version fills this one.
                    "default": self.defaults.get(key, ""),
                }
                for key, (label, text) in self.tags.items()
            ],
        }


def model(pipeline: Pipeline) -> dict[str, str]:
    """Return the configuration's keys for the model, by which a run that is meant for another pipeline is refused."""
    if pipeline.surface == "reasoner":
        return {"MODEL_TYPE": "reason", "MODEL_SIZE": pipeline.model_size}
    return {MODEL_VARIANT: variant(pipeline)}


def question_template(pipeline: Pipeline, name: str) -> Template:
    """Return the template of a reasoner."""
    return Template(
        pipeline.id,
        f"{name}: describe or ask",
        "The question that is asked of every file",
        "A file whose own metadata has COSMOS_REASON_PROMPT is asked that instead.",
        model(pipeline),
        {"PROMPT": ("Prompt", f"What to ask; blank: {DEFAULT_PROMPT}")},
        is_default=True,
    )


_SCOPES = "COSMOS3_PROMPT and other COSMOS3_ keys in the metadata of {} go before what is said here."
_OF_FILES = _SCOPES.format("the file, then of its asset,")
_OF_TEXT = _SCOPES.format("the asset")
_ALL = ("negative_prompt", "resolution", "seed")
_VIDEO = (*_ALL, "num_frames", "sound")
_ARM = ("domain_name", "action_chunk_size", "resolution", "seed")


def file_templates(pipeline: Pipeline, modes: Sequence[Mode]) -> list[Template]:
    """Return a generator's templates for modes that read files.

    The modes from an image or a video to a video (`i2v`, `v2v`) share the first template, because the kind of the file
    decides between them. Each other mode has a template of its own.
    """
    plain = [mode for mode in modes if mode in ("i2v", "v2v")]
    titles = " or ".join(MODES[mode].title for mode in plain)
    first = Template(
        pipeline.id,
        titles.capitalize(),
        "A video that begins with the file, as its kind says",
        _OF_FILES,
        model(pipeline),
        _tags(*_VIDEO),
        is_default=True,
    )
    return [first, *(_of_mode(pipeline, mode) for mode in modes if mode not in plain)]


def text_templates(pipeline: Pipeline, modes: Sequence[Mode]) -> list[Template]:
    """Return a generator's templates for modes that start from text, video before images."""
    ordered = sorted(modes, key=lambda mode: mode != "t2v")
    return [
        Template(
            f"{pipeline.id}-{mode}",
            MODES[mode].title.capitalize(),
            f"{MODES[mode].title.capitalize()}; no file is looked at",
            _OF_TEXT,
            {**model(pipeline), "TASK_MODE": mode},
            _tags(*(_VIDEO if MODES[mode].sound else _ALL)),
            is_default=mode == ordered[0],
        )
        for mode in ordered
    ]


def _of_mode(pipeline: Pipeline, mode: Mode) -> Template:
    tags, defaults = _tags(*_ARM), {}
    if mode == "transfer":
        tags = {
            **_tags(*_ALL, "num_frames", "control_guidance"),
            CONTROL_TYPE: ("Controls", f"One or several of {', '.join(HINTS)}, separated by commas"),
            CONTROL_PATH: ("Control videos", "S3 URIs, in the order of the controls; blank: made of the file"),
            CONTROL_WEIGHT: ("Control weights", "Numbers, in the order of the controls; blank: 1"),
        }
        defaults = {CONTROL_TYPE: "edge"}
    elif mode == "forward_dynamics":
        tags |= _tags("action_path")
    return Template(
        f"{pipeline.id}-{mode}".replace("_", "-"),
        MODES[mode].title.capitalize(),
        f"{MODES[mode].title.capitalize()}, of a file",
        _OF_FILES,
        {**model(pipeline), "TASK_MODE": mode},
        tags,
        defaults,
    )


def _tags(*names: str) -> dict[str, tuple[str, str]]:
    """Return the prompt and these parameters by their names in capitals, as VAMS's own templates write them."""
    fields = GenerationParameters.model_fields
    return {
        "PROMPT": ("Prompt", "What to make; blank: COSMOS3_PROMPT of the metadata"),
        **{name.upper(): (name.replace("_", " ").capitalize(), str(fields[name].description)) for name in names},
    }

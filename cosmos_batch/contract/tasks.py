"""Task presets: questions that NVIDIA publishes for its reasoners, with a place for what the caller asks about.

The wordings are those of NVIDIA's prompt guides, "Prompt Guide Cosmos Reason 2" of the Cosmos Cookbook
(docs/core_concepts/prompt_guide/reason_guide.md in nvidia-cosmos/cosmos-cookbook) and "Cosmos3-Reasoner Prompt Guide"
(cookbooks/cosmos3/reasoner/reasoner_prompt_guide.md in NVIDIA/cosmos). Ours are: the place for the subject; the shape
in the question of `2d-grounding`, which the guide shows beside it; and the question of `pointing`, for which the guide
gives the shape alone.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from cosmos_batch.catalogue.formats import Medium

TaskName = Literal[
    "caption",
    "temporal-localization",
    "temporal-localization-mmss",
    "2d-grounding",
    "pointing",
    "describe-anything",
    "action-cot",
    "driving-cot",
    "physical-plausibility",
    "next-action",
    "situation-understanding",
    "common-sense",
]

# The instruction to reason that NVIDIA appends to a question.
THINK = "<think>"
REASONING_FORMAT = """

Answer the question using the following format:

<think>
Your reasoning.
</think>

Write your final answer immediately after the </think> tag."""

AXIS = 1000  # boxes and points are in thousandths of each axis


@dataclass(frozen=True)
class Task:
    """A preset for a question.

    Attributes
    ----------
    template
        The question: `{subject}` is replaced by the caller's prompt, `{medium}` by "image" or "video".
    subject
        What stands for a caller's prompt that is absent; None where the task needs one.
    example
        A prompt of a caller.
    reasoning
        Whether the model thinks first, where the caller does not say.
    schema
        JSON Schema of the answer; None where it is text.
    medium
        The kind of file that it looks at; None for both.
    """

    name: TaskName
    template: str
    subject: str | None
    example: str
    reasoning: bool = False
    schema: dict[str, Any] | None = None
    medium: Medium | None = None

    def question(self, prompt: str | None, medium: Medium) -> str:
        """Return the whole question. Raises ValueError if a prompt is missing or the file is of the wrong kind."""
        if self.medium not in (None, medium):
            raise ValueError(f"{self.name!r} looks at a {self.medium}, and the file is {_with_article(medium)}")
        subject = self.subject.replace("{medium}", medium) if prompt is None and self.subject is not None else prompt
        if subject is None:
            raise ValueError(f"{self.name!r} needs a prompt, such as {self.example!r}")
        # The subject is inserted last, because a person's text is not a template.
        template = self.template if subject else self.template.replace("{subject}\n", "")
        return template.replace("{medium}", medium).replace("{subject}", subject)


def _with_article(medium: Medium) -> str:
    return "an image" if medium == "image" else "a video"


def _list_of(**properties: Any) -> dict[str, Any]:
    item = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "array", "items": item}


def _coordinates(count: int) -> dict[str, Any]:
    number = {"type": "number", "minimum": 0, "maximum": AXIS}
    return {"type": "array", "items": number, "minItems": count, "maxItems": count}


_TEXT = {"type": "string"}
_SECONDS = {"type": "number", "minimum": 0}
_BOXES = _list_of(bbox_2d=_coordinates(4), label=_TEXT)
_POINTS = _list_of(point_2d=_coordinates(2), label=_TEXT)

_PRESETS = (
    Task(
        name="caption",
        template="{subject}",
        subject="Caption the {medium} in detail.",
        example="Caption the video in one sentence.",
    ),
    Task(
        name="temporal-localization",
        template="""{subject}

Provide the result in json format with 'seconds' for time depiction for each event. Use keywords 'start', 'end' and \
'caption' in the json output. Please list multiple events if applicable.

```json
[
{
  "start": t_start,
  "end": t_end,
  "caption": EVENT1
},
{
  "start": t_start,
  "end": t_end,
  "caption": EVENT2
},
...
]
```""",
        subject="List all action segments in the video.",
        example="List all moments in which the gripper is closed.",
        schema=_list_of(start=_SECONDS, end=_SECONDS, caption=_TEXT),
        medium="video",
    ),
    Task(
        name="temporal-localization-mmss",
        template="{subject} Provide the result in json format with 'mm:ss.ff' format for time depiction for each "
        "event. Use keywords 'start', 'end' and 'caption' in the json output.",
        subject="Describe the notable events in the provided video.",
        example="Describe each time that somebody enters the room.",
        schema=_list_of(start=_TEXT, end=_TEXT, caption=_TEXT),
        medium="video",
    ),
    Task(
        name="2d-grounding",
        template="Locate the accurate bounding box of {subject}. Return a json like this: "
        '[{"bbox_2d": [x1, y1, x2, y2], "label": "object name"}].',
        subject=None,
        example="the load as a whole",
        schema=_BOXES,
    ),
    Task(
        name="pointing",
        template='Point to {subject}. Return a json like this: [{"point_2d": [x, y], "label": "target point"}].',
        subject=None,
        example="the handle of the drawer",
        schema=_POINTS,
    ),
    Task(
        name="describe-anything",
        template="{subject} List and describe all marked subjects in the {medium} with their categories and detailed "
        'captions using a json with keyword "subject_id", "category" and "caption".',
        subject="Please caption the notable attributes in the provided {medium}.",
        example="Please caption the clothes of everybody in the provided image.",
        schema=_list_of(subject_id={"type": ["string", "integer"]}, category=_TEXT, caption=_TEXT),
    ),
    Task(
        name="action-cot",
        template='You are given the task "{subject}". Specify the 2D trajectory your end effector should follow in '
        "pixel space. Return the trajectory coordinates in JSON format like this: "
        '{"point_2d": [x, y], "label": "gripper trajectory"}.',
        subject=None,
        example="Move the tape into the basket",
        reasoning=True,
        schema=_POINTS,
    ),
    Task(
        name="driving-cot",
        template="{subject}",
        subject="The video depicts the observation from the vehicle's camera. You need to think step by step and "
        "identify the objects in the scene that are critical for safe navigation.",
        example="The video depicts the observation from the vehicle's camera. Think step by step: is it safe to turn?",
        reasoning=True,
        medium="video",
    ),
    Task(
        name="physical-plausibility",
        template="Is this video physically plausible/possible according to your understanding of e.g. object "
        "permanence, shape constancy (objects maintain shape over time), continuous trajectories of objects? Assume "
        "it is the normal laws of physics.\nYour answer should be based on the events in the video and ignore the "
        "quality of the simulation engine.\n{subject}\n(A) Possible\n(B) Impossible",
        subject="",
        example="The rising wall is part of the experiment setup and should not be judged for plausibility.",
        medium="video",
    ),
    Task(
        name="next-action",
        template="{subject}",
        subject="What can be the next immediate action?",
        example="What's the next immediate action for the Ego vehicle?",
        reasoning=True,
    ),
    Task(
        name="situation-understanding",
        template="{subject}",
        subject="What is the person doing? What will the person likely do next in this situation?",
        example="What is the person doing with the skillet? What will the person likely do next in this situation?",
    ),
    Task(
        name="common-sense",
        template="{subject}",
        subject=None,
        example="Can the countertop support the weight of the juicers?",
        reasoning=True,
    ),
)

TASKS: dict[TaskName, Task] = {task.name: task for task in _PRESETS}
assert tuple(TASKS) == get_args(TaskName)

"""Parameters, tasks and prompts become a complete question, or are refused with the name of the wrong field."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from cosmos_batch.catalogue.limits import PROMPT_INLINE_LIMIT
from cosmos_batch.catalogue.pipelines import DEFAULT_PROMPT
from cosmos_batch.contract.environment import DeployedQueue, PlanEnvironment
from cosmos_batch.contract.job import SCHEMA_VERSION, Job
from cosmos_batch.contract.json_schema import SCHEMA_LIMIT
from cosmos_batch.contract.tasks import REASONING_FORMAT, TASKS, TaskName
from cosmos_batch.planning.questions import ANSWERING, REASONING
from lambdas.handlers.plan import enabled_queues
from tests.lambdas.cloud import IDENTITY, SMALL, STATE_BUCKET, Cloud
from tests.lambdas.planning.test_plan import job, plan, refused

CLIP, PICTURE = "robots/clip.mp4", "robots/picture.JPG"
SCHEMA = {"type": "object", "properties": {"robots": {"type": "integer"}}, "required": ["robots"]}


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None], cloud: Cloud) -> None:
    configure(PlanEnvironment)
    cloud.put(CLIP)
    cloud.put(PICTURE)


def planned(key: str = CLIP, **request: Any) -> Job:
    return job(plan(input=f"s3://assets/{key}", **request))


@pytest.mark.parametrize("task", TASKS)
def test_every_task_becomes_a_question(task: TaskName) -> None:
    preset = TASKS[task]
    question = planned(prompt=preset.example, parameters={"task": task})
    assert question.prompt is not None and preset.example in question.prompt
    assert "{subject}" not in question.prompt and "{medium}" not in question.prompt
    assert question.prompt.endswith(REASONING_FORMAT) is preset.reasoning
    assert question.parameters.reasoning is preset.reasoning
    assert question.parameters.json_schema == preset.schema
    sampling = REASONING if preset.reasoning else ANSWERING
    assert asdict(sampling).items() <= question.parameters.model_dump(by_alias=False).items()
    if preset.schema is not None:
        Draft202012Validator.check_schema(preset.schema)


def test_the_prompt_of_the_caller_is_kept_beside_the_question() -> None:
    def planned(**request: Any) -> Job:
        return job(plan(input=f"s3://assets/{CLIP}", schema_version=SCHEMA_VERSION, **request))

    question = planned(prompt="the load", parameters={"task": "2d-grounding"})
    assert (question.user_prompt, question.user_prompt_uri) == ("the load", None) and question.prompt != "the load"
    assert planned(parameters={"task": "caption"}).user_prompt == "", "there are none"
    assert planned(parameters={"jsonSchema": SCHEMA}).user_prompt == DEFAULT_PROMPT
    for alone in (planned(prompt="What falls?"), planned()):
        assert not alone.asks_more_than_the_caller, "they are the question"


def test_a_long_prompt_of_a_caller_is_stored_beside_the_question(cloud: Cloud) -> None:
    long = "x" * PROMPT_INLINE_LIMIT + "y"
    request = {"input": f"s3://assets/{CLIP}", "prompt": long, "parameters": {"reasoning": True}}
    question = job(plan(schema_version=SCHEMA_VERSION, **request))
    assert question.user_prompt is None and question.prompt is None and question.prompt_uri != question.user_prompt_uri
    assert question.user_prompt_uri is not None and question.user_prompt_uri.startswith(
        f"s3://{STATE_BUCKET}/requests/"
    )
    key = question.user_prompt_uri.removeprefix(f"s3://{STATE_BUCKET}/")
    assert cloud.s3.get_object(Bucket=STATE_BUCKET, Key=key)["Body"].read().decode() == long


@pytest.mark.parametrize("task", TASKS)
def test_a_task_without_a_prompt_uses_its_subject_or_is_refused(task: TaskName) -> None:
    preset = TASKS[task]
    if preset.subject is None:
        error = refused(input=f"s3://assets/{CLIP}", parameters={"task": task})
        assert error.code == "InvalidInput"
        assert error.message == f"task: {task!r} needs a prompt, such as {preset.example!r}."
    else:
        question = planned(prompt=" ", parameters={"task": task})
        assert question.prompt and "{" not in question.prompt.replace('[{"', "").replace("{\n", "")
        assert DEFAULT_PROMPT not in question.prompt or task == "caption"


@pytest.mark.parametrize("task", [name for name, preset in TASKS.items() if preset.medium == "video"])
def test_a_task_of_videos_refuses_an_image(task: TaskName) -> None:
    error = refused(input=f"s3://assets/{PICTURE}", prompt="x", parameters={"task": task})
    assert error.message == f"task: {task!r} looks at a video, and the file is an image."


def test_questions_of_tasks_have_the_wording_of_the_guides_of_nvidia() -> None:
    prompt = planned(PICTURE, prompt="Move the tape into the basket", parameters={"task": "action-cot"}).prompt
    assert prompt == (
        'You are given the task "Move the tape into the basket". Specify the 2D trajectory your end effector should '
        "follow in pixel space. Return the trajectory coordinates in JSON format like this: "
        '{"point_2d": [x, y], "label": "gripper trajectory"}.\n\n'
        "Answer the question using the following format:\n\n<think>\nYour reasoning.\n</think>\n\n"
        "Write your final answer immediately after the </think> tag."
    )
    assert planned(PICTURE, parameters={"task": "caption"}).prompt == "Caption the image in detail."
    assert planned(CLIP, parameters={"task": "caption"}).prompt == "Caption the video in detail."
    plausible = planned(parameters={"task": "physical-plausibility"}).prompt
    assert plausible is not None and plausible.endswith("simulation engine.\n(A) Possible\n(B) Impossible")


def test_braces_in_a_subject_are_kept() -> None:
    prompt = planned(PICTURE, prompt="the {medium} {subject} {0}", parameters={"task": "pointing"}).prompt
    assert prompt is not None and prompt.startswith("Point to the {medium} {subject} {0}. ")


@pytest.mark.parametrize(
    ("prompt", "reasoning", "reasons", "appended"),
    [
        ("What?", None, False, False),
        ("What?", True, True, True),
        ("What?", False, False, False),
        ("What? <think> first </think>", None, True, False),
        ("What? <think> first </think>", True, True, False),
        ("What? <think> first </think>", False, True, False),
    ],
)
def test_reasoning_is_requested_once(prompt: str, reasoning: bool | None, reasons: bool, appended: bool) -> None:
    question = planned(prompt=prompt, parameters={} if reasoning is None else {"reasoning": reasoning})
    assert question.prompt == prompt + (REASONING_FORMAT if appended else "")
    assert question.parameters.reasoning is reasons
    assert question.parameters.temperature == (0.6 if reasons else 0.7)


def test_a_system_prompt_can_request_reasoning() -> None:
    question = planned(prompt="What?", systemPrompt="Answer as <think>reasoning</think> answer")
    assert question.parameters.reasoning is True and question.prompt == "What?"


def test_reasoning_of_a_task_can_be_left_out() -> None:
    question = planned(parameters={"task": "next-action", "reasoning": False})
    assert (question.prompt, question.parameters.presence_penalty) == ("What can be the next immediate action?", 1.5)


def test_absent_sampling_parameters_have_values_of_nvidia() -> None:
    parameters = planned(parameters={"temperature": 0, "topK": 0, "seed": 0}).parameters
    assert (parameters.temperature, parameters.top_k, parameters.seed) == (0, 0, 0)
    assert (parameters.top_p, parameters.repetition_penalty, parameters.presence_penalty) == (0.8, 1.0, 1.5)


def test_the_schema_of_a_caller_is_part_of_the_question_and_replaces_that_of_the_task() -> None:
    question = planned(prompt="How many?", parameters={"jsonSchema": SCHEMA})
    assert question.prompt is not None and question.prompt.startswith("How many?\n\nAnswer with JSON alone")
    assert json.loads(question.prompt.rpartition("\n")[2]) == SCHEMA == question.parameters.json_schema
    both = planned(PICTURE, prompt="it", parameters={"task": "2d-grounding", "jsonSchema": SCHEMA})
    assert both.parameters.json_schema == SCHEMA


def test_a_long_question_is_derived_from_the_prompt_each_time(cloud: Cloud) -> None:
    long = "x" * PROMPT_INLINE_LIMIT
    parameters = {"task": "pointing"}
    cloud.put("requests/job-1/prompt.txt", long.encode(), bucket=STATE_BUCKET)
    uri = f"s3://{STATE_BUCKET}/requests/job-1/prompt.txt"
    for _ in range(2):
        question = planned(PICTURE, promptUri=uri, parameters=parameters)
        assert question.prompt_uri == f"s3://{STATE_BUCKET}/requests/job-1/question.txt"
        kept = cloud.s3.get_object(Bucket=STATE_BUCKET, Key="requests/job-1/question.txt")["Body"].read().decode()
        assert kept.startswith(f"Point to {long}. Return")


def test_metadata_replaces_parameters_of_the_request_one_by_one() -> None:
    question = planned(
        parameters={"fps": 2, "seed": 5, "task": "caption"},
        metadata={"fps": "1.5", "reasoning": "true", "systemPrompt": "Be brief.", "jsonSchema": json.dumps(SCHEMA)},
        systemPrompt="Be verbose.",
    )
    assert (question.parameters.fps, question.parameters.seed, question.parameters.task) == (1.5, 5, "caption")
    assert question.parameters.reasoning is True and question.parameters.json_schema == SCHEMA
    assert question.system_prompt == "Be brief."


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"task": "no-such"}, "task: 'no-such': Input should be 'caption', 'temporal-localization'"),
        ({"fps": 0}, "fps: 0: Input should be greater than 0"),
        ({"fps": -1}, "fps: -1: Input should be greater than 0"),
        ({"fps": 1e9}, "fps: 1000000000.0: Input should be less than or equal to 60"),
        ({"start": -1}, "start: -1: Input should be greater than or equal to 0"),
        ({"start": 5, "end": 5}, "end: 5: must be later than start, 5"),
        ({"end": 0}, "end: 0: Input should be greater than 0"),
        ({"maxTokens": 10**6}, "maxTokens: 1000000: Input should be less than or equal to 32768"),
        ({"temperature": 3}, "temperature: 3: Input should be less than or equal to 2"),
        ({"topP": 0}, "topP: 0: Input should be greater than 0"),
        ({"topK": -1}, "topK: -1: Input should be greater than or equal to 0"),
        ({"repetitionPenalty": 0}, "repetitionPenalty: 0: Input should be greater than 0"),
        ({"presencePenalty": 3}, "presencePenalty: 3: Input should be less than or equal to 2"),
        ({"longVideo": "cut"}, "longVideo: 'cut': Input should be 'sampleDown' or 'refuse'"),
        ({"reasoning": "perhaps"}, "reasoning: 'perhaps': Input should be a valid boolean"),
        ({"jsonSchema": "text"}, "jsonSchema: 'text': Input should be a valid dictionary"),
        ({"jsonSchema": {"type": "nope"}}, "is no JSON schema (draft 2020-12): $.type: 'nope'"),
        ({"jsonSchema": {"properties": 5}}, "is no JSON schema (draft 2020-12): $.properties: 5"),
        ({"jsonSchema": {"title": "x" * SCHEMA_LIMIT}}, "jsonSchema: {'title': "),
    ],
)
@pytest.mark.parametrize("where", ["parameters", "metadata"])
def test_a_refusal_is_one_sentence_that_names_the_field(where: str, parameters: dict[str, Any], named: str) -> None:
    error = refused(input=f"s3://assets/{CLIP}", **{where: parameters})
    assert error.code == "InvalidInput"
    assert named in error.message and list(parameters)[-1] in error.message
    assert error.message.count("\n") == 0


def test_start_and_end_are_refused_for_an_image() -> None:
    assert refused(input=f"s3://assets/{PICTURE}", parameters={"start": 1}).message.startswith("start: an image")


def test_an_engine_that_looks_at_one_image_gets_nothing_else(cloud: Cloud) -> None:
    engine = IDENTITY.model_copy(update={"engine": "cosmos-framework-reasoner"})
    enabled_queues()[SMALL] = DeployedQueue(id=SMALL, queue_url=cloud.jobs_queue, identity=engine)
    video, several = (
        refused(input=f"s3://assets/{CLIP}"),
        refused(input=f"s3://assets/{PICTURE}", parameters={"moreInputs": [f"s3://assets/{PICTURE}"]}),
    )
    assert video.message == f"s3://assets/{CLIP} is a video; Cosmos Framework looks at images."
    assert several.message == "Cosmos Framework looks at one image a request, not at several."
    assert all(error.code == "InvalidInput" and "'vllm'" in error.remedy for error in (video, several))
    assert planned(PICTURE).input is not None

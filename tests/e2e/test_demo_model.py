"""The demo model behind the whole app: its answers are correct only if each part passes its input on unchanged.

A scripted engine cannot tell frames in order from frames reversed. Here the frames' order and rate, the cut, the
prompt's precedence and the handling of images each have a test that fails when the worker breaks it.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.demo.media import HEIGHT, SAMPLE, SECONDS, WIDTH, write_clip, write_image
from cosmos_batch.demo.scenes import Event, Scene, Thing
from tests.support.deployed_app import TWO_B, App, Vams, configuration, running_app

pytestmark = pytest.mark.timeout(900)  # an answer takes seconds, or half a minute beside busy processes

GREEDY = {"temperature": 0, "presencePenalty": 0}
MOVING = Thing("circle", "red", 0.13, 0.3, 0.5, Event("right", 1.0, 2.5, 0.6))
RIGHT = replace(SAMPLE, things=(MOVING,))
"""A red circle stands still for a second, moves to the right for a second and a half, and stands still."""
LEFT = replace(RIGHT, things=(replace(MOVING, x=MOVING.x + 0.6, event=Event("left", 1.5, 3.0, 0.6, towards=-1)),))
"""The same clip played backwards."""
HALF_SECOND = 0.5


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Provide the app with the demo model in its smallest pipeline, on the Transformers engine."""
    folder = tmp_path_factory.mktemp("app")
    entry = {"engine": "transformers", "model": str(DEMO_REASON)}
    with running_app(folder, configuration(folder, entry, worker={"idleSeconds": 600})) as running:
        yield running


def answer(app: App, path: Path, prompt: str, **parameters: Any) -> str:
    """Upload a file, start an execution that asks about it, and return the text of the answer."""
    key = f"{path.stem}-{abs(hash((prompt, json.dumps(parameters))))}/{path.name}"
    app.upload(key, path)
    request = {"pipeline": TWO_B, "input": f"s3://{app.assets}/{key}", "prompt": prompt}
    ended = app.ended(app.start({**request, "parameters": {**GREEDY, **parameters}}), seconds=600)
    assert ended["status"] == "SUCCEEDED", ended
    document = app.document(ended["executionArn"])
    assert document["model"] == "cosmos-batch/demo-reason"
    assert "attribution" not in document, "it is not built on NVIDIA's model"
    text: str = document["result"]
    return text


def movement(text: str) -> tuple[float, float]:
    """Return start and end of the first event of an answer that is a JSON list of events."""
    [event, *_] = json.loads(text)
    return event["start"], event["end"]


def clip(folder: Path, scene: Scene, name: str, fps: int = 12) -> Path:
    return write_clip(scene, folder / f"{name}.mp4", WIDTH, HEIGHT, fps)


def test_frames_reach_the_model_in_their_order(app: App, tmp_path: Path) -> None:
    question = "In which direction does the red circle move?"
    assert answer(app, clip(tmp_path, RIGHT, "forwards"), question) == "The red circle moves to the right."
    assert answer(app, clip(tmp_path, LEFT, "backwards"), question) == "The red circle moves to the left."


def test_times_are_those_of_the_clip_at_any_frame_rate(app: App, tmp_path: Path) -> None:
    for fps in (8, 24):
        text = answer(app, clip(tmp_path, RIGHT, f"rate-{fps}", fps), "", task="temporal-localization")
        start, end = movement(text)
        assert abs(start - 1.0) <= HALF_SECOND, text
        assert abs(end - 2.5) <= HALF_SECOND, text


def test_a_clip_played_at_half_its_rate_takes_twice_as_long(app: App, tmp_path: Path) -> None:
    slow_event = Event("right", 2.0, 5.0, 0.6)
    slow = replace(RIGHT, duration=6.0, things=(replace(MOVING, event=slow_event),))
    start, end = movement(answer(app, clip(tmp_path, slow, "slow"), "", task="temporal-localization"))
    assert abs(start - 2.0) <= HALF_SECOND
    assert abs(end - 5.0) <= HALF_SECOND


def test_times_within_a_cut_are_those_of_the_whole_clip(app: App, tmp_path: Path) -> None:
    """The cut leaves out the first second of a clip whose shape starts to move at 1.5 s."""
    path = clip(tmp_path, LEFT, "cut")
    whole = movement(answer(app, path, "", task="temporal-localization"))
    cut = movement(answer(app, path, "", task="temporal-localization", start=1.0))
    assert abs(whole[0] - 1.5) <= HALF_SECOND
    assert abs(cut[0] - 1.5) <= HALF_SECOND, "counted from the clip's beginning, not from the cut's"


def test_a_cut_hides_what_happens_outside_of_it(app: App, tmp_path: Path) -> None:
    """The circle moves in the first two seconds, and the square falls in the last one and a half."""
    path = clip(tmp_path, SAMPLE, "two-events")
    assert answer(app, path, "What happens last?") == "The blue square falls to the ground."
    assert answer(app, path, "What happens last?", end=2.25) == "The red circle moves to the right."


def test_an_image_is_seen_as_it_is(app: App, tmp_path: Path) -> None:
    first = write_image(SAMPLE, tmp_path / "first.png", WIDTH, HEIGHT)
    last = write_image(SAMPLE, tmp_path / "last.png", WIDTH, HEIGHT, seconds=SECONDS)
    places = [json.loads(answer(app, path, "the blue square", task="2d-grounding"))[0] for path in (first, last)]
    assert [place["label"] for place in places] == ["blue square", "blue square"]
    middles = [(place["bbox_2d"][1] + place["bbox_2d"][3]) / 2 for place in places]
    assert abs(middles[0] - 300) < 60, "the square's middle is at 0.3 of the height"
    assert abs(middles[1] - 892) < 60, "it lies on the ground"


def test_the_prompt_of_the_file_comes_before_that_of_the_input_parameters(app: App, tmp_path: Path) -> None:
    """VAMS sends both the file's metadata and the workflow's parameters."""
    app.upload("asset-1/clip.mp4", clip(tmp_path, SAMPLE, "vams"))
    vams = Vams.of(app)
    of_file = {"fileMetadata": {"COSMOS_REASON_PROMPT": "What colour is the circle?"}}
    of_workflow = {"prompt": "How many shapes are there?"}
    runs = [
        vams.start("asset-1/clip.mp4", metadata=of_file),
        vams.start("asset-1/clip.mp4", parameters=of_workflow),
        vams.start("asset-1/clip.mp4", metadata=of_file, parameters=of_workflow),
    ]
    texts = []
    for run in runs:
        assert app.ended(run, seconds=600)["status"] == "SUCCEEDED"
        [key] = [key for key in app.keys(vams.output_of(run)) if key.endswith(".json")]
        body = app.client("s3").get_object(Bucket=app.assets, Key=key)["Body"].read()
        texts.append(json.loads(body)["result"])
    assert texts == ["The circle is red.", "There are two shapes.", "The circle is red."]

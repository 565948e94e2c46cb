"""The demo model behind the whole app: its answers are correct only if each part passes its input on unchanged.

A scripted engine cannot tell frames in order from frames reversed. Here the frames' order and rate, the cut, the
prompt's precedence and the handling of images each have a test that fails when the worker breaks it.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.demo import DEMO_REASON
from tests.support.demo_questions import GREEDY, QUESTIONS
from tests.support.deployed_app import TWO_B, App, configuration, running_app
from tests.support.vams_workflow import Vams

pytestmark = pytest.mark.timeout(900)  # an answer takes seconds, or half a minute beside busy processes


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Provide the app with the demo model in its smallest pipeline, on the Transformers engine."""
    folder = tmp_path_factory.mktemp("app")
    entry = {"engine": "transformers", "model": str(DEMO_REASON)}
    with running_app(folder, configuration(folder, entry, worker={"idleSeconds": 600})) as running:
        yield running


def assert_true_answers(app: App, folder: Path, *names: str) -> None:
    """Ask the named questions, each in an execution of its own, and assert that the answers are true."""
    for name in names:
        question = QUESTIONS[name]
        path = question.write(folder)
        key = f"{name}/{path.name}"
        app.upload(key, path)
        request = {"pipeline": TWO_B, "input": f"s3://{app.assets}/{key}", "prompt": question.prompt}
        ended = app.ended(app.start({**request, "parameters": {**GREEDY, **question.parameters}}), seconds=600)
        assert ended["status"] == "SUCCEEDED", ended
        document = app.document(ended["executionArn"])
        assert document["model"] == "cosmos-batch/demo-reason"
        assert "attribution" not in document, "it is not built on NVIDIA's model"
        assert question.is_true(document["result"]), (name, document["result"])


@pytest.mark.slow  # one question of several to the demo's model
def test_frames_reach_the_model_in_their_order(app: App, tmp_path: Path) -> None:
    assert_true_answers(app, tmp_path, "forwards", "backwards")


def test_times_are_those_of_the_clip_at_any_frame_rate(app: App, tmp_path: Path) -> None:
    assert_true_answers(app, tmp_path, "rate-8", "rate-24")


def test_a_clip_played_at_half_its_rate_takes_twice_as_long(app: App, tmp_path: Path) -> None:
    assert_true_answers(app, tmp_path, "slow")


def test_times_within_a_cut_are_those_of_the_whole_clip(app: App, tmp_path: Path) -> None:
    """The cut leaves out the first second of a clip whose shape starts to move at 1.5 s."""
    assert_true_answers(app, tmp_path, "whole", "cut")


def test_a_cut_hides_what_happens_outside_of_it(app: App, tmp_path: Path) -> None:
    """The circle moves in the first two seconds, and the square falls in the last one and a half."""
    assert_true_answers(app, tmp_path, "last", "last-before-the-cut")


def test_an_image_is_seen_as_it_is(app: App, tmp_path: Path) -> None:
    """The square is on the right: at 0.3 of the height in the first frame, and on the ground in the last."""
    assert_true_answers(app, tmp_path, "first-image", "last-image")


def test_the_prompt_of_the_file_comes_before_that_of_the_input_parameters(app: App, tmp_path: Path) -> None:
    """VAMS sends both the file's metadata and the workflow's parameters."""
    app.upload("asset-1/clip.mp4", QUESTIONS["color"].write(tmp_path))
    vams = Vams.of(app)
    of_file = {"fileMetadata": {"COSMOS_REASON_PROMPT": QUESTIONS["color"].prompt}}
    of_workflow = {"prompt": QUESTIONS["count"].prompt}
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
    wanted = [QUESTIONS[name] for name in ("color", "count", "color")]
    assert all(question.is_true(text) for question, text in zip(wanted, texts, strict=True)), texts

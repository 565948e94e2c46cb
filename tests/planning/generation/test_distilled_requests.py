"""A request for a distilled model may set what the model can follow, and is refused with the reason otherwise."""

import re
from typing import Any

import pytest

from tests.support.generations import refusal, settled

DISTILLED: dict[str, Any] = {"pipeline": "cosmos3-super-text2image", "fixed_steps": 4}


@pytest.mark.parametrize("parameters", [{}, {"steps": 4, "guidance_scale": 1, "flow_shift": 1, "negative_prompt": ""}])
def test_steps_are_fixed_and_there_is_no_guidance(parameters: dict[str, Any]) -> None:
    generation = settled(parameters, **DISTILLED)
    assert (generation.distilled, generation.steps, generation.guided) == (True, 4, False)
    assert (generation.flow_shift, generation.negative_prompt) == (1.0, "")


def test_a_video_of_a_distilled_model_has_no_negative_prompt() -> None:
    assert settled(medium="image", pipeline="cosmos3-super-image2video", fixed_steps=4).negative_prompt == ""


@pytest.mark.parametrize(
    ("parameters", "message", "remedy"),
    [
        ({"steps": 50}, "steps: the model of this pipeline is distilled to 4 fixed steps, so that 50 are", "set 4"),
        ({"guidance_scale": 7}, "guidanceScale: .* without guidance, so that 7 is not possible", "set 1"),
        ({"flow_shift": 5}, "flowShift: .* at fixed noise levels", "Leave flowShift out"),
        ({"negative_prompt": "Blur."}, "negativePrompt: .* has no effect", "Leave it out"),
    ],
)
def test_what_a_distilled_model_cannot_follow_is_refused(parameters: dict[str, Any], message: str, remedy: str) -> None:
    error = refusal(parameters, **DISTILLED)
    assert re.match(message, error.message) and error.remedy is not None and remedy in error.remedy


@pytest.mark.parametrize(
    ("parameters", "medium", "message"),
    [
        ({"mode": "t2v"}, None, "mode: .* distilled models do not do t2v"),
        ({"mode": "v2v"}, "video", "mode: .* distilled models do not do v2v"),
        ({"sound": True}, "image", "sound: .* distilled models generate none"),
    ],
)
def test_a_distilled_model_makes_images_and_silent_videos_from_images_alone(
    parameters: dict[str, Any], medium: Any, message: str
) -> None:
    assert re.match(message, refusal(parameters, medium=medium, pipeline="cosmos3-nano", fixed_steps=4).message)

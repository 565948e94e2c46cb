"""An uploaded `*.cosmos.json` is read as a request or as a document, or refused with what is wrong in it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.catalogue.generation import MODES
from cosmos_batch.contract.error import Failure
from cosmos_batch.planning.generation.aliases import EXAMPLE
from cosmos_batch.planning.generation.request_file import SIZE_LIMIT, read_request_file
from tests.support.generations import AV, document_of, settled


def read(content: Any) -> Any:
    return read_request_file(json.dumps(content).encode())


def test_the_example_of_messages_is_a_request() -> None:
    request = read_request_file(EXAMPLE.encode())
    assert request.prompt == "A robot pours water."
    assert (request.parameters.mode, request.parameters.resolution) == ("t2v", "480p")
    assert request.pipeline is None and request.input is None and request.output is None


def test_parameters_are_read_beside_the_prompt_or_below_parameters() -> None:
    flat = read({"prompt": {"duration": "7s"}, "num_frames": 93, "pipeline": "cosmos3-nano", "input": "a.png"})
    nested = read({"prompt": {"duration": "7s"}, "parameters": {"numFrames": 93}, "pipeline": "cosmos3-nano",
                   "input": "a.png"})  # fmt: skip
    assert flat == nested and flat.prompt == {"duration": "7s"} and flat.parameters.num_frames == 93


def test_a_specification_of_cosmos_framework_is_read() -> None:
    request = read(
        {
            "model_mode": "image2video", "prompt": "It drives.", "vision_path": "car.jpg", "num_steps": 35,
            "guidance": 6.0, "shift": 10.0, "fps": 24, "num_frames": 189, "resolution": "720", "aspect_ratio": "16,9",
            "enable_sound": False, "seed": 0, "output": "s3://my-bucket/out/",
        }
    )  # fmt: skip
    assert (request.input, request.parameters.mode, request.parameters.resolution) == ("car.jpg", "i2v", "720p")
    assert request.parameters.aspect_ratio == "16:9" and request.output == "s3://my-bucket/out/"


def test_requests_of_nvidias_cookbooks_for_vllm_omni_are_read() -> None:
    video = read(
        {
            "prompt": "A robot moves a box.", "negative_prompt": "blurry", "size": "1280x720", "num_frames": "189",
            "fps": "24", "num_inference_steps": "35", "guidance_scale": "6.0", "flow_shift": "10.0", "seed": "0",
            "generate_sound": "true", "input_reference": "car.jpg", "max_sequence_length": 512,
            "extra_params": '{"use_resolution_template":false,"use_duration_template":false,"guardrails":true}',
        }
    )  # fmt: skip
    parameters = video.parameters
    assert (video.input, parameters.width, parameters.steps, parameters.sound) == ("car.jpg", 1280, 35, True)
    assert (parameters.use_resolution_template, parameters.use_duration_template) == (False, False)
    assert parameters.guardrails is True
    image = read({"prompt": "A.", "mode": "t2i", "size": "1280x720", "n": 1, "extra_args": {"guardrails": False}})
    assert image.parameters.guardrails is False and image.parameters.height == 720
    extra = {"action_mode": "forward_dynamics", "domain_name": "av", "action_chunk_size": 60, "image_size": [320, 576],
             "view_point": 0, "action": [[0.0] * 9] * 60, "guardrails": False}  # fmt: skip
    action = read({"prompt": "Drive.", "input_reference": "car.png", "extra_params": extra}).parameters
    assert (action.mode, action.resolution, action.view_point) == ("forward_dynamics", "480p", "ego_view")


# For each mode: the input, all parameters that a caller may set, and the names of its files in S3.
DOCUMENTED: list[tuple[str | None, dict[str, Any], list[str]]] = [
    (None, {"mode": "t2i", "image_format": "jpeg", "seed": 7, "guardrails": False}, []),
    (None, {"mode": "t2v", "negative_prompt": {"a": 1}, "sound": True, "fps": 29.97, "num_frames": 94, "steps": 9,
            "guidance_scale": 2, "flow_shift": 3, "max_sequence_length": 900, "use_duration_template": False,
            "preview": False, "contact_sheet": True}, []),
    ("image", {"width": 320, "height": 192}, []),
    ("video", {"condition_frames": [0], "condition_keep": "last", "resolution": "256p"}, []),
    ("video", {"mode": "transfer", "edge": {"weight": 2.0, "strength": "low"}, "wsm": "w.mp4", "depth": "d.mp4",
               "control_guidance": 2, "frames_per_chunk": 9, "num_frames": 13}, ["depth.mp4", "wsm.mp4"]),
    (None, {"mode": "transfer", "seg": "seg.mp4"}, ["seg.mp4"]),
    ("image", AV, []),
    ("image", {"mode": "forward_dynamics", "domain_name": "bridge", "action_path": "a.json"}, ["a.json"]),
    ("video", {"mode": "inverse_dynamics", "domain_name": "av", "resolution": "256p", "action_chunk_size": 8}, []),
    ("image", {"mode": "policy", "domain_name": "hand_pose", "view_point": "wrist_view"}, []),
]  # fmt: skip


@pytest.mark.parametrize(("medium", "parameters", "names"), DOCUMENTED)
def test_a_document_is_a_request_for_the_same_generation(
    medium: Any, parameters: dict[str, Any], names: list[str]
) -> None:
    """The document has the values that depend on files, as an engine filled them in."""
    seen: dict[str, Any] = {"max_sequence_length": 777, "notes": [], "num_frames": 9, "fps": 12.0}
    sized = {"width": 320, "height": 192, "resolution": None}
    planned = settled(parameters, medium)
    generation = planned.model_copy(
        update=seen | sized if planned.action is None and planned.mode != "t2i" else {"max_sequence_length": 777}
    )
    request = read(document_of(generation, medium, names))
    again = settled(json.loads(request.parameters.model_dump_json(exclude_unset=True)), medium, request.prompt)
    uris = iter(f"s3://my-bucket/{name}" for name in names)
    expected = json.loads(generation.model_dump_json())
    for part in (*((expected["transfer"] or {}).get("controls") or {}).values(), expected["action"] or {}):
        if part.get("path"):
            part["path"] = next(uris)
    # `max_sequence_length` is not repeated, because a caller may set a longer prompt beside the document.
    assert json.loads(again.model_dump_json()) == {**expected, "maxSequenceLength": None, "notes": again.notes}
    assert request.input == (f"s3://my-bucket/in.{medium}" if medium else None)
    assert [request.origin.version_of(f"s3://my-bucket/{name}") for name in names] == names
    assert (request.origin.model, request.origin.revision, request.pipeline) == (
        "nvidia/Cosmos3-Nano",
        "1234",
        "cosmos3-nano",
    )


def test_there_is_such_a_document_of_every_mode() -> None:
    assert {settled(parameters, medium).mode for medium, parameters, _ in DOCUMENTED} == set(MODES)  # type: ignore[arg-type]


def test_a_document_with_an_invalid_change_is_refused() -> None:
    document = document_of(settled({"mode": "t2v"}), None, [])
    document["generation"]["seed"] = -1
    with pytest.raises(Failure, match=r"generation\.seed"):
        read(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"not json", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b"{}", "prompt: is missing"),
        (b'{"prompt": 1}', "prompt"),
        (b'{"prompt": "a", "parameters": 3}', "parameters: is not a JSON object"),
        (b'{"prompt": "a", "promt": "b"}', "promt: unknown field"),
        (b'{"prompt": "a", "fps": 0}', "fps: 0"),
        (b'{"prompt": "a", "fps": NaN}', "fps: nan"),
        (b'{"prompt": "a", "true_cfg_scale": 4}', "use guidanceScale"),
        (b'{"prompt": "a", "sound_duration": 7.9}', "sound_duration: is always the video's"),
        (b'{"prompt": "a", "n": 2}', "n: is 2, and a request generates one"),
        (b'{"prompt": "a", "extra_params": "x"}', "extra_params: is not a JSON object"),
        (b'{"prompt": "a", "seed": 1, "extra_args": {"seed": 2}}', "seed: is set twice"),
        (b'{"prompt": "a", "output": "/tmp"}', "output: '/tmp': must be an S3 URI"),
        (b"[" * 100_000, "is not JSON"),
        (b" " * (SIZE_LIMIT + 1), "bytes"),
    ],
)
def test_an_invalid_request_file_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(Failure) as raised:
        read_request_file(text)
    assert message in raised.value.error.message and raised.value.error.code == "InvalidInput"


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=8), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["prompt", "mode", "edge", "controls", "size", "resolution", "action", "parameters", "view_point"]), inner)))  # fmt: skip  # noqa: E501
def test_any_json_is_a_request_or_refused(content: Any) -> None:
    try:
        read(content)
    except Failure as failure:
        assert failure.error.code == "InvalidInput"

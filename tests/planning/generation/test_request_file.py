"""An uploaded `*.cosmos.json`: what it says, or what is wrong in it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.catalogue.generation import MODES
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.planning.generation.aliases import EXAMPLE
from cosmos_batch.planning.generation.request_file import SIZE_LIMIT, read_request_file
from tests.support.generations import AV, settled


def read(said: Any) -> Any:
    return read_request_file(json.dumps(said).encode())


def test_the_example() -> None:
    found = read_request_file(EXAMPLE.encode())
    assert (found.prompt, found.parameters.mode, found.parameters.resolution) == ("A robot pours water.", "t2v", "480p")
    assert found.pipeline is None and found.input is None and found.output is None


def test_parameters_beside_the_prompt_or_below_a_name() -> None:
    flat = read({"prompt": {"duration": "7s"}, "num_frames": 93, "pipeline": "cosmos3-nano", "input": "a.png"})
    nested = read({"prompt": {"duration": "7s"}, "parameters": {"numFrames": 93}, "pipeline": "cosmos3-nano",
                   "input": "a.png"})  # fmt: skip
    assert flat == nested and flat.prompt == {"duration": "7s"} and flat.parameters.num_frames == 93


def test_a_specification_of_cosmos_framework() -> None:
    found = read(
        {
            "model_mode": "image2video", "prompt": "It drives.", "vision_path": "car.jpg", "num_steps": 35,
            "guidance": 6.0, "shift": 10.0, "fps": 24, "num_frames": 189, "resolution": "720", "aspect_ratio": "16,9",
            "enable_sound": False, "seed": 0, "output": "s3://my-bucket/out/",
        }
    )  # fmt: skip
    assert (found.input, found.parameters.mode, found.parameters.resolution) == ("car.jpg", "i2v", "720p")
    assert found.parameters.aspect_ratio == "16:9" and found.output == "s3://my-bucket/out/"


def test_the_requests_of_nvidias_cookbooks_for_vllm_omni() -> None:
    video = read(
        {
            "prompt": "A robot moves a box.", "negative_prompt": "blurry", "size": "1280x720", "num_frames": "189",
            "fps": "24", "num_inference_steps": "35", "guidance_scale": "6.0", "flow_shift": "10.0", "seed": "0",
            "generate_sound": "true", "input_reference": "car.jpg", "max_sequence_length": 512,
            "extra_params": '{"use_resolution_template":false,"use_duration_template":false,"guardrails":true}',
        }
    )  # fmt: skip
    asked = video.parameters
    assert (video.input, asked.width, asked.steps, asked.sound) == ("car.jpg", 1280, 35, True)
    assert (asked.use_resolution_template, asked.use_duration_template, asked.guardrails) == (False, False, True)
    image = read({"prompt": "A.", "mode": "t2i", "size": "1280x720", "n": 1, "extra_args": {"guardrails": False}})
    assert image.parameters.guardrails is False and image.parameters.height == 720
    extra = {"action_mode": "forward_dynamics", "domain_name": "av", "action_chunk_size": 60, "image_size": [320, 576],
             "view_point": 0, "action": [[0.0] * 9] * 60, "guardrails": False}  # fmt: skip
    action = read({"prompt": "Drive.", "input_reference": "car.png", "extra_params": extra}).parameters
    assert (action.mode, action.resolution, action.view_point) == ("forward_dynamics", "480p", "ego_view")


# Of each mode, all that a caller may say, and the names that its files have in S3.
SAID: list[tuple[str | None, dict[str, Any], list[str]]] = [
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


def document_of(made: Generation, medium: str | None, names: list[str]) -> dict[str, Any]:
    """What a document of any release has of it."""
    files = [{"uri": f"s3://my-bucket/{name}", "versionId": name} for name in names]
    start = {"uri": f"s3://my-bucket/in.{medium}", "versionId": "first"}
    return {
        "pipeline": "cosmos3-nano", "model": "nvidia/Cosmos3-Nano", "revision": "1234", "engine": "diffusers 0.38.0",
        "input": start if medium else None, "moreInputs": files, "generation": json.loads(made.model_dump_json()),
        "ofAnotherRelease": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("medium", "said", "names"), SAID)
def test_a_document_is_a_request_for_the_same(medium: Any, said: dict[str, Any], names: list[str]) -> None:
    """As an engine has filled in what depends on files."""
    seen: dict[str, Any] = {"max_sequence_length": 777, "notes": [], "num_frames": 9, "fps": 12.0}
    sized = {"width": 320, "height": 192, "resolution": None}
    planned = settled(said, medium)
    made = planned.model_copy(
        update=seen | sized if planned.action is None and planned.mode != "t2i" else {"max_sequence_length": 777}
    )
    found = read(document_of(made, medium, names))
    again = settled(json.loads(found.parameters.model_dump_json(exclude_unset=True)), medium, found.prompt)
    uris = iter(f"s3://my-bucket/{name}" for name in names)
    wanted = json.loads(made.model_dump_json())
    for part in (*((wanted["transfer"] or {}).get("controls") or {}).values(), wanted["action"] or {}):
        if part.get("path"):
            part["path"] = next(uris)
    # A longer prompt may be said beside the document: room is made for it anew.
    assert json.loads(again.model_dump_json()) == {**wanted, "maxSequenceLength": None, "notes": again.notes}
    assert found.input == (f"s3://my-bucket/in.{medium}" if medium else None)
    assert [found.origin.version_of(f"s3://my-bucket/{name}") for name in names] == names
    assert (found.origin.model, found.origin.revision, found.pipeline) == (
        "nvidia/Cosmos3-Nano",
        "1234",
        "cosmos3-nano",
    )


def test_every_mode_is_made_again() -> None:
    assert {settled(said, medium).mode for medium, said, _ in SAID} == set(MODES)  # type: ignore[arg-type]


def test_a_document_that_was_written_in_is_told() -> None:
    document = document_of(settled({"mode": "t2v"}), None, [])
    document["generation"]["seed"] = -1
    with pytest.raises(Failure, match=r"generation\.seed"):
        read(document)


@pytest.mark.parametrize(
    ("text", "told"),
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
def test_what_is_wrong_is_said(text: bytes, told: str) -> None:
    with pytest.raises(Failure) as raised:
        read_request_file(text)
    assert told in raised.value.error.message and raised.value.error.code == "InvalidInput"


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=8), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["prompt", "mode", "edge", "controls", "size", "resolution", "action", "parameters", "view_point"]), inner)))  # fmt: skip  # noqa: E501
def test_whatever_is_uploaded_is_a_request_or_refused(said: Any) -> None:
    try:
        read(said)
    except Failure as failure:
        assert failure.error.code == "InvalidInput"

"""Any request settles to a consistent generation, or is refused with a message and a remedy."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import (
    FRAME_LIMIT,
    MODES,
    SIZE_STEP,
    VIDEO_RESOLUTIONS,
    tier_of,
)
from cosmos_batch.catalogue.pipelines import GENERATORS, Pipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.serving import ParallelPlan, Serving
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.dimensions import fit_to_input
from cosmos_batch.planning.generation.memory import Workload, gib_per_gpu
from cosmos_batch.planning.generation.settling import settle

ROW = st.lists(st.floats(-2, 2), min_size=9, max_size=9)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "mode": st.sampled_from([*MODES, "text-to-video", "wam"]),
    "negative_prompt": st.sampled_from(["", "blurry", {"a": 1}]),
    "resolution": st.sampled_from(["256p", "480", 720, "768p", [320, 576]]),
    "aspect_ratio": st.sampled_from(["1:1", "16,9", "9/16"]),
    "width": st.sampled_from([0, 61, 64, 320, 832, 1280, 1360, 4096]),
    "height": st.sampled_from([0, 61, 64, 192, 480, 720, 768, 4096]),
    "num_frames": st.sampled_from([-1, 0, 1, 2, 5, 93, 189, 190, 200, 300, 400, 5000, 10_000]),
    "fps": st.sampled_from([0, 1, 23.976, 24, 60, 61]),
    "steps": st.sampled_from([0, 1, 35, 10_000]),
    "guidance_scale": st.sampled_from([-1, 0, 1, 6, 7.5, 21]),
    "flow_shift": st.sampled_from([0, 3, 10, 50]),
    "seed": st.sampled_from([-1, 0, 2**32 - 1, 2**32, 2**70]),
    "sound": st.booleans(),
    "guardrails": st.booleans(),
    "condition_frames": st.lists(st.integers(-1, 50), max_size=3),
    "condition_keep": st.sampled_from(["first", "last"]),
    "domain_name": st.sampled_from(["av", "camera_pose", "droid", "lawn_mower"]),
    "action_chunk_size": st.sampled_from([0, 3, 4, 16, 60, 296, 300]),
    "raw_action_dim": st.sampled_from([9, 10]),
    "view_point": st.sampled_from([0, "wrist_view"]),
    "action": st.lists(ROW, max_size=4) | st.just([[float("nan")] * 9] * 4),
    "action_path": st.just("s3://my-bucket/a.json"),
    "controls": st.dictionaries(
        st.sampled_from(["edge", "depth", "wsm"]),
        st.sampled_from([{}, {"path": "a.mp4"}, {"path": "a.mp4", "weight": 0}]),
    ),
    "control_guidance": st.sampled_from([0, 1.5, 11]),
    "frames_per_chunk": st.sampled_from([4, 5, 93, 101, 250]),
}
REQUESTS = st.lists(st.sampled_from(list(FIELDS)), max_size=6, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: FIELDS[name] for name in names})
)


@settings(max_examples=600)
@given(
    values=REQUESTS,
    prompt=st.sampled_from([None, "A robot.", {"fps": 24}]),
    pipeline=st.sampled_from(GENERATORS),
    medium=st.sampled_from([None, "image", "video"]),
    engine=st.sampled_from([*GENERATOR_ABILITIES, "my.module:Engine"]),
    max_resolution=st.sampled_from(VIDEO_RESOLUTIONS),
    guardrails=st.booleans(),
)
def test_any_request_is_settled_or_refused(
    values: Any, prompt: Any, pipeline: Pipeline, medium: Any, engine: str, max_resolution: Any, guardrails: bool
) -> None:
    plans = {"H200": ParallelPlan()}
    serving = Serving(engine=engine, guardrails=guardrails, max_resolution=max_resolution, plans=plans)
    try:
        parameters = read_generation_parameters(values)
    except Failure:
        return
    try:
        generation = settle(parameters, prompt, pipeline, medium, "job", serving)
    except Failure as failure:
        assert failure.error.code == "InvalidInput" and failure.error.message and failure.error.remedy
        return
    assert generation.mode in pipeline.modes
    assert medium is None or medium in MODES[generation.mode].inputs
    assert generation.guardrails <= guardrails and (engine != "phyai" or not generation.guardrails)
    assert gib_per_gpu(plans["H200"], pipeline, "vllm-omni", Workload.of(generation, guardrails)) <= 140.4
    sized = fit_to_input(generation, 1000, 700)
    if sized.size is not None:
        tier = tier_of(sized.size)
        assert tier is not None and not any(side % SIZE_STEP for side in sized.size)
        if generation.mode in ("t2v", "i2v", "v2v"):
            assert generation.num_frames is not None and generation.num_frames <= FRAME_LIMIT[tier]
    assert not MODES[generation.mode].action or sized.size is None

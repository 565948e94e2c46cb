"""A checkpoint with the switches of Cosmos3-Edge runs on the real vLLM-Omni."""

import asyncio
from pathlib import Path

from cosmos_batch.engines.job_files import GenerationFiles
from tests.support.generations import settled
from tests.support.generator_jobs import SHORT, SMALL, Files, video
from tests.support.tiny_generators import build_edge_generator


def test_an_image_becomes_a_video(tmp_path: Path, picture: Path) -> None:
    from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine

    engine = VllmOmniEngine()
    engine.guardrails = False
    engine.load(build_edge_generator(tmp_path))
    try:
        few = {**SHORT, **SMALL, "num_frames": 9}
        generation = settled(few, "image", guardrails=False, engine="vllm-omni", pipeline="cosmos3-edge")
        made = asyncio.run(engine.generate(generation, GenerationFiles(picture, {}), tmp_path))
        assert video(Files(made, tmp_path).video) == (64, 48, 9, 24, False)
    finally:
        engine.close()

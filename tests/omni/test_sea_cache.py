"""SeaCache on the real vLLM-Omni skips steps of a video; all steps are still counted."""

import asyncio
from pathlib import Path

from cosmos_batch.engines.job_files import GenerationFiles
from tests.support.generations import settled
from tests.support.generator_jobs import SHORT, SMALL, Files, video


def test_a_video_is_made_with_sea_cache(checkpoint: Path, tmp_path: Path) -> None:
    from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine

    engine = VllmOmniEngine()
    engine.guardrails, engine.lossy = False, ("seaCache",)
    engine.load(checkpoint)
    try:
        few = {**SHORT, **SMALL, "steps": 8, "num_frames": 9}
        generation = settled(few, guardrails=False, engine="vllm-omni")
        made = asyncio.run(engine.generate(generation, GenerationFiles(None, {}), tmp_path))
        assert video(Files(made, tmp_path).video) == (64, 48, 9, 24, False)
        assert any("sea" in line.lower() for line in engine.startup_logs)
    finally:
        engine.close()

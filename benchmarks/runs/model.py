"""Runs over clips of 2 s to 10 min with a real model on this machine: a plan beside the run that it was made for.

The model is the tiny checkpoint with random weights, with a real model's limits of pixels and frames. It runs in
vLLM's build for the CPU. A first run over other clips measures the pace that the plan of the second one uses.
Usage: `python -m benchmarks.runs.model [CLIPS [OTHER_CLIPS]]`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measurement import Measurement, told
from benchmarks.reasoner.true_shapes import allow_real_sizes
from benchmarks.results import measured
from benchmarks.runs.deployment import PATIENCE_SECONDS, RunsApp
from benchmarks.runs.mixed_clips import write_mixed_clips
from cosmos_batch.contract.run_keys import RESULTS
from cosmos_batch.contract.runs import RunSummary
from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.demo.tokenizer import write_json
from cosmos_batch.planning.configuration import parse_config
from cosmos_batch.planning.runs.estimate import RunEstimate
from tests.support.deployed_app import QUICK, TWO_B, running_app, wait_for

ENGINE = "benchmarks.runs.cpu_engine:CpuEngine"
CLIPS, OTHER_CLIPS = 300, 100
RESULT = "runs-model"
SEED, OTHER_SEED = 17, 18
CONTEXT = 28_672  # tokens: a clip has at most 18,432, so that none is scaled down for the context
PROMPT = "What happens?"
# vLLM 0.32 ends with "CPU Generator does not use offset" where an answer is drawn with a seed on a CPU.
SAMPLING = ["--max-tokens", "32", "--temperature", "0"]
LIMIT = 0.15  # the share by which a plan may differ from what was measured


def measure(clips: int, other_clips: int) -> list[Measurement]:
    """Run over the other clips, plan the run over the clips, and compare that with the run."""
    with _deployed() as runs_app:
        _upload(runs_app, "other", other_clips, OTHER_SEED)
        lengths = _upload(runs_app, "clips", clips, SEED)
        before = _run(runs_app, "other")
        plan = _plan(runs_app, "clips")
        summary = _run(runs_app, "clips")
        items = _items(runs_app, "clips", lengths)
    [part] = plan.pipelines
    seconds = (summary.ended_at - summary.started_at).total_seconds()
    return [
        Measurement(
            name=f"a run of {clips:,} clips of 2 s to 10 min with the tiny model",
            value=f"{summary.succeeded:,} answers in {seconds:.0f} s, {summary.prompt_tokens:,} tokens of prompts",
            limit="each clip once",
            met=summary.succeeded == clips and len(items) == clips,
            raw={"summary": summary.model_dump(mode="json"), "before": before.model_dump(mode="json"), "items": items},
        ),
        _compared("its time, by the plan", plan.hours * 3600, seconds, {"plan": plan.model_dump(mode="json")}),
        _compared("its time in the engine, by the plan", part.gpu_hours * 3600, summary.gpu_seconds, {}),
    ]


def _compared(name: str, planned: float, taken: float, raw: dict[str, Any]) -> Measurement:
    off = planned / taken - 1
    return Measurement(
        name=name,
        value=f"{planned:.0f} s; it took {taken:.0f} s ({off:+.1%})",
        limit=f"within {LIMIT:.0%}",
        met=abs(off) <= LIMIT,
        raw={"planned": planned, "taken": taken, **raw},
    )


@contextmanager
def _deployed() -> Iterator[RunsApp]:
    """Deploy one pipeline with one worker, which leaves between the runs, as the plan assumes."""
    with tempfile.TemporaryDirectory() as folder:
        model = {"enabled": True, "engine": ENGINE, "model": str(_model(Path(folder))), "maxVCpus": 12}
        block = {"enabled": True, "modelsReason": {"reason2B": model}}
        clocks = {**QUICK, "worker": {"idleSeconds": 30}, "scaling": {}, "uploadGraceSeconds": 0}
        config = parse_config(json.dumps({"app": {"pipelines": {"useNvidiaCosmos": block}, "cosmosBatch": clocks}}))
        with running_app(Path(folder), config) as app:
            yield RunsApp(app, items=0)


def _model(folder: Path) -> Path:
    model = build_random_checkpoint(folder)
    allow_real_sizes(model)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config["text_config"]["max_position_embeddings"] = CONTEXT
    write_json(model / "config.json", config)
    return model


def _upload(runs_app: RunsApp, name: str, count: int, seed: int) -> dict[str, float]:
    folder = runs_app.app.folder / name
    lengths = write_mixed_clips(folder, count, seed)
    for clip in folder.iterdir():
        runs_app.app.client("s3").upload_file(str(clip), runs_app.app.assets, f"{name}/{clip.name}")
    return lengths


def _question(runs_app: RunsApp, name: str) -> list[str]:
    return [f"s3://{runs_app.app.assets}/{name}/", "--prompt", PROMPT, *SAMPLING]


def _plan(runs_app: RunsApp, name: str) -> RunEstimate:
    return RunEstimate.model_validate_json(runs_app.command_output("plan", *_question(runs_app, name), "--json"))


def _run(runs_app: RunsApp, name: str) -> RunSummary:
    """Do a run over the clips of a folder, and wait until its worker has left."""
    runs_app.run_command("start", *_question(runs_app, name), "--name", name, "--yes")
    runs_app.wait_until_ended(name)
    summary = runs_app.objects(name).summary()
    assert summary is not None and summary.state == "SUCCEEDED", summary
    wait_for(lambda: not runs_app.app.live_workers(TWO_B), PATIENCE_SECONDS, "the worker has not left")
    return summary


def _items(runs_app: RunsApp, name: str, lengths: Mapping[str, float]) -> list[list[float]]:
    """Return the length in seconds, the tokens and the engine's seconds of each clip."""
    return [
        [round(lengths[Path(line.id).name], 2), line.usage.prompt_tokens, line.gpu_seconds]
        for line in runs_app.objects(name).lines(RESULTS)
        if line.usage is not None and line.gpu_seconds is not None
    ]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runs.model", description=__doc__)
    parser.add_argument("clips", type=int, nargs="?", default=CLIPS)
    parser.add_argument("other_clips", type=int, nargs="?", default=OTHER_CLIPS, help="those of the first run")
    return parser.parse_args(arguments)


def main() -> int:
    """Run the benchmark, store the results, and return 1 if a limit is not met, else 0."""
    asked = parse(sys.argv[1:])
    results = measured(lambda: measure(asked.clips, asked.other_clips))
    results.keep(RESULT if asked.clips == CLIPS else f"{RESULT}-{asked.clips}")
    return told(results.measured)


if __name__ == "__main__":
    sys.exit(main())

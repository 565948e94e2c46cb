"""Cosmos Framework as a resident group: the reasoner of a Cosmos 3 model, or its generator.

A request is `{"sample": ..., "folder": ..., "guardrails": ..., "system_prompt": ...}`: a sample as the framework reads
it from a file, and where its files go; the system prompt, or null, is a generator's. The answer is `{"content": ...,
"files": [...], "checks": {...}}` of the one output, with the verdicts of the guardrails that looked at it.
"""

import argparse
import os
from pathlib import Path
from typing import Any

from cosmos_batch.engines.strict_guardrails import GuardrailFailed, make_strict
from cosmos_batch.engines.torchrun.driver import Blocked, Body, WorkFailed, serve

VAE = "COSMOS_WAN_VAE"  # path of Wan2.2_VAE.pth, which is in no checkpoint; without it, it is asked of the Hub
_SOUND = "sound_tokenizer"
_BLOCKED = {"Guardrail blocked prompt": "prompt", "Guardrail blocked video": "output"}


def main() -> None:
    """Load, then serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--generator", action="store_true")
    parser.add_argument("--guardrails", action="store_true")
    parser.add_argument("--guardrail-files")
    for axis in ("tp", "cfg", "ulysses"):
        parser.add_argument(f"--{axis}", type=int, default=1)
    given = parser.parse_args()

    from cosmos_framework.inference.common.init import init_script, is_rank0

    init_script()  # before anything else of the framework is imported; it joins the group
    serve(Framework(given), given.socket, is_rank0())


class Framework:
    """A `Resident`."""

    def __init__(self, given: argparse.Namespace) -> None:
        from cosmos_framework.inference.args import OmniSetupOverrides

        scratch = Path(given.scratch)
        setup = OmniSetupOverrides(
            checkpoint_path=_view(Path(given.checkpoint), scratch) if given.generator else given.checkpoint,
            output_dir=scratch,
            keep_going=True,  # a sample that fails is told; it ends nothing
            guardrails=given.guardrails,
            diffusion_cache=False,  # it trades quality for speed, and the framework's command has it on
            **(_sharing(given) if given.generator else {"parallelism_preset": "throughput"}),
        ).build_setup()
        if not given.generator:
            setup.experiment_overrides.append("model.config.load_vision_tokenizer=false")
        elif vae := os.environ.get(VAE):
            setup.experiment_overrides += [
                "model.config.tokenizer.bucket_name=''",
                f"model.config.tokenizer.vae_path={vae}",
            ]
        if given.guardrail_files:
            from cosmos_framework.auxiliary.guardrail.common.core import GUARDRAIL1_CHECKPOINT

            # As if fetched: it starts `uv` for that, which asks its own registry even where the Hub is not asked.
            GUARDRAIL1_CHECKPOINT._path = given.guardrail_files
        self.steps = 0
        self._samples = setup.get_sample_overrides_cls()
        self._pipe = setup.get_inference_cls().create(setup)
        self._guardrails = self._pipe.guardrails
        self._verdicts: dict[str, str] = {}  # of the work under way
        if self._guardrails is not None:
            make_strict(self._guardrails.text, self._guardrails.video, self._verdicts.__setitem__)
        self._count_steps()
        if given.generator:
            self._have_a_system_prompt()
        from cosmos_framework.utils import log

        log.logger.remove()  # from here on it would write down prompts

    def check(self, body: Body) -> None:
        """By the framework's own model of arguments, and its guardrail for prompts: by itself it asks that at last."""
        arguments = self._arguments(body)
        if body["guardrails"]:
            self._check_prompt(arguments.prompt)

    def work(self, body: Body) -> Body | None:
        """Every process enters. The first has the output."""
        self._verdicts.clear()
        self._pipe.guardrails = self._guardrails if body["guardrails"] else None
        self._system_prompt = body.get("system_prompt")
        outputs = self._pipe.generate([self._arguments(body)])
        if not outputs:  # of a process that shares the work of another
            return None
        output = outputs[0]
        if output.status == "success":
            made = output.outputs[0]
            files = [str(path) for path in made.files]
            return {"content": made.content, "files": files, "checks": dict(self._verdicts)}
        for words, what in _BLOCKED.items():
            if words in output.message:  # which quotes the prompt
                raise Blocked(what)
        raise WorkFailed(output.message)

    def _check_prompt(self, prompt: str) -> None:
        from cosmos_framework.auxiliary.guardrail.common import presets

        try:
            if not presets.run_text_guardrail(prompt, self._guardrails.text):
                raise Blocked("prompt")
        except GuardrailFailed as error:
            raise WorkFailed(str(error)) from error

    def _arguments(self, body: Body) -> Any:
        overrides = self._samples.model_validate(body["sample"])
        overrides.output_dir = Path(body["folder"])
        return overrides.build_sample(model_config=self._pipe.model_config)

    def _count_steps(self) -> None:
        """Of the generator. In each it predicts velocities for one timestep, one to three, and says nothing of it."""
        model = self._pipe.model
        predict, last = model._get_velocity, None

        def counted(*arguments: Any, timestep: Any, **options: Any) -> Any:
            nonlocal last
            if timestep is not last:
                last = timestep
                self.steps += 1
            return predict(*arguments, timestep=timestep, **options)

        model._get_velocity = counted

    def _have_a_system_prompt(self) -> None:
        """Diffusers has one in all modes but actions, the framework in transfer alone, which keeps its own."""
        model = self._pipe.model
        tokens = model._get_inference_text_tokens

        def told(batch: Body, has_negative_prompt: bool) -> Any:
            return tokens({"system_prompt": self._system_prompt, **batch}, has_negative_prompt)

        model._get_inference_text_tokens = told


def _view(checkpoint: Path, scratch: Path) -> str:
    """The checkpoint as links: the framework writes a form of its own of the sound's weights beside them, which others
    read."""
    from cosmos_framework.inference.common.init import is_rank0

    view = scratch / "checkpoint"
    if is_rank0():
        (view / _SOUND).mkdir(parents=True)
        for path in (*checkpoint.iterdir(), *(checkpoint / _SOUND).glob("*")):
            if path.name != _SOUND:
                (view / path.relative_to(checkpoint)).symlink_to(path.resolve())
    import torch

    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    return str(view)


def _sharing(given: argparse.Namespace) -> dict[str, Any]:
    """Weights that are shared are shared by all processes, which can share the job too: the framework's own way."""
    if given.tp > 1:
        return {"parallelism_preset": "latency"}
    return {
        "parallelism_preset": "throughput",
        "dp_shard_size": 1,
        "cfgp_size": given.cfg,
        "cp_size": given.ulysses,
    }


if __name__ == "__main__":
    main()

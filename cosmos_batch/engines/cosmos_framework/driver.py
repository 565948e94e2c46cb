"""Serves Cosmos Framework from a torchrun group, with the reasoner of a Cosmos 3 model or its generator.

A request is `{"sample": ..., "folder": ..., "guardrails": ..., "system_prompt": ...}`: a sample as the framework
reads it from a file, the folder for its files, whether guardrails check it, and a generator's system prompt or null.
The answer is `{"content": ..., "files": [...], "checks": {...}}` of the one output, with the verdicts of the
guardrails.
"""

import argparse
import os
from pathlib import Path
from typing import Any

from cosmos_batch.engines.strict_guardrails import GuardrailFailed, make_strict
from cosmos_batch.engines.torchrun.driver import Blocked, Body, WorkFailed, end_with_torchrun, serve

VAE = "COSMOS_WAN_VAE"  # variable with the path of Wan2.2_VAE.pth, which no checkpoint has; unset: download it
_SOUND = "sound_tokenizer"
_BLOCKED = {"Guardrail blocked prompt": "prompt", "Guardrail blocked video": "output"}


def main() -> None:
    """Load the model, then serve until killed."""
    end_with_torchrun()
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--generator", action="store_true")
    parser.add_argument("--guardrails", action="store_true")
    parser.add_argument("--guardrail-files")
    for axis in ("tp", "cfg", "ulysses"):
        parser.add_argument(f"--{axis}", type=int, default=1)
    arguments = parser.parse_args()

    from cosmos_framework.inference.common.init import init_script, is_rank0

    init_script()  # joins the group; must run before anything else of the framework is imported
    serve(Framework(arguments), arguments.socket, is_rank0())


class Framework:
    """A `GroupModel` on NVIDIA's Cosmos Framework."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from cosmos_framework.inference.args import OmniSetupOverrides

        scratch = Path(arguments.scratch)
        setup = OmniSetupOverrides(
            checkpoint_path=_view(Path(arguments.checkpoint), scratch) if arguments.generator else arguments.checkpoint,
            output_dir=scratch,
            keep_going=True,  # a sample that fails is reported and does not end the process
            guardrails=arguments.guardrails,
            diffusion_cache=False,  # the framework's command has it on by default; it trades quality for speed
            **(_parallelism(arguments) if arguments.generator else {"parallelism_preset": "throughput"}),
        ).build_setup()
        if not arguments.generator:
            setup.experiment_overrides.append("model.config.load_vision_tokenizer=false")
        elif vae := os.environ.get(VAE):
            setup.experiment_overrides += [
                "model.config.tokenizer.bucket_name=''",
                f"model.config.tokenizer.vae_path={vae}",
            ]
        if arguments.guardrail_files:
            from cosmos_framework.auxiliary.guardrail.common.core import GUARDRAIL1_CHECKPOINT

            # As if downloaded: to download, the framework starts `uv`, which contacts a package registry even offline.
            GUARDRAIL1_CHECKPOINT._path = arguments.guardrail_files
        self.steps = 0
        self._samples = setup.get_sample_overrides_cls()
        self._pipe = setup.get_inference_cls().create(setup)
        self._guardrails = self._pipe.guardrails
        self._verdicts: dict[str, str] = {}  # the guardrails' verdicts on the current work
        if self._guardrails is not None:
            make_strict(self._guardrails.text, self._guardrails.video, self._verdicts.__setitem__)
        self._count_steps()
        if arguments.generator:
            self._add_system_prompt()
        from cosmos_framework.utils import log

        log.logger.remove()  # from here on it would log prompts

    def check(self, body: Body) -> None:
        """Check a request with the framework's argument model and its guardrail for prompts.

        The framework itself asks the guardrail only after the work.
        """
        arguments = self._arguments(body)
        if body["guardrails"]:
            self._check_prompt(arguments.prompt)

    def read(self, body: Body) -> Any:
        """Return the framework's arguments, which must name files that are there. It opens them while it works."""
        return self._arguments(body)

    def work(self, body: Body, inputs: Any) -> Body | None:
        """Generate one sample; the first process has the output."""
        self._verdicts.clear()
        self._pipe.guardrails = self._guardrails if body["guardrails"] else None
        self._system_prompt = body.get("system_prompt")
        outputs = self._pipe.generate([inputs])
        if not outputs:  # this process only shares the work of the first
            return None
        output = outputs[0]
        if output.status == "success":
            result = output.outputs[0]
            files = [str(path) for path in result.files]
            return {"content": result.content, "files": files, "checks": dict(self._verdicts)}
        for words, subject in _BLOCKED.items():
            if words in output.message:  # the message itself quotes the prompt
                raise Blocked(subject)
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
        """Count a generator's steps: in each it predicts velocities one to three times for one timestep.

        The framework has no callback for them.
        """
        model = self._pipe.model
        predict, last = model._get_velocity, None

        def counted(*arguments: Any, timestep: Any, **options: Any) -> Any:
            nonlocal last
            if timestep is not last:
                last = timestep
                self.steps += 1
            return predict(*arguments, timestep=timestep, **options)

        model._get_velocity = counted

    def _add_system_prompt(self) -> None:
        """Put the system prompt before each prompt, as Diffusers does in all modes but actions.

        The framework has one in transfer alone, and keeps that.
        """
        model = self._pipe.model
        tokens = model._get_inference_text_tokens

        def with_system_prompt(batch: Body, has_negative_prompt: bool) -> Any:
            return tokens({"system_prompt": self._system_prompt, **batch}, has_negative_prompt)

        model._get_inference_text_tokens = with_system_prompt


def _view(checkpoint: Path, scratch: Path) -> str:
    """Return a folder of links to the checkpoint's files: the framework writes converted weights of the sound tokenizer
    beside the originals, which other workers read."""
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


def _parallelism(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the framework's settings for sharing a job among GPUs.

    With `--tp` above 1, its preset for latency shards the weights over all processes, which then share each job too.
    """
    if arguments.tp > 1:
        return {"parallelism_preset": "latency"}
    return {
        "parallelism_preset": "throughput",
        "dp_shard_size": 1,
        "cfgp_size": arguments.cfg,
        "cp_size": arguments.ulysses,
    }


if __name__ == "__main__":
    main()

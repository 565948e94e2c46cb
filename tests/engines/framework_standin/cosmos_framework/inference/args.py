"""A stand-in for Cosmos Framework on machines without a GPU: the part that our driver uses, with the framework's names.

Samples are validated with the schema of the framework's argument model from the records, and every process of the group
must take part in a generation. Words in a prompt change its behavior: `die` kills the last process, `fail` fails the
sample, `starve` fails it with an out-of-memory error, and the guardrail for videos refuses `unsafe picture`. A reasoner
answers with what it saw. The variable `COSMOS_STANDIN_REFUSES` makes the load fail.
"""

import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from jsonschema import Draft202012Validator
from PIL import Image

from cosmos_framework.auxiliary.guardrail.common.core import GuardrailRunner
from cosmos_framework.inference.making import make
from tests.support.guardrail_runners import VideoRunner

ENGINES = Path(__file__).parents[3]
REASONERS = json.loads((ENGINES / "framework_standin" / "samples.json").read_text())["schema"]
GENERATORS = json.loads((ENGINES / "generator" / "argument_models" / "framework.json").read_text())["schema"]


class OmniSampleOverrides:
    """A sample before it is checked against the model."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.output_dir: Path | None = None

    @classmethod
    def model_validate(cls, values: dict[str, Any]) -> "OmniSampleOverrides":
        schema = REASONERS if values["model_mode"] == "reasoner" else GENERATORS
        for error in Draft202012Validator(schema).iter_errors(values):
            raise ValueError(f"{error.json_path}: {error.message}")
        if "vision_path" in values and not Path(values["vision_path"]).is_file():
            raise ValueError("Path does not point to a file")
        return cls(values)

    def build_sample(self, *, model_config: Any) -> SimpleNamespace:
        assert model_config == "config" and self.output_dir is not None
        if self.values["model_mode"] == "reasoner" and not self.values["prompt"].strip():
            raise ValueError("Reasoner inference requires a non-empty 'prompt'.")
        if "defaults_file" in self.values:
            assert json.loads(Path(self.values["defaults_file"]).read_text()) == {}
        return SimpleNamespace(**self.values, output_dir=self.output_dir)


class Pipe:
    """A stand-in for the loaded model."""

    model_config = "config"
    loaded = 0

    def __init__(self, setup: Any) -> None:
        self.guardrails = SimpleNamespace(text=GuardrailRunner(), video=VideoRunner()) if setup.guardrails else None
        self.model = SimpleNamespace(
            _get_velocity=lambda **_: None, _get_inference_text_tokens=lambda batch, _negative: batch
        )
        self.plan = setup.plan

    @classmethod
    def create(cls, setup: Any) -> "Pipe":
        if os.environ.get("COSMOS_STANDIN_REFUSES"):
            raise RuntimeError("CUDA out of memory")
        cls.loaded += 1
        if setup.experiment_overrides and "vae_path" in setup.experiment_overrides[-1]:
            print(f"VAE: {setup.experiment_overrides}", flush=True)
        sound = Path(setup.checkpoint_path) / "sound_tokenizer"
        if sound.is_dir():  # the framework writes another form of the sound weights beside them
            assert (sound / "config.json").read_text() and (sound.parent / "model_index.json").is_file()
            (sound / "legacy.ckpt").write_text("weights")
        print(f"loaded {setup.checkpoint_path} {setup.plan} guardrails {setup.guardrails}", flush=True)
        return cls(setup)

    def generate(self, samples: list[SimpleNamespace]) -> list[SimpleNamespace]:
        [sample] = samples
        if "die" in sample.prompt and int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        entered = self._all_enter()
        if "starve" in sample.prompt:
            return [SimpleNamespace(status="error", message="CUDA out of memory. Tried to allocate 20 GiB", outputs=[])]
        if "fail" in sample.prompt:
            return [SimpleNamespace(status="error", message="Error generating sample", outputs=[])]
        if sample.model_mode == "reasoner":
            return [_output(*_read(sample, entered, self.loaded))]
        if self.guardrails and "unsafe picture" in sample.prompt:
            message = f"Error generating sample 'sample': Guardrail blocked video 'sample': {sample.prompt}"
            return [SimpleNamespace(status="error", message=message, outputs=[])]
        self._read(sample)
        for step in range(sample.num_steps):
            timestep = [step]
            for _branch in ("cond", "uncond"):
                self.model._get_velocity(net=None, timestep=timestep)
                time.sleep(float(os.environ.get("COSMOS_STANDIN_SLOW", "0")))
        if os.environ.get("RANK", "0") != "0":  # only the first process returns the output
            return []
        try:
            self._guard(sample)
        except Exception as error:
            return [SimpleNamespace(status="error", message=f"Error generating sample 'sample': {error}", outputs=[])]
        return [_output(*make(sample))]

    def _guard(self, sample: SimpleNamespace) -> None:
        """Have the guardrails check the prompt and the frames, after the generation as in the framework."""
        if self.guardrails and "never looked" not in sample.prompt:
            assert self.guardrails.text.run_safety_check(sample.prompt)[0]
            self.guardrails.video.broken = "broken" in sample.prompt
            self.guardrails.video.postprocess(np.zeros((1, 32, 32, 3), np.uint8))

    def _read(self, sample: SimpleNamespace) -> None:
        """Check that our driver adds a system prompt in the modes in which Diffusers has one."""
        own = {"system_prompt": "its own"} if any(hasattr(sample, hint) for hint in ("edge", "blur", "depth")) else {}
        kinds = {"text2image": "images", "text2video": "videos", "image2video": "videos", "video2video": "videos"}
        usual = kinds.get(sample.model_mode)
        expected = usual and f"You are a helpful assistant who will generate {usual} from a give prompt."
        system_prompt = self.model._get_inference_text_tokens(own, True)["system_prompt"]
        assert system_prompt == own.get("system_prompt", expected), system_prompt

    def _all_enter(self) -> int:
        import torch

        if not torch.distributed.is_initialized():
            return 1
        count = torch.ones(1)
        torch.distributed.all_reduce(count)
        return int(count.item())


def _read(sample: SimpleNamespace, entered: int, loaded: int) -> tuple[dict[str, Any], list[Path]]:
    with Image.open(sample.vision_path) as image:
        answer = f"{entered} processes, load {loaded}, saw {image.size}: {sample.prompt}"
    return {"reasoner_text": " ".join(answer.split()[: sample.max_new_tokens])}, []


def _output(content: dict[str, Any], files: list[Path]) -> SimpleNamespace:
    return SimpleNamespace(status="success", outputs=[SimpleNamespace(content=content, files=files)])


class OmniSetupOverrides:
    """The setup parameters that the driver sets."""

    def __init__(
        self,
        *,
        checkpoint_path: str,
        output_dir: Path,
        keep_going: bool,
        guardrails: bool,
        diffusion_cache: bool,
        **plan: Any,
    ) -> None:
        assert keep_going and output_dir and not diffusion_cache
        self.checkpoint_path, self.guardrails, self.plan = checkpoint_path, guardrails, plan

    def build_setup(self) -> SimpleNamespace:
        return SimpleNamespace(
            checkpoint_path=self.checkpoint_path,
            guardrails=self.guardrails,
            plan=self.plan,
            experiment_overrides=[],
            get_inference_cls=lambda: Pipe,
            get_sample_overrides_cls=lambda: OmniSampleOverrides,
        )

"""A stand-in for Cosmos Framework where there is no GPU: what our driver uses of it, in the framework's own names.

Samples are held to the framework's argument model as `samples.json` has it, and every process of the group must enter
a generation. A prompt with `die` ends the last process, one with `fail` is told as failed; others are answered by what
was seen. `COSMOS_STANDIN_REFUSES` makes the load fail.
"""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jsonschema import Draft202012Validator
from PIL import Image

SCHEMA = json.loads((Path(__file__).parents[2] / "samples.json").read_text())["schema"]


class OmniSampleOverrides:
    """One sample, not checked against a model yet."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.output_dir: Path | None = None

    @classmethod
    def model_validate(cls, values: dict[str, Any]) -> "OmniSampleOverrides":
        for error in Draft202012Validator(SCHEMA).iter_errors(values):
            raise ValueError(f"{error.json_path}: {error.message}")
        if not Path(values["vision_path"]).is_file():
            raise ValueError("Path does not point to a file")
        return cls(values)

    def build_sample(self, *, model_config: Any) -> SimpleNamespace:
        assert model_config == "config" and self.output_dir is not None
        if not self.values["prompt"].strip():
            raise ValueError("Reasoner inference requires a non-empty 'prompt'.")
        return SimpleNamespace(**self.values, output_dir=self.output_dir)


class Pipe:
    """A model that is resident."""

    model_config = "config"
    loaded = 0

    @classmethod
    def create(cls, setup: Any) -> "Pipe":
        if os.environ.get("COSMOS_STANDIN_REFUSES"):
            raise RuntimeError("CUDA out of memory")
        assert "model.config.load_vision_tokenizer=false" in setup.experiment_overrides
        cls.loaded += 1
        print(f"loaded {setup.checkpoint_path}", flush=True)
        return cls()

    def generate(self, samples: list[SimpleNamespace]) -> list[SimpleNamespace]:
        [sample] = samples
        if "die" in sample.prompt and int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        entered = self._all_enter()
        if "fail" in sample.prompt:
            return [SimpleNamespace(status="error", message="Error generating sample", outputs=[])]
        with Image.open(sample.vision_path) as image:
            said = f"{entered} processes, load {self.loaded}, saw {image.size}: {sample.prompt}"
        text = " ".join(said.split()[: sample.max_new_tokens])
        return [SimpleNamespace(status="success", outputs=[SimpleNamespace(content={"reasoner_text": text})])]

    def _all_enter(self) -> int:
        import torch

        if not torch.distributed.is_initialized():
            return 1
        count = torch.ones(1)
        torch.distributed.all_reduce(count)
        return int(count.item())


class OmniSetupOverrides:
    """What the driver sets."""

    def __init__(self, **given: Any) -> None:
        assert given.keys() == {"checkpoint_path", "output_dir", "keep_going", "guardrails", "parallelism_preset"}
        self.given = given

    def build_setup(self) -> SimpleNamespace:
        return SimpleNamespace(
            **self.given,
            experiment_overrides=[],
            get_inference_cls=lambda: Pipe,
            get_sample_overrides_cls=lambda: OmniSampleOverrides,
        )

"""Train the demo model for a number of minutes: `python -m training.train OUT --minutes 9 [--start FOLDER]`.

A stage starts from a checkpoint's weights alone, or from nothing, and ends with a checkpoint. How fast the learning
rate falls follows from the clock, so that a stage takes the time that it was given on any machine.

Beside the answers, the vision encoder learns to predict what lies in each cell of the picture, through a head that is
discarded after the training. Without it the encoder takes many times as long to learn.
"""

import argparse
import json
import math
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from cosmos_batch.demo.scenes import COLOURS, KINDS
from training.examples import IGNORED, KIND_NAMES, Batch, Examples, Mix
from training.model import Reasoner
from training.tokens import load_tokenizer, make_tokenizer, model_config, write_checkpoint_files

_DECAY = 0.05
_BETAS = (0.9, 0.98)
_CLIP = 1.0
_AVERAGE = 0.999  # of the weights that are kept, an average over about so many steps
_AID = 0.3  # weight of what the cells teach
_REPORT_SECONDS = 15


@dataclass(frozen=True)
class Phase:
    """A part of a stage: the share of the stage's time at which it ends, and the mix of examples."""

    until: float
    mix: Mix


# From nothing, pictures come first: a thousand of them take as long as a hundred clips.
CURRICULA = {
    "from-nothing": (
        Phase(0.22, Mix(images=1.0, longest=3.0, questions=6)),
        Phase(0.45, Mix(images=0.3, longest=3.5, questions=8)),
        Phase(1.0, Mix(images=0.15, longest=6.0, questions=10)),
    ),
    "go-on": (Phase(1.0, Mix(images=0.15, longest=6.0, questions=10)),),
}


class Aid(nn.Module):
    """An auxiliary head that predicts color, shape, box and velocity of each vision token's cell."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.colour = nn.Linear(width, len(COLOURS) + 1)
        self.shape = nn.Linear(width, len(KINDS) + 1)
        self.place = nn.Linear(width, 6)

    def forward(self, tokens: Tensor, batch: Batch) -> Tensor:
        """Return the loss, a scalar."""
        tokens = tokens.float()
        something = batch.colours > 0
        loss = functional.cross_entropy(self.colour(tokens).flatten(0, 1), batch.colours.flatten())
        loss = loss + functional.cross_entropy(self.shape(tokens).flatten(0, 1), batch.shapes.flatten())
        if something.any():
            loss = loss + functional.smooth_l1_loss(self.place(tokens[something]), batch.places[something])
        return loss


def visible(segments: Tensor) -> Tensor:
    """Return a mask, True where a token (row) attends to another (column): earlier ones of the media and of its
    question.

    Returns [clips, 1, length, length].
    """
    length = segments.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool, device=segments.device).tril()
    own = (segments[:, :, None] == segments[:, None, :]) | (segments[:, None, :] == 0)
    return (earlier & own)[:, None]


def disturb(frames: Tensor) -> Tensor:
    """Change pixels as encoders and cameras do: coarser colors, another exposure, a little noise. Runs on the GPU."""
    x = frames.permute(0, 1, 4, 2, 3).float()
    clips = x.shape[0]
    device = x.device

    def per_clip(low: float, high: float) -> Tensor:
        return torch.empty(clips, 1, 1, 1, 1, device=device).uniform_(low, high)

    grey = x.mean(dim=2, keepdim=True)
    colour = (x - grey).flatten(0, 1)
    coarse = functional.interpolate(functional.avg_pool2d(colour, 2), scale_factor=2, mode="bilinear")
    chosen = (torch.rand(clips, 1, 1, 1, 1, device=device) < 0.6).float()
    x = grey + chosen * coarse.view_as(x) + (1 - chosen) * colour.view_as(x)
    x = (x - 128) * per_clip(0.9, 1.08) + 128 + per_clip(-10, 10)
    x = x + torch.randn_like(x) * per_clip(0, 3)
    return x.round().clamp(0, 255).to(torch.uint8).permute(0, 1, 3, 4, 2)


@dataclass
class Tally:
    """Counts of wholly right answers by kind, since the last report."""

    right: Tensor
    counted: Tensor
    losses: list[Tensor] = field(default_factory=list)
    aids: list[Tensor] = field(default_factory=list)
    clips: int = 0

    @classmethod
    def start(cls, device: torch.device) -> "Tally":
        """Reset all counts."""
        zeros = torch.zeros(len(KIND_NAMES), device=device)
        return cls(zeros, zeros.clone())

    def add(self, batch: Batch, wrong: Tensor, learnt: Tensor) -> None:
        """Count the questions of which no learnt token was predicted wrongly."""
        questions = int(batch.segments.max()) + 1
        clips = torch.arange(len(batch.segments), device=wrong.device)[:, None].expand_as(batch.segments)[learnt]
        number = clips * questions + batch.segments[learnt]
        total = len(batch.segments) * questions
        errors = torch.zeros(total, device=wrong.device).index_add(0, number, wrong.float())
        kind = torch.full((total,), -1, device=wrong.device).index_copy(0, number, batch.kinds[learnt])
        for one in range(len(KIND_NAMES)):
            mine = kind == one
            self.counted[one] += mine.sum()
            self.right[one] += (mine & (errors == 0)).sum()

    def line(self) -> str:
        """Return a line of text with the accuracies."""
        shares = (self.right / self.counted.clamp(min=1)).tolist()
        parts = [f"{name} {share:.3f}" for name, share in zip(KIND_NAMES, shares, strict=True)]
        loss, aid = float(torch.stack(self.losses).mean()), float(torch.stack(self.aids).mean())
        return f"loss {loss:.4f}, cells {aid:.4f}; right: {', '.join(parts)}"


class Trainer:
    """The training loop of one stage."""

    def __init__(self, start: Path | None, encoder: Tokenizer, rate: float, compiled: bool) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.config = model_config(encoder)
        self.model = Reasoner(self.config)
        self.goes_on = start is not None
        if start is not None:
            self.model.load_state_dict(load_weights(start))
        self.aid = Aid(self.config["text_config"]["hidden_size"])
        self.model.to(self.device)
        self.aid.to(self.device)
        self.average = {name: one.detach().clone() for name, one in self.model.state_dict().items()}
        self.rate = rate
        decayed = [one for one in self.model.parameters() if one.ndim > 1]
        others = [one for one in [*self.model.parameters(), *self.aid.parameters()] if one.ndim <= 1]
        aid = [one for one in self.aid.parameters() if one.ndim > 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed + aid, "weight_decay": _DECAY}, {"params": others, "weight_decay": 0.0}],
            lr=rate,
            betas=_BETAS,
            fused=self.device.type == "cuda",
        )
        if compiled:
            for layer in [*self.model.model.visual.blocks, *self.model.model.language_model.layers]:
                layer.compile(dynamic=True)

    def step(self, batch: Batch, share: float, warm: float, tally: Tally) -> None:
        """Train on one batch at a share of the stage's time. `warm` is the warm-up factor of the learning rate."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate * warm * (0.02 + 0.98 * (1 + math.cos(math.pi * share)) / 2)
        with torch.autocast(self.device.type, torch.bfloat16):
            hidden, tokens = self.model(
                disturb(batch.frames), batch.ids, batch.positions, visible(batch.segments), batch.seen
            )
            learnt = batch.labels != IGNORED
            logits = self.model.logits(hidden[learnt])
        loss = functional.cross_entropy(logits.float(), batch.labels[learnt])
        # The head of a later stage is new: it learns before the encoder learns from it.
        aid = self.aid(tokens.detach() if self.goes_on and warm < 1.0 else tokens, batch)
        self.optimizer.zero_grad(set_to_none=True)
        (loss + _AID * aid).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), _CLIP)
        self.optimizer.step()
        with torch.no_grad():
            pairs = [(self.average[name], one) for name, one in self.model.state_dict().items()]
            decay = min(_AVERAGE, 0.9 + share)
            torch._foreach_lerp_([one for one, _ in pairs], [one for _, one in pairs], 1 - decay)
            tally.add(batch, logits.argmax(-1) != batch.labels[learnt], learnt)
        tally.losses.append(loss.detach())
        tally.aids.append(aid.detach())
        tally.clips += len(batch.frames)


def load_weights(folder: Path) -> dict[str, Tensor]:
    """Load the weights of a checkpoint in float32."""
    return {name: one.float() for name, one in load_file(folder / "model.safetensors").items()}


def save(folder: Path, encoder: Tokenizer, weights: dict[str, Tensor]) -> None:
    """Write a whole checkpoint. Its weights appear last and at once: a folder that has them is finished."""
    folder.mkdir(parents=True, exist_ok=True)
    write_checkpoint_files(folder, encoder)
    half = {name: one.detach().to("cpu", torch.bfloat16).contiguous() for name, one in weights.items()}
    unfinished = folder / "model.safetensors.unfinished"
    save_file(half, unfinished, metadata={"format": "pt"})
    unfinished.replace(folder / "model.safetensors")


def batches(mix: Mix, seed: int, encoder: Tokenizer, workers: int) -> Iterator[Batch]:
    """Return an iterator of batches that worker processes draw ahead."""
    loader = DataLoader(
        Examples(mix, seed, encoder),
        batch_size=None,
        num_workers=workers,
        prefetch_factor=2 if workers else None,
        pin_memory=torch.cuda.is_available(),
    )
    return iter(loader)


def on(device: torch.device, batch: Batch) -> Batch:
    """Return the batch on a device."""
    return Batch(**{name: one.to(device, non_blocking=True) for name, one in vars(batch).items()})


def train(
    out: Path, start: Path | None, minutes: float, rate: float, seed: int, workers: int, patches: int, compiled: bool
) -> None:
    """Run one stage and write its checkpoint."""
    encoder = make_tokenizer() if start is None else load_tokenizer(start)
    trainer = Trainer(start, encoder, rate, compiled)
    curriculum = CURRICULA["from-nothing" if start is None else "go-on"]
    began, reported, steps = time.monotonic(), time.monotonic(), 0
    tally = Tally.start(trainer.device)
    for phase in curriculum:
        source = batches(replace(phase.mix, patches=patches), seed + round(1000 * phase.until), encoder, workers)
        while (share := (time.monotonic() - began) / 60 / minutes) < phase.until:
            warm = min(1.0, (steps + 1) / 300)
            trainer.step(on(trainer.device, next(source)), min(share, 1.0), warm, tally)
            steps += 1
            if time.monotonic() - reported > _REPORT_SECONDS:
                seconds = time.monotonic() - reported
                print(f"{share:.1%}, step {steps}, {tally.clips / seconds:.0f} clips/s, {tally.line()}", flush=True)
                reported, tally = time.monotonic(), Tally.start(trainer.device)
        del source
    save(out, encoder, trainer.average)
    print(json.dumps({"steps": steps, "minutes": round((time.monotonic() - began) / 60, 2)}), flush=True)


def main(arguments: list[str]) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of the checkpoint that is written")
    parser.add_argument("--start", type=Path, help="folder of the checkpoint to start from; from nothing without it")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=1, help="another one for each stage, so that it draws other clips")
    parser.add_argument("--workers", type=int, default=14, help="processes that draw clips")
    parser.add_argument("--patches", type=int, default=98_304, help="size of a batch; a CPU wants a thirtieth of it")
    parser.add_argument("--compile", action="store_true", help="compile the layers")
    options = parser.parse_args(arguments)
    if options.out.exists():
        shutil.rmtree(options.out)
    train(
        options.out,
        options.start,
        options.minutes,
        options.rate,
        options.seed,
        options.workers,
        options.patches,
        options.compile,
    )


if __name__ == "__main__":
    main(sys.argv[1:])

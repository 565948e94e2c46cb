"""An endless series of random batches of clips with questions and answers, the same for the same seed."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from cosmos_batch.catalogue.pixel_budget import PixelBudget, fitted_size
from cosmos_batch.demo.drawing import draw_frames
from cosmos_batch.demo.random_scenes import draw_scene
from cosmos_batch.demo.scenes import COLOURS, KINDS, Scene
from training.questions import LabelledQuestion, ask, ask_of_the_unknown
from training.sizes import draw_rate, draw_size
from training.tokens import END, IMAGE_PIXELS, MAX_FRAMES, VIDEO_PIXELS, prefix, suffix
from training.unknown import draw_unknown

CELL = 32  # pixels along a side of the square that one token covers
IGNORED = -100  # a label that the loss passes over
FPS = 4.0
_MIN_FRAMES = 4
_UNKNOWN = 0.16  # of the clips
_MOST_CLIPS = 256
_OFFSET = 0.12  # of the clips, how many are a cut out of a longer one


@dataclass(frozen=True)
class Mix:
    """What a batch of a training phase holds: the share of images, clips up to a length, and questions about each."""

    images: float
    longest: float  # seconds of the longest clips
    questions: int  # about each clip
    patches: int = 98_304  # of all clips of a batch, counted in pairs of frames


@dataclass
class Batch:
    """Clips of one grid with their questions, as tensors.

    Attributes
    ----------
    frames
        uint8 [clips, frames, height, width, 3]; the number of frames is even.
    ids, labels
        Token ids, and the next token at each place where an answer is learned, [clips, length].
    positions
        Positions in time, row and column, [3, clips, length].
    segments
        0 for the media and what comes before them, then the number of the question, -1 for padding. [clips, length].
    kinds
        Number of the question's kind at each place that is learned, [clips, length].
    seen
        Places of the vision tokens in a sequence. [tokens].
    colours, shapes, places
        The content of each cell: 0 for nothing, or the number of color or shape plus one; and the offset and size of
        its box and its velocity, in cells. [clips, tokens] and [clips, tokens, 6].
    """

    frames: Tensor
    ids: Tensor
    labels: Tensor
    positions: Tensor
    segments: Tensor
    kinds: Tensor
    seen: Tensor
    colours: Tensor
    shapes: Tensor
    places: Tensor

    def pin_memory(self) -> "Batch":
        """Return the batch in pinned memory. A DataLoader calls this."""
        return Batch(**{name: one.pin_memory() for name, one in vars(self).items()})


KIND_NAMES = (
    "caption", "colour", "shape", "count", "direction", "order", "when", "where", "plausible", "next", "outside",
)  # fmt: skip


@dataclass(frozen=True)
class Timing:
    """Times of frames, in seconds from the beginning of the scene, and the timestamps in the prompt."""

    times: np.ndarray
    timestamps: list[float]


def sample_times(duration: float, rate: float, fps: float, offset: float = 0.0) -> Timing:
    """Return the frames that the engines sample from a clip of a given frame rate, and the timestamps of their pairs.

    `offset` is where the scene begins in the video.
    """
    source = np.arange(int(duration * rate)) / rate
    count = int(min(max(int(duration * fps + 1e-4), _MIN_FRAMES), MAX_FRAMES, len(source)))
    even = np.linspace(source[0], source[-1], count)
    times = np.unique(source[np.abs(source[None] - even[:, None]).argmin(axis=1)])
    paired = np.append(times, times[-1]) if len(times) % 2 else times
    stamps = (paired[0::2] + paired[1::2]) / 2 + offset
    return Timing(paired, [float(one) for one in stamps])


class Examples(IterableDataset[Batch]):
    """An endless iterable of batches."""

    def __init__(self, mix: Mix, seed: int, encoder: Tokenizer) -> None:
        self.mix = mix
        self.seed = seed
        self.encoder = encoder

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        random = np.random.default_rng([self.seed, 0 if worker is None else worker.id])
        while True:
            yield draw_batch(random, self.mix, self.encoder)


def draw_batch(random: np.random.Generator, mix: Mix, encoder: Tokenizer, clips: int | None = None) -> Batch:
    """Draw one batch: all its clips have one size and one number of frames."""
    width, height = draw_size(random)
    image = random.random() < mix.images
    if image:
        count = 1
        fitted = fitted_size(width, height, 1, PixelBudget(IMAGE_PIXELS, IMAGE_PIXELS, CELL))
        fps, rate = FPS, 1
    else:
        fps = float(random.choice([FPS, 2.0, 8.0], p=[0.84, 0.08, 0.08]))
        rate = draw_rate(random)
        count = len(sample_times(float(random.uniform(2.0, mix.longest)), rate, fps).times)
        fitted = fitted_size(width, height, count, PixelBudget(VIDEO_PIXELS, VIDEO_PIXELS, CELL))
    columns, rows = fitted[0] // CELL, fitted[1] // CELL
    pairs = max(1, count // 2)
    number = clips or int(min(_MOST_CLIPS, max(4, mix.patches // (pairs * rows * columns * 4))))
    drawn = [_draw_example(random, mix, image, (width, height), fitted, count, rate, fps) for _ in range(number)]
    return _collate(drawn, encoder, rows, columns, pairs, image)


@dataclass
class _Example:
    frames: np.ndarray
    timestamps: list[float] | None
    questions: list[LabelledQuestion]
    cells: tuple[np.ndarray, np.ndarray, np.ndarray]


def _draw_example(
    random: np.random.Generator,
    mix: Mix,
    image: bool,
    size: tuple[int, int],
    fitted: tuple[int, int],
    count: int,
    rate: int,
    fps: float,
) -> _Example:
    short = min(size)
    timing, duration, offset = None, 0.0, 0.0
    times = np.zeros(2)
    if not image:
        timing, duration = _timing_of(random, count, rate, fps, mix.longest)
        times = timing.times
        if random.random() < _OFFSET:
            offset = round(float(random.uniform(0.5, 9.4 - duration)), 1)
            timing = Timing(times, [one + offset for one in timing.timestamps])
    columns, rows = fitted[0] // CELL, fitted[1] // CELL
    pairs = len(times) // 2
    if random.random() < _UNKNOWN:
        frames = draw_unknown(random, 1 if image else len(times), *fitted)
        frames = np.repeat(frames, 2, axis=0) if image else frames
        questions = [ask_of_the_unknown(random, duration) for _ in range(max(1, mix.questions // 4))]
        cells = _no_cells(pairs, rows, columns)
    else:
        scene = draw_scene(random, size[0] / short, size[1] / short, duration)
        frames = draw_frames(scene, times, *fitted, softness=float(random.uniform(0.8, 2.0)))
        questions = [ask(random, scene, offset=offset) for _ in range(mix.questions)]
        cells = _cells(scene, times, rows, columns)
    return _Example(frames, None if timing is None else timing.timestamps, questions, cells)


def _timing_of(random: np.random.Generator, count: int, rate: int, fps: float, longest: float) -> tuple[Timing, float]:
    """Draw a length and frame rate of a clip that give `count` sampled frames."""
    while True:
        duration = float(random.uniform(2.0, longest))
        timing = sample_times(duration, rate, fps)
        if len(timing.times) == count:
            return timing, int(duration * rate) / rate


def _no_cells(pairs: int, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = (pairs, rows, columns)
    return np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros((*shape, 6), np.float32)


def _cells(scene: Scene, times: np.ndarray, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which shape lies in each cell of each pair of frames; of several, the nearest."""
    colours, shapes, places = _no_cells(len(times) // 2, rows, columns)
    nearest = np.full(colours.shape, np.inf)
    across, down = np.arange(columns) + 0.5, np.arange(rows) + 0.5
    for thing in scene.things:
        scale = np.array([columns / scene.width, rows / scene.height] * 2)
        boxes = thing.boxes(times) * scale
        first, second = boxes[0::2], boxes[1::2]
        for pair, box in enumerate((first + second) / 2):
            middle, size = (box[:2] + box[2:]) / 2, box[2:] - box[:2]
            dx, dy = middle[0] - across, middle[1] - down
            inside = (np.abs(dy)[:, None] <= size[1] / 2 + 0.5) & (np.abs(dx)[None] <= size[0] / 2 + 0.5)
            distance = dy[:, None] ** 2 + dx[None] ** 2
            mine = inside & (distance < nearest[pair])
            nearest[pair][mine] = distance[mine]
            colours[pair][mine] = 1 + list(COLOURS).index(thing.colour)
            shapes[pair][mine] = 1 + KINDS.index(thing.kind)
            velocity = (second[pair] - first[pair])[:2]
            row, column = np.nonzero(mine)
            places[pair][mine] = np.stack(
                [dx[column], dy[row], *(np.full(len(row), one) for one in (*size, *velocity))], axis=1
            )
    return colours, shapes, places


def _collate(drawn: list[_Example], encoder: Tokenizer, rows: int, columns: int, pairs: int, image: bool) -> Batch:
    tokens = rows * columns
    pad = encoder.token_to_id("<|image_pad|>" if image else "<|video_pad|>")
    heads = [encoder.encode(prefix(one.timestamps, tokens)).ids for one in drawn]
    seen = np.flatnonzero(np.array(heads[0]) == pad)
    head_positions, following = _head_positions(heads[0], seen, rows, columns, pairs)
    packed = [_pack(encoder, head, one.questions) for head, one in zip(heads, drawn, strict=True)]
    length = -(-max(len(one[0]) for one in packed) // 64) * 64
    ids, labels, segments, kinds, within = (
        np.stack([np.pad(one[part], (0, length - len(one[part])), constant_values=fill) for one in packed])
        for part, fill in enumerate((0, IGNORED, -1, -1, 0))
    )
    positions = np.broadcast_to(following + within, (3, *ids.shape)).copy()
    positions[:, :, : len(heads[0])] = head_positions[:, None]
    colours, shapes, places = (np.stack([one.cells[part] for one in drawn]) for part in range(3))
    return Batch(
        frames=torch.from_numpy(np.stack([one.frames for one in drawn])),
        ids=torch.from_numpy(ids),
        labels=torch.from_numpy(labels),
        positions=torch.from_numpy(positions),
        segments=torch.from_numpy(segments),
        kinds=torch.from_numpy(kinds),
        seen=torch.from_numpy(seen),
        colours=torch.from_numpy(colours).flatten(1),
        shapes=torch.from_numpy(shapes).flatten(1),
        places=torch.from_numpy(places).flatten(1, 3),
    )


def _head_positions(head: list[int], seen: np.ndarray, rows: int, columns: int, pairs: int) -> tuple[np.ndarray, int]:
    """Return the positions of the prompt up to the question, [3, length], and the next position.

    They follow Qwen3-VL: text advances all three by one; the tokens of a pair of frames count rows and columns from its
    first position, and the next text continues after the longer side.
    """
    positions = np.zeros((3, len(head)), np.int64)
    row, column = np.divmod(np.arange(rows * columns), columns)
    starts = set(seen.reshape(pairs, -1)[:, 0].tolist())
    place, current = 0, 0
    while place < len(head):
        if place in starts:
            end = place + rows * columns
            positions[:, place:end] = current + np.stack([np.zeros_like(row), row, column])
            place, current = end, current + max(rows, columns)
        else:
            positions[:, place] = current
            place, current = place + 1, current + 1
    return positions, current


def _pack(encoder: Tokenizer, head: list[int], questions: list[LabelledQuestion]) -> tuple[np.ndarray, ...]:
    """Return ids, labels, segments, kinds, and each token's place within its question."""
    ids, labels = list(head), [IGNORED] * len(head)
    segments, kinds, within = [0] * len(head), [-1] * len(head), [0] * len(head)
    for number, question in enumerate(questions, start=1):
        question_ids = encoder.encode(suffix(question.text)).ids
        answer = encoder.encode(question.completion + END).ids
        whole = [*question_ids, *answer]
        # The last token of the question predicts the first one of the answer.
        learned = [IGNORED] * (len(question_ids) - 1) + answer + [IGNORED]
        ids += whole
        labels += learned
        segments += [number] * len(whole)
        kinds += [KIND_NAMES.index(question.kind)] * len(whole)
        within += range(len(whole))
    return tuple(np.array(one) for one in (ids, labels, segments, kinds, within))

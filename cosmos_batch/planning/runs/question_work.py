"""Estimate the work of one item: how much of a worker's time it takes, relative to a reference clip."""

from dataclasses import dataclass

from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.catalogue.pipelines import REASONER_CONTEXT
from cosmos_batch.catalogue.pixel_budget import PixelBudget, fitted_size
from cosmos_batch.catalogue.seen_media import DEFAULT_FPS, LEAST_IMAGE_PIXELS
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.planning.questions import DEFAULT_MAX_TOKENS
from cosmos_batch.planning.size_limits import TOKENS_PER_TIMESTAMP, SizeLimits

# The clip by which `planning.pace` measures reasoners (docs/benchmarks.md): four seconds at 640 x 480, seen at 4 frames
# a second. This is the number of tokens that its media take.
REFERENCE_TOKENS = 2472.0
# What the answer costs, in tokens of media. NVIDIA's throughput of Nano is 1.94 times as high at 1 frame a second as at
# 2 (`inference_benchmarks/` of NVIDIA/cosmos, one H100, 256 in flight): all but a twentieth of the time goes to the
# media. Ours write longer answers.
ANSWER_TOKENS = 300.0

_LIMITS = SizeLimits()
_PIXELS_PER_TOKEN = _LIMITS.multiple**2
# Before each two frames stands their time, as in `<12.5 seconds>`, which Qwen's tokenizer splits into seven tokens.
# There is a mark on either side of the frames (`Qwen3VLProcessor` of Transformers). This is the usual number, for an
# estimate; an engine leaves more room, because its prompt must fit (planning/size_limits.py).
_TIMESTAMP_TOKENS = 9


@dataclass(frozen=True)
class ProbedMedia:
    """The facts about a probed file with which a run is planned. An image has a duration of 0."""

    medium: Medium
    width: int
    height: int
    seconds: float = 0.0


def media_tokens(facts: ProbedMedia, parameters: Parameters) -> int:
    """Return how many tokens a reasoner sees of a question's files, all of which are taken to be like the probed one.

    Their frames have the sizes that the engine gives them, for which the files share what the answer leaves of the
    context. The question's text, which is short, is not counted.

    >>> media_tokens(ProbedMedia("video", 640, 480, 4.0), Parameters())
    2472
    >>> media_tokens(ProbedMedia("video", 128, 96, 4.0), Parameters())  # their times count for small frames
    168
    >>> media_tokens(ProbedMedia("video", 1920, 1080, 4.0), Parameters())  # each frame has its most tokens
    5832
    >>> media_tokens(ProbedMedia("video", 1920, 1080, 60.0), Parameters())  # 240 frames share the pixels of a video
    12000
    """
    files = 1 + len(parameters.more_inputs or [])
    left = REASONER_CONTEXT - min(parameters.max_tokens or DEFAULT_MAX_TOKENS, REASONER_CONTEXT // 2)
    around = _TIMESTAMP_TOKENS if facts.medium == "video" else 0
    seen = 0
    for without_share in range(files, 0, -1):  # what a file leaves of its share goes to the others
        groups, tokens = _groups_seen(facts, parameters, left // without_share)
        seen += groups * (tokens + around)
        left -= groups * (tokens + TOKENS_PER_TIMESTAMP)
    return seen


def _groups_seen(facts: ProbedMedia, parameters: Parameters, share: int) -> tuple[int, int]:
    """Return how many groups of frames are seen of a file that may have `share` tokens, and the tokens of a group.

    An image is one group.
    """
    if facts.medium == "image":
        image = _tokens_of_frame(facts, 1, _LIMITS.image_budget(share))
        return 1, max(image, LEAST_IMAGE_PIXELS // _PIXELS_PER_TOKEN)
    start = parameters.start or 0.0
    seconds = max(0.0, min(facts.seconds, parameters.end or facts.seconds) - start)
    pairs = _LIMITS.most_pairs(share)
    frames = min(max(int(seconds * (parameters.fps or DEFAULT_FPS)), _LIMITS.min_frames), 2 * pairs)
    budget = _LIMITS.video_budget(share - pairs * TOKENS_PER_TIMESTAMP)
    return -(-frames // _LIMITS.frames_per_token), _tokens_of_frame(facts, frames, budget)


def _tokens_of_frame(facts: ProbedMedia, frames: int, budget: PixelBudget) -> int:
    width, height = fitted_size(facts.width, facts.height, frames, budget)
    return width * height // _PIXELS_PER_TOKEN


def work_of_question(tokens: float) -> float:
    """Return the work of a question whose media take `tokens`; a question about the reference clip is 1."""
    return (ANSWER_TOKENS + tokens) / (ANSWER_TOKENS + REFERENCE_TOKENS)

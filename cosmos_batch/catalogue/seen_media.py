"""How a reasoner sees images and videos: the limits of Qwen3-VL, on which all Cosmos reasoners are built.

A run is planned by them, and they hold for a model on a user's server. An engine that has a checkpoint's files uses the
limits in these.
"""

# Frames per second of video that the model sees. Cosmos-Reason2 was trained with 4, and its model card asks for the
# same; the processor's default, 2, is Qwen's.
DEFAULT_FPS = 4.0
# Defaults of transformers' video processor for Qwen3-VL, for checkpoints whose settings do not name them.
MIN_FRAMES, MAX_FRAMES = 4, 768
# A token covers a square of this side, in one image or in this many frames of a video.
TOKEN_SIDE = 32
FRAMES_PER_TOKEN = 2
# The most tokens of one frame of a video, larger ones of which are scaled down. The value is that of Qwen's reference
# implementation (qwen-vl-utils, VIDEO_MAX_TOKEN_NUM), which NVIDIA's tool uses.
TOKENS_PER_FRAME = 768
# The pixels to which Qwen3-VL's processors scale an image, and all frames of a video together
# (`preprocessor_config.json` and `video_preprocessor_config.json` of the models).
LEAST_IMAGE_PIXELS, MOST_IMAGE_PIXELS, MOST_VIDEO_PIXELS = 256**2, 4096**2, 24 * 1024**2

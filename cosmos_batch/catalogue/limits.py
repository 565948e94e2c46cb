"""The largest inputs that are accepted."""

# Bytes of UTF-8. A longer prompt is refused; one over the second limit travels by S3 pointer.
PROMPT_LIMIT = 32 * 1024
PROMPT_INLINE_LIMIT = 16 * 1024

# Qwen3-VL scales an image to at most 16.8 million pixels, so decoding more than four times that is wasted. JPEG and
# H.264 tools disagree about sides over 16,384 pixels.
IMAGE_PIXEL_LIMIT = 64_000_000
IMAGE_SIDE_LIMIT = 16_384
IMAGE_FILE_LIMIT = 512 * 1024**2  # bytes; as many pixels with 16 bits for each of four values fit uncompressed
VIDEO_PIXEL_LIMIT = 7680 * 4320

# Bytes. A worker downloads a whole file, and the workers of a host share its disk with container images. The smallest
# disk has 200 GiB: eight such files fit. 20 GiB are hours of video, of which a model sees a few hundred frames.
INPUT_SIZE_LIMIT = 20 * 1024**3

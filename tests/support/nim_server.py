"""A stand-in for a NIM of Cosmos 3's generator, as strict as NVIDIA's documentation says that it is.

It answers with noise of the requested size and length, as JPEG or as VP9 in MP4. Words in a prompt change its behavior:

- `refuse`: 422. `guardrail`, `policy`, `unsafe`: 422 as of a guardrail; of `kind` the error's type alone tells it.
- `quote`: 422 with the request's headers. `echo`: 422 with the prompt.
- `fail`: 500. `memory`: 500 with an out-of-memory message.
- `empty`: a response without a file. `broken`: a file that is no image or video. `ragged`: actions of unequal length.
- `stuck`: no answer until the client closes the connection.
"""

import base64
import io
import json
import socket
import threading
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any, Literal, NamedTuple, Self

import av
import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Ready = tuple[int, dict[str, Any]]
READY: Ready = (200, {"object": "health.response", "message": "Service is ready", "status": "ready"})
STARTING: Ready = (503, {"error": {"message": "Service is not ready", "type": "ServiceUnavailable", "code": 503}})

_SIZES = {
    "256": {"16_9": (320, 192), "1_1": (256, 256), "9_16": (192, 320), "4_3": (320, 256), "3_4": (256, 320)},
    "480": {"16_9": (832, 480), "1_1": (640, 640), "9_16": (480, 832), "4_3": (736, 544), "3_4": (544, 736)},
    "720": {"16_9": (1280, 720), "1_1": (960, 960), "9_16": (720, 1280), "4_3": (1104, 832), "3_4": (832, 1104)},
}
_FRAMES = {"256": 397, "480": 297, "720": 197}
_WIDTHS = {"av": 9, "bridge_orig_lerobot": 10, "droid_lerobot": 10, "umi": 10}
_CONTROLS = ("edge", "blur", "depth", "seg", "wsm")
_IMAGE_CHARACTERS, _VIDEO_CHARACTERS = 20_000_000, 100_000_000
_SAMPLING = ("num_inference_steps", "guidance_scale", "flow_shift")
_TASK_OF_VARIANT = {"t2i": "text2image", "i2v": "image2video"}

_Prompt = Annotated[str, Field(max_length=20_000)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _ActionParams(_Strict):
    domain_name: Literal["av", "bridge_orig_lerobot", "droid_lerobot", "umi"]
    action_chunk_size: int = Field(gt=0, multiple_of=4)
    action: list[list[_Number]] | None = None
    raw_action_dim: int | None = None
    action_space: Literal["joint_pos", "midtrain"] = "joint_pos"
    image_size: Literal["256", "480", "704", "720"] = "480"
    action_fps: float | None = Field(default=None, ge=1, le=60)

    @model_validator(mode="after")
    def _has_the_width_of_its_domain(self) -> Self:
        width = _WIDTHS[self.domain_name]
        assert self.raw_action_dim in (None, width), "raw_action_dim does not match the domain"
        rows = self.action
        assert rows is None or (len(rows), {len(row) for row in rows}) == (self.action_chunk_size, {width}), "action"
        return self


class _Control(_Strict):
    video: str = Field(min_length=1, max_length=_VIDEO_CHARACTERS)
    control_weight: float | None = Field(default=None, ge=0)


class _Transfer(_Strict):
    edge: _Control | None = None
    blur: _Control | None = None
    depth: _Control | None = None
    seg: _Control | None = None
    wsm: _Control | None = None
    control_guidance: float = Field(default=1.5, ge=0, le=10)
    num_video_frames_per_chunk: int = Field(default=93, ge=1)
    num_conditional_frames: int = Field(default=1, ge=0)
    num_first_chunk_conditional_frames: int = Field(default=0, ge=0)

    @property
    def controls(self) -> dict[str, str]:
        return {name: control.video for name in _CONTROLS if (control := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _has_a_control(self) -> Self:
        assert self.controls, "transfer has no control"
        assert self.num_conditional_frames < self.num_video_frames_per_chunk, "num_conditional_frames"
        return self


class _InferRequest(_Strict):
    model_config = ConfigDict(protected_namespaces=())

    model_mode: Literal[
        "text2image", "text2video", "image2video", "video2video", "forward_dynamics", "policy", "inverse_dynamics"
    ]
    prompt: _Prompt | None = None
    negative_prompt: _Prompt | None = None
    input_reference: str | None = None
    seed: int | None = Field(default=None, ge=0)
    guidance_scale: float | None = Field(default=None, ge=1, le=7)
    num_inference_steps: int | None = Field(default=None, ge=1, le=100)
    flow_shift: _Number | None = None
    resolution: str | None = None
    num_frames: int | None = None
    fps: float | None = Field(default=None, ge=1, le=60)
    condition_frame_indexes_vision: list[int] | None = None
    condition_video_keep: Literal["first", "last"] | None = None
    action_params: _ActionParams | None = None
    transfer: _Transfer | None = None

    @model_validator(mode="after")
    def _fits_its_mode(self) -> Self:
        mode, is_action = self.model_mode, self.model_mode in ("forward_dynamics", "policy", "inverse_dynamics")
        is_plain = mode == "video2video" and self.transfer is None
        assert is_action == (self.action_params is not None), "action_params"
        assert self.transfer is None or mode == "video2video", "transfer"
        assert is_plain or self.condition_frame_indexes_vision is self.condition_video_keep is None, "condition"
        if mode in ("text2image", "text2video"):
            assert self.prompt and self.input_reference is None, "prompt is required, input_reference is forbidden"
        if is_action:
            assert self.resolution is None, "resolution is forbidden with action_params"
            assert self.num_frames is None, "num_frames is forbidden with action_params"
            assert self.action_params and (mode == "forward_dynamics") == (self.action_params.action is not None)
            return self
        tier, _, aspect = (self.resolution or "720_16_9").partition("_")
        assert (aspect or "16_9") in _SIZES.get(tier, {}), "resolution"
        if mode == "text2image":
            assert self.num_frames in (None, 1), "text2image has exactly one frame"
        else:
            frames = self.num_frames or 189
            assert 25 <= frames <= _FRAMES[tier] and frames % 4 == 1, (
                f"num_frames must be 1 + 4k, at most {_FRAMES[tier]}"
            )
            assert max(self.condition_frame_indexes_vision or [0]) <= (frames - 1) // 4, (
                "condition_frame_indexes_vision"
            )
        return self

    @property
    def size(self) -> tuple[int, int]:
        tier, _, aspect = (self.resolution or "720_16_9").partition("_")
        return _SIZES[tier][aspect or "16_9"]


class Sent(NamedTuple):
    """A picture or a video that a request held."""

    kind: str
    width: int
    height: int
    frames: int
    fps: float | None


class NimServer(ThreadingHTTPServer):
    """The container. `ready` and `metadata` are what these paths answer; an answer in `faults` is given to the next
    request for a generation instead of its result."""

    daemon_threads = True

    def __init__(self, variant: str = "nano") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self.variant = variant
        self.metadata: Any = None
        self.metadata_before_ready: Ready | None = None
        self.as_data_urls = False
        self.ready: list[Ready] = [READY]
        self.key: str | None = None
        self.faults: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.media: list[dict[str, Sent]] = []
        self.probes: list[str] = []
        self.received, self.closed = threading.Event(), threading.Event()

    def describe(self) -> Ready:
        if self.metadata_before_ready is not None and len(self.ready) > 1:
            return self.metadata_before_ready
        if self.metadata is not None:
            answer: Ready = self.metadata
            return answer
        return 200, {"model_type": "generator", "inference_endpoint": "/v1/infer", "model_variant": self.variant}


class _Handler(BaseHTTPRequestHandler):
    server: NimServer

    def log_message(self, *_: Any) -> None:
        """Suppress the server's log."""

    def do_GET(self) -> None:
        self.server.probes.append(self.path)
        if not self._is_let_in():
            return
        if self.path == "/v1/health/ready":
            self._send(*(self.server.ready.pop(0) if len(self.server.ready) > 1 else self.server.ready[0]))
        elif self.path == "/v1/metadata":
            self._send(*self.server.describe())
        else:
            self._fail(404, "Not Found")

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if not self._is_let_in():
            return
        if self.path != "/v1/infer":
            self._fail(404, "The selected runtime is 'generator', which serves POST /v1/infer.")
            return
        self.server.requests.append(json.loads(content))
        if self.server.faults:
            self._send(*self.server.faults.pop(0))
            return
        try:
            request = _InferRequest.model_validate_json(content)
            _refuse_by_variant(request, self.server.variant)
            sent = _media(request)
        except (ValidationError, AssertionError) as error:
            self._fail(422, str(error))
            return
        self.server.media.append(sent)
        self._answer(request, sent)

    def _answer(self, request: _InferRequest, sent: dict[str, Sent]) -> None:
        prompt = request.prompt or ""
        messages = {
            "refuse": (422, "The media cannot be decoded."),
            "guardrail": (422, "The request was rejected by Guardrails."),
            "policy": (422, "The prompt violates our content policy."),
            "unsafe": (422, "Unsafe content was found in the output."),
            "kind": (422, "Rejected."),
            "quote": (422, f"Unexpected headers: {self.headers['Authorization']}"),
            "echo": (422, f"The prompt {prompt!r} has no subject."),
            "fail": (500, "Backend inference failed."),
            "memory": (500, "CUDA out of memory. Tried to allocate 20.00 GiB."),
        }
        for word, (status, message) in messages.items():
            if prompt.startswith(word):
                self._fail(status, message, "GuardrailBlockedError" if word == "kind" else "Error")
                return
        if "stuck" in prompt:
            self._wait_for_the_end()
        else:
            answer = _response(request, sent)
            if self.server.as_data_urls:
                answer = {
                    name: f"data:media;base64,{value}" if name.startswith("b64") else value
                    for name, value in answer.items()
                }
            self._send(200, answer)

    def _wait_for_the_end(self) -> None:
        self.server.received.set()
        self.connection.settimeout(30)
        if self.connection.recv(1, socket.MSG_PEEK) == b"":
            self.server.closed.set()
        self.close_connection = True

    def _is_let_in(self) -> bool:
        if self.server.key is None or self.headers["Authorization"] == f"Bearer {self.server.key}":
            return True
        self._fail(401, f"Unauthorized: {self.headers['Authorization']}")
        return False

    def _fail(self, status: int, message: str, kind: str = "Error") -> None:
        self._send(status, {"error": {"message": message, "type": kind, "code": status}})

    def _send(self, status: int, body: Any) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _refuse_by_variant(request: _InferRequest, variant: str) -> None:
    if variant.endswith("-4step"):
        set_anyway = [name for name in _SAMPLING if getattr(request, name) is not None]
        assert not set_anyway, f"{variant} owns {', '.join(set_anyway)}"
    _, _, task = variant.removesuffix("-4step").partition("-")
    assert request.model_mode == _TASK_OF_VARIANT.get(task, request.model_mode), (
        f"{variant} does no {request.model_mode}"
    )


def _media(request: _InferRequest) -> dict[str, Sent]:
    """Decode what the request holds. Raises AssertionError for what the mode does not take, or of another size."""
    if request.transfer:
        assert request.input_reference is None, "input_reference is for derived controls"
        sent = {name: _video(url) for name, url in request.transfer.controls.items()}
        assert {(one.width, one.height) for one in sent.values()} == {request.size}, "size of a control"
        return sent
    if request.model_mode in ("text2image", "text2video"):
        return {}
    assert request.input_reference, "input_reference is required"
    takes_video = request.model_mode in ("video2video", "inverse_dynamics")
    one = (_video if takes_video else _image)(request.input_reference)
    if request.action_params is None:
        assert (one.width, one.height) == request.size, "size of input_reference"
    return {"input_reference": one}


def _image(url: str) -> Sent:
    assert len(url) <= _IMAGE_CHARACTERS, "input_reference is too long"
    head, _, data = url.partition(";base64,")
    image = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
    assert image.format is not None and head == f"data:{Image.MIME[image.format]}", f"{head} is {image.format}"
    return Sent(image.format, *image.size, 1, None)


def _video(url: str) -> Sent:
    assert len(url) <= _VIDEO_CHARACTERS, "a video is too long"
    head, _, data = url.partition(";base64,")
    assert head == "data:video/mp4", head
    with av.open(io.BytesIO(base64.b64decode(data, validate=True))) as container:
        stream = container.streams.video[0]
        # A lossless video has the profile "High 4:4:4 Predictive", which many decoders cannot decode.
        assert (stream.codec_context.pix_fmt, stream.codec_context.profile) == ("yuv420p", "High"), "codec"
        frames = sum(1 for _ in container.decode(stream))
        rate = stream.average_rate
        return Sent(stream.codec_context.name, stream.width, stream.height, frames, float(rate) if rate else None)


def _response(request: _InferRequest, sent: dict[str, Sent]) -> dict[str, Any]:
    prompt, params = request.prompt or "", request.action_params
    if "empty" in prompt:
        return {"b64_video": None, "action": None}
    if request.model_mode == "text2image":
        file = io.BytesIO()
        Image.fromarray(_noise(request.size)).save(file, "JPEG")
        return {"b64_image": _encoded(b"no image" if "broken" in prompt else file.getvalue())}
    size = sent["input_reference"][1:3] if params else request.size
    frames = params.action_chunk_size + 1 if params else request.num_frames or 189
    video = _vp9(size, frames, request.fps or 24.0)
    answer: dict[str, Any] = {"b64_video": _encoded(b"no video" if "broken" in prompt else video), "action": None}
    if params and request.model_mode != "forward_dynamics":
        width = _WIDTHS[params.domain_name]
        rows = [[0.25] * width] * params.action_chunk_size
        answer["action"] = {
            "data": [*rows[:-1], [0.5]] if "ragged" in prompt else rows,
            "shape": [len(rows), width],
            "dtype": "float32",
            "raw_action_dim": width,
            "action_mode": request.model_mode,
            "domain_id": 1,
        }
    return answer


def _vp9(size: tuple[int, ...], frames: int, fps: float) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream: Any = container.add_stream("libvpx-vp9", rate=Fraction(fps).limit_denominator(1001))
        stream.width, stream.height = size
        stream.pix_fmt, stream.options = "yuv420p", {"deadline": "realtime", "cpu-used": "8"}
        noise = _noise(size)
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(np.roll(noise, 8 * number, axis=1), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return file.getvalue()


def _noise(size: tuple[int, ...]) -> np.ndarray:
    """Return a picture with large squares of random colors, which are quick to encode."""
    small = np.random.default_rng(0).integers(0, 255, (size[1] // 16, size[0] // 16, 3), np.uint8)
    return np.repeat(np.repeat(small, 16, axis=0), 16, axis=1)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()

"""Prompt upsampling: a language model on a server turns a short prompt into the structured JSON of NVIDIA's captions.

Cosmos 3 was trained on such JSON. The worker calls `Upsampler.upsample` before it passes a job to its engine, so every
generator engine has it. The original prompt is kept in the job's document.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from cosmos_batch.catalogue.engines import ENDPOINT_ENGINE
from cosmos_batch.catalogue.generation import Size, aspect_ratio_of
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.endpoint import media_as_data
from cosmos_batch.engines.reasoner.think_tags import split_reasoning
from cosmos_batch.engines.serving.dialect import dialect_of
from cosmos_batch.engines.serving.remote_server import RemoteServer
from cosmos_batch.media import image_at_size, probe, upright_size
from cosmos_batch.planning.generation.dimensions import fit_to_input
from cosmos_batch.planning.generation.prompts import prompt_text

_TRIES = 2  # requests until a model that answers with something else than JSON is given up
_LIMITS = {"max_tokens": 4096, "temperature": 0.7, "top_p": 0.8}
_INSTRUCTIONS = """You write prompts for a model that makes {what}. Turn what the user asks for into one JSON object.
Keep all that the user says, and add what a camera would see there; invent no text and no persons that do not fit.
Its keys, each with text of one to three sentences unless said otherwise:
"subjects": a list of objects with "description", "appearance_details", "relationship", "location", "relative_size",
"orientation", "pose", "action", "state_changes", "clothing", "expression", and "number_of_subjects", a number;
"background_setting"; "lighting": an object with "conditions", "direction", "shadows", "illumination_effect";
"aesthetics": an object with "composition", "color_scheme", "mood_atmosphere", "patterns";
"cinematography": an object with "camera_motion", "framing", "camera_angle", "depth_of_field", "focus",
"lens_focal_length"; "style_medium"; "artistic_style"; "context"; "text_and_signage_elements": a list;{more}
Answer with the JSON object alone."""
_IMAGE_KEYS = '\n"comprehensive_t2i_caption": all of it as one paragraph.'
_VIDEO_KEYS = """
"actions": a list of objects with "time", such as "0:00-0:02", and "description"; "segments": a list of objects with
"segment_index", "time_range", "description", "key_changes", "camera"; "transitions": a list;
"temporal_caption": all that happens, in its order, as one paragraph. The video has {seconds:.1f} seconds."""
_FIRST_FRAME = " The video begins with the image that you see: describe what is in it, and what happens from there on."


class Upsampler:
    """A client of the language model at an endpoint. `api_key` returns the server's key, or None if it needs none."""

    def __init__(self, endpoint: Endpoint, api_key: Callable[[], str | None]) -> None:
        self._endpoint = endpoint
        self._api_key = api_key
        self._dialect = dialect_of(ENDPOINT_ENGINE["reasoner", "openai"])
        self._server: RemoteServer | None = None

    async def upsample(self, job: Job, workdir: Path) -> Job:
        """Return the job with the prompt that the model wrote; a job without `upsamplePrompt` is returned unchanged.

        Raises ServerUnavailable, and Failure if the model writes no JSON object or the server refuses the request.
        """
        generation = job.generation
        if generation is None or not generation.upsample_prompt:
            return job
        try:
            server = await self._ready()
            image = input_paths(job, workdir)[0] if generation.mode == "i2v" else None
            size, messages = await asyncio.to_thread(_upsampling_request, generation, image)
            written = await self._write(server, messages, generation.seed)
            prompt = prompt_text("prompt", {**written, **_known_keys(generation, size)})
        except ServerUnavailable as outage:
            raise ServerUnavailable(outage.kind, *_explained(outage), outage.retry_after) from outage
        except Failure as failure:
            raise Failure(failure.error.code, *_explained(failure), failure.error.retryable) from failure
        upsampled = generation.model_copy(update={"prompt": prompt, "given_prompt": generation.prompt})
        return job.model_copy(update={"generation": upsampled})

    async def _ready(self) -> RemoteServer:
        """Return the client of the server. The first call also chooses the model that writes."""
        if self._server is None:
            server = await asyncio.to_thread(RemoteServer, self._endpoint, self._api_key, self._dialect)
            self._model = server.choose(list(await asyncio.to_thread(server.models)))
            self._server = server
        return self._server

    async def _write(self, server: RemoteServer, messages: list[dict[str, Any]], seed: int) -> dict[str, Any]:
        for attempt in range(_TRIES):
            body = {"model": self._model, "messages": messages, "seed": seed + attempt, **_LIMITS}
            response = await server.send(Journal(), "POST", "chat/completions", json=body)
            if not response.is_success:
                raise server.refusal(response)
            try:
                answer = str(response.json()["choices"][0]["message"]["content"])
            except (ValueError, LookupError, TypeError) as error:
                raise server.malformed_answer() from error
            if (written := _json_in(answer)) is not None:
                return written
        raise Failure(
            "EngineFailed",
            f"{self._model} wrote no JSON object, {_TRIES} times.",
            "Configure a larger model, or write the JSON yourself.",
        )


def _explained(failure: Failure) -> tuple[str, str]:
    """Return message and remedy of a failure with the name of the parameter that caused the request."""
    return f"upsamplePrompt: {failure.error.message}", f"{failure.error.remedy} Or leave it out."


def _upsampling_request(generation: Generation, image: Path | None) -> tuple[Size, list[dict[str, Any]]]:
    """Return the size of the output and the chat messages. An input image is shown as the generator will see it."""
    picture = []
    if image is not None:
        probe(image)
        generation = fit_to_input(generation, *upright_size(image))
    assert generation.size is not None, "only an image input leaves the size open"
    if image is not None:
        picture = [media_as_data(Image.fromarray(image_at_size(image, generation.size)), image)]
    if generation.is_video:
        assert generation.num_frames is not None and generation.fps is not None
        more = _VIDEO_KEYS.format(seconds=generation.num_frames / generation.fps) + (
            _FIRST_FRAME if image is not None else ""
        )
        system = _INSTRUCTIONS.format(what="videos", more=more)
    else:
        system = _INSTRUCTIONS.format(what="images", more=_IMAGE_KEYS)
    content = [*picture, {"type": "text", "text": generation.prompt}]
    return generation.size, [{"role": "system", "content": system}, {"role": "user", "content": content}]


def _known_keys(generation: Generation, size: Size) -> dict[str, Any]:
    """Return the keys of NVIDIA's JSON that follow from the job's parameters, so that the model need not guess them."""
    known: dict[str, Any] = {"resolution": {"H": size.height, "W": size.width}}
    if ratio := aspect_ratio_of(size):
        known["aspect_ratio"] = ratio.replace(":", ",")
    if generation.is_video and generation.num_frames is not None and generation.fps is not None:
        known |= {"duration": f"{int(generation.num_frames / generation.fps)}s", "fps": generation.fps}
    return known


def _json_in(answer: str) -> dict[str, Any] | None:
    """Return the JSON object in a model's answer, which may have text around it; None if there is none."""
    text, _ = split_reasoning(answer)
    begin, end = text.find("{"), text.rfind("}")
    try:
        parsed = json.loads(text[begin : end + 1]) if begin >= 0 else None
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) and parsed else None

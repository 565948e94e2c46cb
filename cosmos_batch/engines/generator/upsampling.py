"""A short prompt becomes NVIDIA's structured JSON, written by a model on somebody's server before the job is made.

Cosmos 3 was trained on such JSON. The prompt that was given stays beside the one that is used.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from cosmos_batch.catalogue.engines import ENDPOINT_ENGINE
from cosmos_batch.catalogue.generation import SIZES, Size
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

_TRIES = 2  # of a model that writes something else
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
_OF_IMAGES = '\n"comprehensive_t2i_caption": all of it as one paragraph.'
_OF_VIDEOS = """
"actions": a list of objects with "time", such as "0:00-0:02", and "description"; "segments": a list of objects with
"segment_index", "time_range", "description", "key_changes", "camera"; "transitions": a list;
"temporal_caption": all that happens, in its order, as one paragraph. The video has {seconds:.1f} seconds."""
_BEGINNING = " The video begins with the image that you see: describe what is in it, and what happens from there on."


class Upsampler:
    """A model on a server. `api_key` gives the key, or None."""

    def __init__(self, endpoint: Endpoint, api_key: Callable[[], str | None]) -> None:
        self._endpoint = endpoint
        self._api_key = api_key
        self._dialect = dialect_of(ENDPOINT_ENGINE["reasoner"])
        self._server: RemoteServer | None = None

    async def upsample(self, job: Job, workdir: Path) -> Job:
        """The job with the prompt that the model wrote, where it asks for that. Raises Failure where there is none."""
        asked = job.generation
        if asked is None or not asked.upsample_prompt:
            return job
        try:
            server = await self._ready()
            image = input_paths(job, workdir)[0] if asked.mode == "i2v" else None
            size, messages = await asyncio.to_thread(_question, asked, image)
            written = await self._write(server, messages, asked.seed)
            prompt = prompt_text("prompt", {**written, **_known(asked, size)})
        except ServerUnavailable as away:
            raise ServerUnavailable(away.kind, *_explained(away), away.retry_after) from away
        except Failure as failure:
            raise Failure(failure.error.code, *_explained(failure), failure.error.retryable) from failure
        made = asked.model_copy(update={"prompt": prompt, "given_prompt": asked.prompt})
        return job.model_copy(update={"generation": made})

    async def _ready(self) -> RemoteServer:
        """The server, and which of its models writes."""
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
                said = str(response.json()["choices"][0]["message"]["content"])
            except (ValueError, LookupError, TypeError) as error:
                raise server.nonsense() from error
            if (written := _json_in(said)) is not None:
                return written
        raise Failure(
            "EngineFailed",
            f"{self._model} wrote no JSON object, {_TRIES} times.",
            "Configure a larger model, or write the JSON yourself.",
        )


def _explained(failure: Failure) -> tuple[str, str]:
    """Message and remedy that name the parameter by which the failure came about."""
    return f"upsamplePrompt: {failure.error.message}", f"{failure.error.remedy} Or leave it out."


def _question(asked: Generation, image: Path | None) -> tuple[Size, list[dict[str, Any]]]:
    """The size of what will be made, and the request. An image is shown as it will be seen."""
    picture = []
    if image is not None:
        probe(image)
        asked = fit_to_input(asked, *upright_size(image))
    assert asked.size is not None, "only images leave it open"
    if image is not None:
        picture = [media_as_data(Image.fromarray(image_at_size(image, asked.size)), image)]
    if asked.is_video:
        assert asked.num_frames is not None and asked.fps is not None
        more = _OF_VIDEOS.format(seconds=asked.num_frames / asked.fps) + (_BEGINNING if image is not None else "")
        system = _INSTRUCTIONS.format(what="videos", more=more)
    else:
        system = _INSTRUCTIONS.format(what="images", more=_OF_IMAGES)
    content = [*picture, {"type": "text", "text": asked.prompt}]
    return asked.size, [{"role": "system", "content": system}, {"role": "user", "content": content}]


def _known(asked: Generation, size: Size) -> dict[str, Any]:
    """What NVIDIA's JSON says of what will be made, which nobody has to guess."""
    known: dict[str, Any] = {"resolution": {"H": size.height, "W": size.width}}
    if ratio := next((name for sizes in SIZES.values() for name, one in sizes.items() if one == size), None):
        known["aspect_ratio"] = ratio.replace(":", ",")
    if asked.is_video and asked.num_frames is not None and asked.fps is not None:
        known |= {"duration": f"{int(asked.num_frames / asked.fps)}s", "fps": asked.fps}
    return known


def _json_in(said: str) -> dict[str, Any] | None:
    """The one object in an answer, whatever a model puts around it."""
    text, _ = split_reasoning(said)
    begin, end = text.find("{"), text.rfind("}")
    try:
        found = json.loads(text[begin : end + 1]) if begin >= 0 else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None

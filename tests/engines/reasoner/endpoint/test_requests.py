"""The requests that the reasoner sends to a user's server, and its answers."""

import asyncio
import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.result import Answer
from cosmos_batch.contract.tasks import TASKS
from cosmos_batch.engines.data_urls import SENT_AS_H264
from cosmos_batch.engines.reasoner.endpoint import SERVER_SAMPLES_FRAMES, EndpointEngine
from cosmos_batch.engines.reasoner.json_answers import run_with_schema
from tests.engines.conftest import make_job, place
from tests.engines.reasoner.endpoint.conftest import MODEL, Handler, Server, completion, data_of, error
from tests.support import media_files


def test_sampled_and_scaled_media_are_sent_inside_of_the_request(
    server: Server, ask: Callable[..., Answer], clip: Path, picture: Path
) -> None:
    answer = ask(picture, clip, fps=2, start=1, end=3)
    assert answer.text == "A robot." and answer.usage.prompt_tokens == 9
    [request] = server.requests
    image, video, question = request["messages"][1]["content"]
    assert question == {"type": "text", "text": "What happens?"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert Image.open(io.BytesIO(data_of(image))).size == (320, 256)
    assert video["video_url"]["url"].startswith("data:video/mp4;base64,")
    with av.open(io.BytesIO(data_of(video))) as container:
        times = [frame.time for frame in container.decode(video=0)]
    assert len(times) == 4, "two seconds, two frames in each, and nothing of the rest of the file"
    assert times[-1] == pytest.approx(2, abs=0.2), "at their own rate"
    assert request["model"] == MODEL
    assert request["media_io_kwargs"]["video"]["num_frames"] == -1
    assert (request["seed"], request["temperature"]) == (3407, 0.7)
    assert "For the model, 1 s of a video were its beginning, 0 s." in answer.notes
    assert SENT_AS_H264 in answer.notes


def test_an_image_is_sent_without_loss_and_without_a_note(ask: Callable[..., Answer], picture: Path) -> None:
    assert ask(picture).notes == []


@pytest.mark.parametrize(
    ("end", "note"), [(2, None), (3, "Times outside of what the model saw, 0.0 to 2.0 s, are in the answer: 3 s.")]
)
def test_times_count_from_the_beginning_of_the_clip_that_was_sent(
    server: Server, load: Callable[..., EndpointEngine], clip: Path, tmp_path: Path, end: int, note: str | None
) -> None:
    task = "temporal-localization"
    server.answers = [completion(json.dumps([{"start": 0, "end": end, "caption": "It moves."}]))]
    job = make_job(clip.name, task=task, jsonSchema=TASKS[task].schema, start=2)
    place(clip, job, tmp_path / "job")
    answer = asyncio.run(run_with_schema(load(), job, tmp_path / "job"))
    assert isinstance(answer, Answer) and answer.data is not None
    assert [line for line in answer.notes if "Times" in line] == ([] if note is None else [note])


def test_refused_media_settings_are_left_out_from_then_on(
    server: Server, load: Callable[..., EndpointEngine], clip: Path, picture: Path, tmp_path: Path
) -> None:
    refusal = "Per-request media_io_kwargs are disabled by default because"
    server.answers = [error(400, refusal)]
    engine = load()
    answers = []
    for number, source in enumerate((clip, clip, picture)):
        job = make_job(source.name)
        place(source, job, tmp_path / str(number))
        answers.append(asyncio.run(engine.run(job, tmp_path / str(number))))
    assert [SERVER_SAMPLES_FRAMES in answer.notes for answer in answers] == [True, True, False]
    assert ["media_io_kwargs" in request for request in server.requests] == [True, False, False, False]


@pytest.mark.parametrize(
    "refusal",
    [
        error(400, "Grammar error: unimplemented keys"),
        error(400, "'response_format' of type 'json_schema' is not supported by this model"),
        (422, {"detail": [{"loc": ["body", "response_format"], "msg": "extra fields not permitted"}]}),
    ],
)
def test_a_schema_that_the_server_cannot_enforce_is_left_out(
    server: Server, ask: Callable[..., Answer], picture: Path, refusal: Any
) -> None:
    server.answers = [refusal]
    answer = ask(picture, jsonSchema={"type": "object"})
    assert answer.text == "A robot." and any("not held to the schema" in line for line in answer.logs)
    assert ["response_format" in request for request in server.requests] == [True, False]


def test_a_contradictory_schema_is_not_left_out(server: Server, ask: Callable[..., Answer], picture: Path) -> None:
    server.answers = [error(400, "Grammar error: Unsatisfiable schema")]
    with pytest.raises(Failure, match="No answer can fit"):
        ask(picture, jsonSchema={"type": "object"})


def test_unknown_fields_are_left_out_from_then_on(
    server: Server, load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path
) -> None:
    server.answers = [
        error(400, "Unrecognized request argument supplied: top_k"),
        (422, {"detail": [{"loc": ["body", "repetition_penalty"], "msg": "extra fields not permitted"}]}),
    ]
    engine = load()
    job = make_job(picture.name)
    place(picture, job, tmp_path)
    answers = [asyncio.run(engine.run(job, tmp_path)) for _ in range(2)]
    for answer in answers:
        assert [name for name in ("top_k", "repetition_penalty") if any(name in note for note in answer.notes)] == [
            "top_k",
            "repetition_penalty",
        ]
    assert [("top_k" in request, "repetition_penalty" in request) for request in server.requests] == [
        (True, True),
        (False, True),
        (False, False),
        (False, False),
    ]
    assert all("temperature" in request for request in server.requests)


def test_a_prompt_that_names_fields_does_not_leave_them_out_of_other_requests(
    server: Server, load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path
) -> None:
    """The server refuses the prompt, which it quotes, and not the fields."""

    def quoted_if_long(request: dict[str, Any]) -> Any:
        prompt = request["messages"][1]["content"][-1]["text"]
        return error(400, f"This is too long: {prompt}") if "long" in prompt else completion()

    server.fault = quoted_if_long
    engine = load()
    long, short = make_job(picture.name, "A long text on top_k and repetition_penalty"), make_job(picture.name)
    place(picture, short, tmp_path)
    with pytest.raises(Failure, match="too long"):
        asyncio.run(engine.run(long, tmp_path))
    assert asyncio.run(engine.run(short, tmp_path)).notes == []
    assert {"top_k", "repetition_penalty"} <= server.requests[-1].keys()


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_that_the_server_separates_is_kept(
    server: Server, ask: Callable[..., Answer], picture: Path, name: str
) -> None:
    server.answers = [completion("Yes.", **{name: "It is red."})]
    answer = ask(picture)
    assert (answer.text, answer.reasoning) == ("Yes.", "It is red.")


def test_closing_the_engine_closes_its_connections(
    load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(Handler, "protocol_version", "HTTP/1.1")  # which keeps a connection for the next request
    monkeypatch.setattr(Handler, "finish", lambda _: ended.set())
    job = make_job(picture.name)
    place(picture, job, tmp_path)
    engine = load()
    assert ended.wait(10), "that of the list of models"
    ended.clear()

    async def ask_and_close() -> bool:
        await engine.run(job, tmp_path)
        assert not ended.is_set()
        engine.close()
        return await asyncio.to_thread(ended.wait, 10)

    assert asyncio.run(ask_and_close())


def test_cancelling_a_job_ends_its_request(
    server: Server, load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path
) -> None:
    engine, job = load(), make_job(picture.name)
    place(picture, job, tmp_path)
    server.answers = ["sleep"]

    async def cancelled() -> None:
        task = asyncio.create_task(engine.run(job, tmp_path))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


def test_a_video_of_one_frame_is_sent_as_two_because_servers_accept_no_shorter_one(
    server: Server, ask: Callable[..., Answer], tmp_path: Path
) -> None:
    answer = ask(media_files.video(tmp_path / "still.mp4", frames=1))
    assert answer.text == "A robot."
    [request] = server.requests
    video, _ = request["messages"][1]["content"]
    with av.open(io.BytesIO(data_of(video))) as container:
        first, second = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert abs(first.astype(int) - second).max() <= 2

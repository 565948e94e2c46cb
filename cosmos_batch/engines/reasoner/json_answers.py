"""Answers that must fit a JSON Schema: found in the text, checked, asked for once more. It holds for every engine.

An engine may hold the model to the schema while it generates (`job.parameters.json_schema`); that is not relied upon.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.json_schema import DEPTH_LIMIT, Schema, too_deep
from cosmos_batch.contract.result import Answer, Made, Usage
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.protocol import Engine
from cosmos_batch.engines.reasoner.schema_check import CheckTooSlow, misfit
from cosmos_batch.engines.reasoner.units import has_places, times_in, with_units

_FENCE = re.compile(r"```\w*[ \t]*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[\[{]")
_TRIES = 100  # brackets in prose that are no JSON
_REASON_LIMIT = 500  # characters
_QUOTE_LIMIT = 4000  # characters of the first answer, told to the model with what is wrong in it
_ROUNDED_SECONDS = 0.5  # the answer may round a time to whole seconds
_TIMES_TOLD = 5
UNCHECKED = "its JSON was not checked against the schema in time: both are long"


async def run_with_schema(engine: Engine, job: Job, workdir: Path) -> Answer | Made:
    """What the engine answers or makes; with `data` or `data_error` where the job has a schema.

    Raises what the engine raises.
    """
    answer = await engine.run(job, workdir)
    if isinstance(answer, Made) or job.parameters.json_schema is None:
        return answer
    first = await asyncio.to_thread(_checked, answer, job, workdir)
    if first.data_error is None or first.data_error.startswith(UNCHECKED):
        return first
    try:
        again = await engine.run(_once_more(job, first), workdir)
    except Failure as failure:  # the first answer is not lost over it
        told = f"asked once more, the engine failed: {failure.error.message}"
        return first.model_copy(update={"logs": [*first.logs, told]})
    assert isinstance(again, Answer), "as the first time"
    return _together(first, await asyncio.to_thread(_checked, again, job, workdir))


def _once_more(job: Job, first: Answer) -> Job:
    told = (
        f"{job.prompt}\n\nAn earlier answer was not accepted: {first.data_error}. It was:\n{first.text[:_QUOTE_LIMIT]}"
        f"\n\nAnswer again. Write the final answer as JSON alone, in the form that was asked for."
    )
    return job.model_copy(update={"prompt": told})


def _together(first: Answer, second: Answer) -> Answer:
    """The second answer, with what both of them cost."""
    usage = Usage(
        prompt_tokens=first.usage.prompt_tokens + second.usage.prompt_tokens,
        completion_tokens=first.usage.completion_tokens + second.usage.completion_tokens,
    )
    timings = Counter(first.timings)
    timings.update(second.timings)
    logs = [*first.logs, f"the first answer was not accepted: {first.data_error}; asked once more", *second.logs]
    return second.model_copy(update={"usage": usage, "timings": dict(timings), "logs": logs})


def _checked(answer: Answer, job: Job, workdir: Path) -> Answer:
    """The answer with its data, or with what is wrong; a task's data also in pixels and seconds."""
    assert job.parameters.json_schema is not None, "only then is there something to check"
    data, error = read_data(answer.text, job.parameters.json_schema)
    if error is not None:
        cut = "; it was cut off at maxTokens" if answer.finish_reason == "length" else ""
        return answer.model_copy(update={"data": None, "data_error": error + cut})
    notes = answer.notes
    if job.parameters.task is not None:
        notes = [*notes, *_note_of_times(job, workdir, list(times_in(data)))]
        data = with_units(data, _picture_size(job, workdir) if has_places(data) else None)
    return answer.model_copy(update={"data": data, "data_error": None, "notes": notes})


def _note_of_times(job: Job, workdir: Path, times: list[float]) -> list[str]:
    """That the answer names times at which there is nothing to see, if so."""
    if not times:
        return []
    # Imported here, as below.
    from cosmos_batch.media import VideoInfo, probe

    found = [probe(path) for path in input_paths(job, workdir)]
    duration = max((one.timeline.duration for one in found if isinstance(one, VideoInfo)), default=0.0)
    first, last = job.parameters.start or 0.0, min(job.parameters.end or duration, duration)
    outside = [seconds for seconds in times if not first - _ROUNDED_SECONDS <= seconds <= last + _ROUNDED_SECONDS]
    if not outside:
        return []
    told = ", ".join(f"{seconds:g}" for seconds in outside[:_TIMES_TOLD])
    more = f" and {len(outside) - _TIMES_TOLD} more" if len(outside) > _TIMES_TOLD else ""
    return [f"Times outside of what the model saw, {first:.1f} to {last:.1f} s, are in the answer: {told} s{more}."]


def _picture_size(job: Job, workdir: Path) -> tuple[int, int] | None:
    """Of the picture that places are in; None where there are several of different sizes, for nobody says in which."""
    # Imported here: no worker needs the libraries of media before its engine has started.
    from cosmos_batch.media import upright_size

    sizes = {upright_size(path) for path in input_paths(job, workdir)}
    return sizes.pop() if len(sizes) == 1 else None


def read_data(text: str, schema: Schema) -> tuple[Any, str | None]:
    """The first JSON value in a text that fits the schema; or None, and why there is none."""
    reason = None
    for value in _values(text):
        wrong = f"it is not JSON: {value}" if isinstance(value, ValueError) else why_not(value, schema)
        if wrong is None:
            return value, None
        if wrong == UNCHECKED:  # another value would take as long again
            return None, UNCHECKED
        reason = reason or wrong
    return None, (reason or "it holds no JSON")[:_REASON_LIMIT]


def why_not(value: Any, schema: Schema) -> str | None:
    """What keeps a parsed value from fitting the schema; None where it fits."""
    if too_deep(value):
        return f"its JSON is nested more than {DEPTH_LIMIT} levels deep"
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "its JSON holds half of a surrogate pair, which is no character"
    try:
        return misfit(value, schema)
    except CheckTooSlow:
        return UNCHECKED


def _values(text: str) -> Iterator[Any]:
    """JSON in a text, by trust: the whole, what is fenced, what stands among words. A ValueError for what is broken."""
    for whole in (text, *_FENCE.findall(text)):
        value = _decoded(whole)
        if not isinstance(value, ValueError):
            yield value
    position = 0
    for _ in range(_TRIES):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        try:
            value, position = _DECODER.raw_decode(text, opening.start())
            yield value
        except json.JSONDecodeError as error:
            position = max(error.pos, opening.end())
            if text[opening.start() : position].strip("[{ \r\n\t"):
                # Something of it was understood: what comes after is a part of it, and no answer.
                yield error
                return
        except (ValueError, RecursionError) as error:
            yield ValueError(str(error))
            return


def _decoded(text: str) -> Any:
    """JSON, or the ValueError of what is none."""
    try:
        return _DECODER.decode(text.strip())
    except (ValueError, RecursionError) as error:
        return ValueError(str(error))


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if abs(number) != float("inf") else _no_number(text)


# `strict=False`: models put line breaks into strings as they are.
_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_number, parse_float=_finite)

"""Answers that must fit a JSON Schema: finding the JSON in the text, checking it, and asking once more if it does not
fit.

This is done for every engine. An engine may also hold the model to the schema while it generates
(`job.parameters.json_schema`), but some cannot, and an answer may be cut off.
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
from cosmos_batch.contract.result import Answer, GeneratorOutput, Usage
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.protocol import Engine
from cosmos_batch.engines.reasoner.schema_check import CheckTooSlow, schema_problem
from cosmos_batch.planning.answer_units import has_places, times_in, with_units

_FENCE = re.compile(r"```\w*[ \t]*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[\[{]")
_TRIES = 100  # brackets in prose that begin no JSON
_REASON_LIMIT = 500  # characters
_QUOTE_LIMIT = 4000  # characters of the first answer that the second prompt quotes
_ROUNDING_SECONDS = 0.5  # an answer may round a time to whole seconds
_TIMES_NAMED = 5  # how many times a note names
_DIGITS_QUOTED = 20  # of a number that is refused
UNCHECKED = "its JSON was not checked against the schema in time: both are long"


async def run_with_schema(engine: Engine, job: Job, workdir: Path) -> Answer | GeneratorOutput:
    """Run a job and return its result; for a job with a schema, the answer has `data` or `data_error`.

    If the first answer does not fit the schema, the model is asked once more. Raises what the engine raises.
    """
    answer = await engine.run(job, workdir)
    if isinstance(answer, GeneratorOutput) or job.parameters.json_schema is None:
        return answer
    first = await asyncio.to_thread(_checked, answer, job, workdir)
    if first.data_error is None or first.data_error.startswith(UNCHECKED):
        return first
    try:
        second = await engine.run(_second_request(job, first), workdir)
    except Failure as failure:  # the first answer is still worth delivering
        line = f"asked once more, the engine failed: {failure.error.message}"
        return first.model_copy(update={"logs": [*first.logs, line]})
    assert isinstance(second, Answer), "as the first time"
    return _combined(first, await asyncio.to_thread(_checked, second, job, workdir))


def _second_request(job: Job, first: Answer) -> Job:
    prompt = (
        f"{job.prompt}\n\nAn earlier answer was not accepted: {first.data_error}. It was:\n{first.text[:_QUOTE_LIMIT]}"
        f"\n\nAnswer again. Write the final answer as JSON alone, in the form that was asked for."
    )
    return job.model_copy(update={"prompt": prompt})


def _combined(first: Answer, second: Answer) -> Answer:
    """Return the second answer with the tokens, times and log lines of both."""
    usage = Usage(
        prompt_tokens=first.usage.prompt_tokens + second.usage.prompt_tokens,
        completion_tokens=first.usage.completion_tokens + second.usage.completion_tokens,
    )
    timings = Counter(first.timings)
    timings.update(second.timings)
    logs = [*first.logs, f"the first answer was not accepted: {first.data_error}; asked once more", *second.logs]
    return second.model_copy(update={"usage": usage, "timings": dict(timings), "logs": logs})


def _checked(answer: Answer, job: Job, workdir: Path) -> Answer:
    """Return the answer with its data, or with the reason why it has none. A task's data gets pixels and seconds
    too."""
    assert job.parameters.json_schema is not None, "only then is there something to check"
    data, error = read_data(answer.text, job.parameters.json_schema)
    if error is not None:
        cut = "; it was cut off at maxTokens" if answer.finish_reason == "length" else ""
        return answer.model_copy(update={"data": None, "data_error": error + cut})
    notes = answer.notes
    if job.parameters.task is not None:
        notes = [*notes, *_note_on_times(job, workdir, list(times_in(data)), answer.zero_at)]
        data = with_units(data, _picture_size(job, workdir) if has_places(data) else None)
    return answer.model_copy(update={"data": data, "data_error": None, "notes": notes})


def _note_on_times(job: Job, workdir: Path, times: list[float], zero_at: float) -> list[str]:
    """Return a note if the answer names times at which the model saw nothing. They count from the second `zero_at`."""
    if not times:
        return []
    # Imported here, as in `_picture_size`.
    from cosmos_batch.media import VideoInfo, probe

    infos = [probe(path) for path in input_paths(job, workdir)]
    duration = max((info.timeline.duration for info in infos if isinstance(info, VideoInfo)), default=0.0)
    first = (job.parameters.start or 0.0) - zero_at
    last = min(job.parameters.end or duration, duration) - zero_at
    outside = [seconds for seconds in times if not first - _ROUNDING_SECONDS <= seconds <= last + _ROUNDING_SECONDS]
    if not outside:
        return []
    named = ", ".join(f"{seconds:g}" for seconds in outside[:_TIMES_NAMED])
    more = f" and {len(outside) - _TIMES_NAMED} more" if len(outside) > _TIMES_NAMED else ""
    return [f"Times outside of what the model saw, {first:.1f} to {last:.1f} s, are in the answer: {named} s{more}."]


def _picture_size(job: Job, workdir: Path) -> tuple[int, int] | None:
    """Return the size of the picture that places are in; None for files of different sizes, as the answer names
    none."""
    # Imported here, because a worker imports the libraries of media only after its engine has started.
    from cosmos_batch.media import upright_size

    sizes = {upright_size(path) for path in input_paths(job, workdir)}
    return sizes.pop() if len(sizes) == 1 else None


def read_data(text: str, schema: Schema) -> tuple[Any, str | None]:
    """Return the first JSON value in a text that fits the schema, or None and the reason why there is none."""
    reason = None
    for value in _values(text):
        problem = f"it is not JSON: {value}" if isinstance(value, ValueError) else value_problem(value, schema)
        if problem is None:
            return value, None
        if problem == UNCHECKED:  # another value would take as long again
            return None, UNCHECKED
        reason = reason or problem
    return None, (reason or "it holds no JSON")[:_REASON_LIMIT]


def value_problem(value: Any, schema: Schema) -> str | None:
    """Return why a parsed value does not fit the schema; None if it fits."""
    if too_deep(value):
        return f"its JSON is nested more than {DEPTH_LIMIT} levels deep"
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "its JSON holds half of a surrogate pair, which is no character"
    try:
        return schema_problem(value, schema)
    except CheckTooSlow:
        return UNCHECKED


def _values(text: str) -> Iterator[Any]:
    """Yield JSON values in a text: the whole text, then fenced blocks, then values among words.

    Broken JSON yields the ValueError.
    """
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
                # The parser got past the bracket, so this is broken JSON and what follows is a part of it.
                yield error
                return
        except (ValueError, RecursionError) as error:
            yield ValueError(str(error))
            return


def _decoded(text: str) -> Any:
    """Return the parsed text, or the ValueError of a text that is no JSON."""
    try:
        return _DECODER.decode(text.strip())
    except (ValueError, RecursionError) as error:
        return ValueError(str(error))


def _refuse_number(text: str) -> NoReturn:
    quoted = text if len(text) <= _DIGITS_QUOTED else f"{text[:_DIGITS_QUOTED]}..."
    raise ValueError(f"{quoted} is no number that can be used")


def _finite(text: str) -> float:
    number = float(text)
    return number if abs(number) != float("inf") else _refuse_number(text)


def _finite_integer(text: str) -> int:
    """Return an integer that is also a finite float, because it is compared with floats and formatted as one.

    A model that repeats a digit to the end of its answer writes others.
    """
    _finite(text)
    return int(text)


# `strict=False`, because models put unescaped line breaks into strings.
_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_number, parse_float=_finite, parse_int=_finite_integer)

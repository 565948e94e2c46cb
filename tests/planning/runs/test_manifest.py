"""Lines of manifests: what they may say, and how each wrong field is named with a remedy."""

import json
from typing import Any

import pytest

from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.runs import RunItem, RunRequest
from cosmos_batch.planning.runs.item_checks import RunRules
from cosmos_batch.planning.runs.line_problems import FieldProblem, WrongLine
from cosmos_batch.planning.runs.manifest import LINE_LIMIT, read_line
from cosmos_batch.planning.runs.sweep import Sweep
from cosmos_batch.planning.runs.web_addresses import WebAddresses

SERVING = Serving(engine="diffusers", guardrails=False, max_resolution="720p", plans={})
REASONERS = RunRules(
    RunRequest(id="run", pipelines=["cosmos-reason2-2b"], parameters=Parameters(fps=2, seed=1)), Sweep(), ["assets"]
)
GENERATORS = RunRules(
    RunRequest(
        id="run",
        pipelines=["cosmos3-nano"],
        generation=GenerationParameters(resolution="480p", seed=1),
        output="s3://assets/made/",
    ),
    Sweep(),
    ["assets"],
    {"cosmos3-nano": SERVING},
)


def read(rules: RunRules = REASONERS, **fields: Any) -> RunItem:
    return read_line(json.dumps(fields).encode(), rules)


def problems(line: bytes | dict[str, Any], rules: RunRules = REASONERS) -> list[FieldProblem]:
    with pytest.raises(WrongLine) as caught:
        read_line(line if isinstance(line, bytes) else json.dumps(line).encode(), rules)
    assert all(problem.remedy for problem in caught.value.problems)
    return caught.value.problems


def test_a_line_is_an_item() -> None:
    item = read(id="dock-7", input="s3://assets/a b.mp4", prompt="What?", parameters={"fps": 4, "maxTokens": 8})
    assert item == RunItem(
        id="dock-7",
        input="s3://assets/a b.mp4",
        prompt="What?",
        parameters=Parameters(fps=4, max_tokens=8, seed=1),
    ), "its parameters replace those of the run one by one"


def test_a_line_may_say_only_which_file() -> None:
    assert read(input="s3://assets/a.mp4") == RunItem(id="s3://assets/a.mp4", input="s3://assets/a.mp4")


def test_several_files_are_seen_together() -> None:
    item = read(
        id="1", inputs=["s3://assets/a.mp4", "s3://assets/b.png", "s3://assets/c.png"], systemPrompt="Be brief."
    )
    assert item.input == "s3://assets/a.mp4"
    assert item.parameters is not None
    assert item.parameters.more_inputs == ["s3://assets/b.png", "s3://assets/c.png"]
    assert item.system_prompt == "Be brief."


def test_a_generator_takes_a_request_a_line() -> None:
    item = read(GENERATORS, id="1", prompt={"scene": "a robot"}, parameters={"num_steps": 8, "seed": 7})
    assert item.prompt == '{"scene": "a robot"}'
    assert item.generation == GenerationParameters(resolution="480p", steps=8, seed=7)


@pytest.mark.parametrize(
    ("line", "field", "message", "remedy"),
    [
        (b'{"input": "s3://assets/a.mp4"', "", "is not JSON", "A line looks like"),
        (b"[" * 100_000, "", "is not JSON", "A line looks like"),
        (b'["s3://assets/a.mp4"]', "", "is not a JSON object", "A line looks like"),
        (b'"' + b"x" * LINE_LIMIT + b'"', "", "1,048,576 bytes", "one request on each line"),
        ({"input": "s3://assets/a.mp4", "promt": "?"}, "promt", "not a known field", "Did you mean `prompt`?"),
        ({"input": "s3://assets/a.mp4", "zebra": 1}, "zebra", "not a known field", "known are id, input"),
        ({"id": "1"}, "input", "is missing", "Name the file"),
        ({"input": "clip.mp4"}, "input", "must be an S3 URI", "as S3 shows it"),
        ({"input": 7}, "input", "valid string", "as S3 shows it"),
        ({"input": "s3://other/a.mp4"}, "input", "outside of the configured buckets", "below one of: assets"),
        ({"input": "s3://assets/folder/"}, "input", "is a folder", "Name one file"),
        ({"input": "s3://assets/a.txt"}, "input", "format .txt", "Use one of"),
        ({"inputs": ["s3://assets/a.mp4", "s3://other/b.mp4"]}, "inputs", "outside of", "below one of"),
        ({"input": "s3://assets/a.mp4", "inputs": ["s3://assets/b.mp4"]}, "inputs", "beside `input`", "one of the two"),
        ({"input": "s3://assets/a.mp4", "prompt": " "}, "prompt", "is empty", "leave it out"),
        ({"input": "s3://assets/a.mp4", "prompt": "x" * 40_000}, "prompt", "40,000 bytes", "Shorten it"),
        ({"input": "s3://assets/a.mp4", "prompt": {"a": 1}}, "prompt", "is not text", "Only generators"),
        ({"input": "s3://assets/a.mp4", "prompt": "\ud83d"}, "", "surrogate pair", "Replace it"),
        ({"input": "s3://assets/a.mp4", "parameters": {"maxToken": 8}}, "parameters.maxToken", "known", "`maxTokens`"),
        ({"input": "s3://assets/a.mp4", "parameters": {"fps": 900}}, "parameters.fps", "900", "Correct it"),
        ({"input": "s3://assets/a.mp4", "parameters": 7}, "parameters", "valid dictionary", "Correct it"),
        ({"input": "s3://assets/a.png", "parameters": {"start": 1}}, "start", "no time to cut", "Leave start"),
        ({"input": "s3://assets/a.png", "id": ""}, "id", "at least 1 character", "Correct it"),
    ],
)
def test_a_wrong_line_is_explained(line: bytes | dict[str, Any], field: str, message: str, remedy: str) -> None:
    [problem] = problems(line)
    assert problem.field == field
    assert message in problem.message
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("line", "field", "message"),
    [
        ({"prompt": "A robot."}, "id", "is missing"),
        ({"id": "1"}, "prompt", "prompt"),
        ({"id": "1", "prompt": "A robot.", "parameters": {"stepz": 8}}, "parameters.stepz", "not a known field"),
        ({"id": "1", "prompt": "A robot.", "parameters": {"steps": 900}}, "parameters.steps", "900"),
        ({"id": "1", "prompt": "A robot.", "parameters": {"mode": "i2v"}}, "", "i2v"),
        ({"inputs": ["s3://assets/a.png", "s3://assets/b.png"], "prompt": "A."}, "inputs", "several files"),
    ],
)
def test_a_wrong_line_of_a_generator_is_explained(line: dict[str, Any], field: str, message: str) -> None:
    [problem] = problems(line, GENERATORS)
    assert (problem.field == field or not field) and message in f"{problem.field} {problem.message}"


def test_a_generation_from_text_needs_a_place() -> None:
    request = GENERATORS.request.model_copy(update={"output": None})
    [problem] = problems({"id": "1", "prompt": "A robot."}, RunRules(request, Sweep(), ["assets"]))
    assert (problem.field, "--output" in problem.remedy) == ("input", True)


def test_files_that_the_engine_cannot_look_at_are_refused() -> None:
    rules = RunRules(REASONERS.request, Sweep(), ["assets"], engines={"cosmos-reason2-2b": "cosmos-framework-reasoner"})
    [video] = problems({"input": "s3://assets/a.mp4"}, rules)
    [several] = problems({"inputs": ["s3://assets/a.png", "s3://assets/b.png"]}, rules)
    assert (video.field, video.message) == ("input", "s3://assets/a.mp4 is a video; Cosmos Framework looks at images.")
    assert "one image a request" in several.message and "'vllm'" in several.remedy
    assert read(rules, input="s3://assets/a.png").input == "s3://assets/a.png"


def test_a_file_of_the_run_that_is_seen_with_every_item_makes_a_video_of_an_image() -> None:
    parameters = Parameters(start=1, more_inputs=["s3://assets/a.mp4"])
    rules = RunRules(REASONERS.request.model_copy(update={"parameters": parameters}), Sweep(), ["assets"])
    assert list(rules.problems(RunItem(id="1", input="s3://assets/b.png"))) == [], "a video has a time to cut"


def test_all_that_is_wrong_with_a_line_is_named_at_once() -> None:
    found = problems({"id": "", "input": "x", "prompt": 7, "systemPrompt": 1})
    assert {problem.field.partition(".")[0] for problem in found} == {"id", "input", "prompt", "systemPrompt"}


def openai_line(*content: dict[str, Any], **body: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": list(content)}]
    line = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions"}
    return {**line, "body": {"model": "any", "messages": messages, **body}}


TEXT = {"type": "text", "text": "What?"}
VIDEO = {"type": "video_url", "video_url": {"url": "s3://assets/a.mp4"}}


def test_a_line_of_the_openai_format_is_an_item() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    image = {"type": "image_url", "image_url": {"url": "s3://assets/b.png"}}
    shape = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    line = openai_line(VIDEO, image, TEXT, max_tokens=16, temperature=0.5, response_format=shape)
    line["body"]["messages"].insert(0, {"role": "system", "content": "Be brief."})
    item = read_line(json.dumps(line).encode(), REASONERS)
    assert (item.id, item.input, item.prompt, item.system_prompt) == ("1", "s3://assets/a.mp4", "What?", "Be brief.")
    assert item.parameters == Parameters(
        fps=2, seed=1, max_tokens=16, temperature=0.5, json_schema=schema, more_inputs=["s3://assets/b.png"]
    )


WEB = WebAddresses(["h.io"], "assets/in/")
FETCHING = RunRules(RunRequest(id="run", pipelines=["cosmos-reason2-2b"]), Sweep(), ["assets/in/"], web=WEB)
ADDRESS = "https://h.io/a/clip%201.mp4?x=1"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://example.com/a.mp4", "names the host example.com, which is not configured"),
        ("https://h.io.example.com/a.mp4", "is not configured"),
        ("https://10.0.0.1/a.mp4", "is not configured"),
        ("https://h.io@10.0.0.1/a.mp4", "has a user"),
        ("https://h.io:8443/a.mp4", "a port"),
        ("https://h.io\\@10.0.0.1/a.mp4", "no valid https address"),
        ("https://h.io/a b.mp4", "a space"),
        ("http://h.io/a.mp4", "media are read from S3 and https alone"),
        ("http://169.254.169.254/latest/meta-data/", "media are read from S3 and https alone"),
        ("file:///etc/passwd", "media are read from S3 and https alone"),
        (f"data:video/mp4;base64,{'A' * 1000}", "media are read from S3 and https alone"),
    ],
)
def test_no_address_is_fetched_but_of_configured_hosts(url: str, message: str) -> None:
    lines = ({"id": "1", "input": url}, openai_line({"type": "video_url", "video_url": {"url": url}}, TEXT))
    for line in lines:
        [problem] = problems(line, FETCHING)
        assert message in problem.message
        assert len(problem.message) < 120, "an address is not repeated: it may be a whole video"


def test_an_address_stands_for_its_copy_in_s3() -> None:
    noted: dict[str, str] = {}
    web = WebAddresses(["h.io"], "assets/in/", noted.__setitem__)
    rules = RunRules(RunRequest(id="run", pipelines=["cosmos-reason2-2b"]), Sweep(), ["assets/in/"], web=web)
    item = read_line(json.dumps({"inputs": [ADDRESS, "s3://assets/in/b.png"]}).encode(), rules)
    assert item.input is not None and item.input.startswith("s3://assets/in/uploads/web/")
    assert item.input.endswith("/file.mp4"), "a name with a space is not taken over"
    assert noted == {ADDRESS: item.input}
    alone = read_line(json.dumps({"input": ADDRESS}).encode(), rules)
    assert (alone.id, alone.input) == (ADDRESS, item.input), "the same address has the same copy"
    [problem] = problems({"id": "1", "input": "https://h.io/page.html"}, FETCHING)
    assert "format .html" in problem.message


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"custom_id": "1"}, "body"),
        ({"body": {"messages": []}, "custom_id": 7}, "custom_id"),
        ({"custom_id": "1", "body": {"messages": [{"role": "assistant", "content": "x"}]}}, "body.messages"),
        (openai_line(VIDEO, TEXT, max_token=8), "body.max_token"),
        (openai_line(VIDEO, TEXT, n=2), "body.n"),
        (openai_line(VIDEO, TEXT, response_format={"type": "json_object"}), "body.response_format"),
        (openai_line({"type": "input_audio", "input_audio": {}}, VIDEO, TEXT), "body.messages.content.0"),
        ({**openai_line(VIDEO, TEXT), "bodi": 1}, "bodi"),
        (openai_line(VIDEO, TEXT, temperature=9), "parameters.temperature"),
    ],
)
def test_a_wrong_line_of_the_openai_format_is_explained(line: dict[str, Any], field: str) -> None:
    assert field in [problem.field for problem in problems(line)]

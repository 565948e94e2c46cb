"""Read prompts from `--prompt TEXT`, `--prompt @FILE` or `--prompt-file FILE`, as text or as NVIDIA has it.

`--system-prompt` and `--negative-prompt` take `@FILE`, too.
"""

import json
import re
from pathlib import Path

from cosmos_batch.cli.errors import WrongCall, file_problem
from cosmos_batch.contract.error import unknown_field
from cosmos_batch.planning.generation.request_file import is_structured_prompt

# A prompt that is a single word with one of these extensions is meant as a file's name.
_FILE_NAME = re.compile(r"\S+\.(json|ya?ml|txt|md)", re.IGNORECASE)
_YAML = (".yaml", ".yml")
# The fields of the prompts in nvidia-cosmos/cosmos-reason2, `prompts/*.yaml`.
_USER, _SYSTEM = "user_prompt", "system_prompt"
_PROMPT = "--prompt"


def read_question(prompt: str | None, file: str | None, system_prompt: str | None) -> tuple[str | None, str | None]:
    """Return the prompt and the system prompt of a reasoner. A YAML file has both, and `--system-prompt` replaces its.

    Raises WrongCall.
    """
    system_file = _named_file(system_prompt, None, "--system-prompt")
    if system_file is not None:
        system_prompt = _text(system_file)
    path = _named_file(prompt, file)
    if path is None:
        return prompt, system_prompt
    if path.suffix.lower() not in _YAML:
        return _text(path), system_prompt
    fields = _yaml_fields(path)
    return fields[_USER], system_prompt or fields.get(_SYSTEM)


def read_description(
    prompt: str | None, file: str | None = None, option: str = _PROMPT
) -> str | dict[str, object] | None:
    """Return the prompt of a generator, which `option` names: text, or NVIDIA's structured JSON. Raises WrongCall."""
    path = _named_file(prompt, file, option)
    if path is None:
        return prompt
    text = _text(path)
    if path.suffix.lower() != ".json":
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongCall(f"{path} is not JSON: {error}.", "Correct it, or name a file of text.") from error
    if not is_structured_prompt(value):
        is_request = option == _PROMPT and isinstance(value, dict) and "prompt" in value
        raise WrongCall(
            f"{path} is not one of NVIDIA's structured prompts.",
            f"A request with a prompt in it is named without an option: cosmos-batch generate {path}"
            if is_request
            else "Correct its fields, such as subjects, lighting and cinematography; or name a file of text (.txt).",
        )
    return dict(value)


def _named_file(prompt: str | None, file: str | None, option: str = _PROMPT) -> Path | None:
    """Return the file that holds the prompt of `option`; None where it is the text itself. Raises WrongCall."""
    if prompt is not None and file is not None:
        raise WrongCall("There are two prompts, by --prompt and by --prompt-file.", "Leave one of them out.")
    if prompt is not None and prompt.startswith("@"):
        return _checked(prompt[1:], "To send a text that begins with @, write a space before it.")
    if prompt is not None and _FILE_NAME.fullmatch(prompt):
        kind = option.removeprefix("--").replace("-", " ")
        raise WrongCall(f"The {kind} is the name of a file, {prompt}.", f"To send its content: {option} @{prompt}")
    return None if file is None else _checked(file, "Check the name.")


def _checked(name: str, remedy: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise WrongCall(f"There is no file {name!r} to read the prompt from.", remedy)
    return path


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongCall(f"{path} cannot be read: {file_problem(error)}.", "Name a file of text in UTF-8.") from error
    if not text.strip():
        raise WrongCall(f"{path} is empty.", "Write the prompt into it.")
    return text


def _yaml_fields(path: Path) -> dict[str, str]:
    """Return the prompts of a YAML file. Raises WrongCall where it has other fields, or none of the user's."""
    import yaml

    try:
        fields = yaml.safe_load(_text(path))
    except yaml.YAMLError as error:
        raise WrongCall(f"{path} is not YAML: {error}.", "Correct it, or name a file of text (.txt).") from error
    problems = []
    if not isinstance(fields, dict) or not isinstance(fields.get(_USER), str) or not fields[_USER].strip():
        problems = [f"{_USER}: is missing"]
    if isinstance(fields, dict):
        unknown = [str(name) for name in fields if name not in (_USER, _SYSTEM)]
        problems += [f"{name}: {unknown_field(name, (_USER, _SYSTEM))}" for name in unknown]
        if not isinstance(fields.get(_SYSTEM, ""), str):
            problems.append(f"{_SYSTEM}: is no text")
    if problems:
        raise WrongCall(
            f"{path}: {'; '.join(problems)}", f"It has `{_USER}`, and may have `{_SYSTEM}`, as NVIDIA's prompts do."
        )
    return {name: text.strip() for name, text in fields.items()}

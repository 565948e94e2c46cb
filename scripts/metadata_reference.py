"""Write `docs/metadata.md`: every metadata key of a file that this project reads. `make docs` runs this."""

import sys
from pathlib import Path

from configuration_reference import field_type
from pydantic import BaseModel
from tables import line, table

from cosmos_batch.contract import metadata
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.planning.generation import metadata as generation_metadata

TARGET = Path(__file__).resolve().parent.parent / "docs" / "metadata.md"
_HEAD = """\
# Metadata keys

These keys in the metadata of a file start a job when the file is uploaded, and set its parameters. A key is searched
for in the sidecar `<file>.metadata.json`, then in the object's user metadata, then in its tags. The first value that is
not blank is used. S3 keeps 2 KB of user metadata for an object. Values in a sidecar may be longer, and may be JSON
instead of text. Keys may be in lower case and with hyphens. A key with one of the prefixes `COSMOS_REASON_` and
`COSMOS3_` that is not in this list is an error, which is written beside the file.

`make docs` writes this page from the code that reads the keys.
"""
# The keys that set no parameter of their own name, with what each is. Keys of parameters follow from the parameters.
_REASONER_KEYS = {
    metadata.PROMPT: "The question. An upload with a prompt or a task starts a job",
    metadata.SYSTEM_PROMPT: "The system prompt",
    metadata.PIPELINE: "Id of the pipeline; by default that with the smallest enabled model",
}
_GENERATOR_KEYS = {
    generation_metadata.PROMPT: "The prompt of a generation. An upload with this key starts a job of a generator",
    generation_metadata.CONTROL_TYPE: "Control of a transfer, such as `edge`; several are separated by commas",
    generation_metadata.CONTROL_PATH: "File with that control; without it the control is computed from the input",
    generation_metadata.CONTROL_WEIGHT: "Weight of that control",
}


def page() -> str:
    """Return the whole page."""
    head = "| key | parameter | type | what it is |"
    reasoner = [*_lines(_REASONER_KEYS), *_rows(metadata.PARAMETERS, Parameters)]
    generator = [*_lines(_GENERATOR_KEYS), *_rows(generation_metadata.PARAMETERS, GenerationParameters)]
    sections = [("## Keys for a reasoner", reasoner), ("## Keys for a generator", generator)]
    return "\n".join([_HEAD, *(f"{title}\n\n{table(head, rows)}" for title, rows in sections)])


def _lines(keys: dict[str, str]) -> list[str]:
    """Return a row for each key that sets no parameter of its own name."""
    return [line(f"`{key}`", "", "text", description) for key, description in keys.items()]


def _rows(keys: dict[str, str], parameters: type[BaseModel]) -> list[str]:
    """Return a row for each key that sets a parameter, in the order of the keys."""
    fields = {str(field.alias): field for field in parameters.model_fields.values()}
    return [
        line(f"`{key}`", f"`{name}`", field_type(fields[name]).replace("|", "\\|"), fields[name].description or "")
        for key, name in sorted(keys.items())
    ]


if __name__ == "__main__":
    sys.exit(TARGET.write_text(page(), encoding="utf-8") and 0)

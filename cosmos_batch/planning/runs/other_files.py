"""Name the files beside its input that a request of a run names: further inputs, controls, a file of actions."""

from typing import NamedTuple

from cosmos_batch.catalogue.formats import ACTION_EXTENSIONS, EXTENSIONS, VIDEO_EXTENSIONS
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.parameters import Parameters


class OtherFile(NamedTuple):
    """A file that a field names: an S3 URI, or the name of a file beside the input. It has one of the extensions."""

    field: str
    name: str
    extensions: tuple[str, ...]


def other_files(parameters: Parameters | None, generation: GenerationParameters | None) -> list[OtherFile]:
    """Return the files that the parameters of a request name."""
    further = (parameters.more_inputs or []) if parameters else []
    files = [OtherFile("inputs", name, EXTENSIONS) for name in further]
    if generation is not None:
        controls = (generation.controls or {}).items()
        files += [OtherFile(f"controls.{hint}", one.path, VIDEO_EXTENSIONS) for hint, one in controls if one.path]
        if generation.action_path is not None:
            files.append(OtherFile("actionPath", generation.action_path, ACTION_EXTENSIONS))
    return files

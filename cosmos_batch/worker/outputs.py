"""Turns an engine's output into what is delivered: checks generated files, makes previews, writes the document."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.generation.document import DocumentedFile
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import unjudged
from cosmos_batch.contract.generation.outputs import Role, output_key
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer, GeneratedFile, GeneratorOutput, Usage
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.planning.generation.transfer import may_have_frames
from cosmos_batch.worker.documents import generator_document, reasoner_document
from cosmos_batch.worker.resident_model import ResidentModel

# Settings that an engine may fill in where they were open, and must not change. `num_frames` has a rule of its own.
_KEPT = (
    *("mode", "width", "height", "fps", "steps", "guidance_scale", "flow_shift", "seed", "sound"),
    *("negative_prompt", "guardrails", "conditioning"),
)


@dataclass(frozen=True)
class JobOutputs:
    """The outputs of a successful job: its document, and the local files to store beside it, by their final S3 keys."""

    document: str
    timings: dict[str, float]
    usage: Usage | None = None
    files: dict[str, Path] = field(default_factory=dict)


def collect_outputs(
    environment: WorkerEnvironment,
    model: ResidentModel,
    job: Job,
    output: Answer | GeneratorOutput,
    workdir: Path,
    timings: dict[str, float],
) -> JobOutputs:
    """Check what the engine returned, make the previews that the job wants, and write the document; blocks.

    `timings` are the worker's, in seconds by phase; `output` has the engine's.

    Raises Failure (EngineFailed) where generated files are not what the job wants, or lack a guardrail's verdict.
    """
    if isinstance(output, GeneratorOutput):
        return _generator_outputs(environment, model, job, output, workdir, timings)
    document = reasoner_document(environment, model, job, output, _notes_on_names(job, workdir), timings)
    return JobOutputs(document.to_json(), document.timings, document.usage)


def _notes_on_names(job: Job, workdir: Path) -> list[str]:
    """Return a note for each input image or video whose name ends in the extension of another format."""
    from cosmos_batch.media import note_on_name

    files = zip(job.inputs, input_paths(job, workdir), strict=True)
    media = [(source, path) for source, path in files if extension(source.key) in EXTENSIONS and path.exists()]
    return [job.label(source) + note for source, path in media if (note := note_on_name(path))]


def _generator_outputs(
    environment: WorkerEnvironment,
    model: ResidentModel,
    job: Job,
    output: GeneratorOutput,
    workdir: Path,
    timings: dict[str, float],
) -> JobOutputs:
    assert job.generation is not None, "`plan` decides one for every generator"
    _refuse_other_generation(job.generation, output, workdir)
    required = environment.serving is not None and environment.serving.guardrails_required
    _refuse_without_verdict(output, required)
    notes = _notes_on_names(job, workdir)
    notes += [note for file in output.files for note in _check_file(file, output.generation, workdir)]
    previews = [
        preview for file in output.files if file.role == "video" for preview in _previews(file, output, workdir)
    ]
    by_key = {output_key(job.document.key, file.role, output.generation): file for file in (*output.files, *previews)}
    documented = [
        DocumentedFile(file=key.rpartition("/")[2], role=file.role, size=(workdir / file.name).stat().st_size)
        for key, file in by_key.items()
    ]
    document = generator_document(environment, model, job, output, documented, notes, timings)
    files = {key: workdir / file.name for key, file in by_key.items()}
    return JobOutputs(document.to_json(), document.timings, files=files)


def expected_roles(generation: Generation) -> set[Role]:
    """Return the roles of the files that every engine makes in a generation's mode."""
    if generation.mode == "t2i":
        return {"image"}
    if generation.mode == "inverse_dynamics":
        return {"actions"}
    return {"video", "actions"} if generation.mode == "policy" else {"video"}


def _refuse_other_generation(requested: Generation, output: GeneratorOutput, workdir: Path) -> None:
    """Raise Failure where the engine changed a setting of the generation, or returned other files than its mode has."""
    # Imported here, as below: the libraries of media take a while to load, and the engine starts first.
    from cosmos_batch.media.errors import unusable_output

    for name in _KEPT:
        wanted, actual = getattr(requested, name), getattr(output.generation, name)
        if wanted not in (None, actual):
            raise unusable_output(f"another generation than was requested: {name} is {actual} instead of {wanted}")
    if not may_have_frames(requested, output.generation.num_frames):
        raise unusable_output(
            f"another generation than was requested: num_frames is {output.generation.num_frames} "
            f"instead of {requested.num_frames}"
        )
    if missing := [file.name for file in output.files if not (workdir / file.name).is_file()]:
        raise unusable_output(f"no {', '.join(missing)}, though it lists them")
    roles, due = [file.role for file in output.files], expected_roles(output.generation)
    # An engine of inverse dynamics may return a video beside the actions, for it makes one anyway.
    if len(set(roles)) != len(roles) or not due <= set(roles) <= due | {"video"}:
        raise unusable_output(f"{', '.join(roles)} instead of {', '.join(sorted(due))}")


def _refuse_without_verdict(output: GeneratorOutput, required: bool) -> None:
    """Raise Failure where guardrails are on and their verdict on the prompt or on a picture is missing (decision 066).

    It does not matter whether the engine claims to check: without a verdict nothing is delivered. A remote server
    reports no verdict (`notVerified`), so its output is not delivered either where guardrails are required.
    """
    if not output.generation.guardrails:
        return
    due = {"prompt": output.checks.prompt}
    if {file.role for file in output.files} & {"video", "image"}:
        due["output"] = output.checks.output
    enough = ("passed", "facesBlurred") if required else ("passed", "facesBlurred", "notVerified")
    if missing := [part for part, verdict in due.items() if verdict not in enough]:
        raise unjudged(f"They gave no verdict on the {' and the '.join(missing)}.")


def _check_file(file: GeneratedFile, generation: Generation, workdir: Path) -> list[str]:
    """Return notes on a generated file, such as that a video is black. Raises Failure where it is not as requested."""
    from cosmos_batch.media import WantedVideo, check_image, check_video, exact_rate
    from cosmos_batch.media.errors import unusable_output

    path = workdir / file.name
    if file.role == "actions":
        _check_actions_file(path, generation)
        return []
    size, frames, fps = generation.size, generation.num_frames, generation.fps
    if size is None or frames is None or fps is None:
        raise unusable_output(f"{file.name} without stating its size, frames or rate")
    if file.role == "image":
        return check_image(path, size.width, size.height)
    return check_video(path, WantedVideo(size.width, size.height, frames, exact_rate(fps), generation.sound))


def _check_actions_file(path: Path, generation: Generation) -> None:
    from cosmos_batch.media import check_actions, read_actions
    from cosmos_batch.media.errors import as_output_failure

    assert generation.action is not None, "only modes with actions have such a file"
    with as_output_failure("array of actions"):
        rows = read_actions(path, generation.action.width)
    check_actions(rows, generation.action.chunk_size, generation.action.width)


def _previews(video: GeneratedFile, output: GeneratorOutput, workdir: Path) -> Iterator[GeneratedFile]:
    from cosmos_batch.media import VideoInfo, probe, write_contact_sheet, write_gif

    path = workdir / video.name
    info = probe(path)
    assert isinstance(info, VideoInfo), "`check_video` has passed it"
    if output.generation.preview:
        write_gif(path, info, workdir / "preview.gif")
        yield GeneratedFile(name="preview.gif", role="preview")
    if output.generation.contact_sheet:
        write_contact_sheet(path, info, workdir / "contact-sheet.jpg")
        yield GeneratedFile(name="contact-sheet.jpg", role="contactSheet")

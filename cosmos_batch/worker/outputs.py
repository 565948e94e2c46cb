"""What an engine made becomes what is delivered: looked at, previewed, and written down in the sidecar document."""

from collections.abc import Iterator
from pathlib import Path

from cosmos_batch.catalogue.pipelines import RANDOM_WEIGHTS, size_of
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.generation.document import DocumentedFile, DocumentedGuardrails, GeneratorDocument
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import unjudged
from cosmos_batch.contract.generation.origin import DocumentedInput, Origin
from cosmos_batch.contract.generation.outputs import Role, output_key
from cosmos_batch.contract.generation.serving import engine_label
from cosmos_batch.contract.job import InputFile, Job
from cosmos_batch.contract.result import Made, MadeFile
from cosmos_batch.engines.protocol import LossyEngine
from cosmos_batch.planning.generation.transfer import may_have_frames
from cosmos_batch.worker.commit import Deliverable, Outcome
from cosmos_batch.worker.costs import cost_of
from cosmos_batch.worker.documents import job_logs, waited
from cosmos_batch.worker.resident_model import ResidentModel

UNGUARDED = "The guardrails were off: neither prompt nor output was checked."
UNVERIFIED = (
    "The server was asked to check prompt and output, and does not report whether it did: guardrails of vLLM-Omni pass "
    "what they could not judge."
)
NOISE = "The weights are random: this is noise, made to show the way of a job, and means nothing."
LOSSY = "Made with {}: faster, and not what the exact engine makes. How good it is, nobody has judged."

# What an engine may fill in where it was left open, and must not change. The number of frames has a rule of its own.
_KEPT = (
    *("mode", "width", "height", "fps", "steps", "guidance_scale", "flow_shift", "seed", "sound"),
    *("negative_prompt", "guardrails", "conditioning"),
)


def present_making(
    environment: WorkerEnvironment,
    model: ResidentModel,
    job: Job,
    made: Made,
    workdir: Path,
    timings: dict[str, float],
) -> Outcome:
    """Look at everything that an engine made, make the previews that were asked for, and write it all down; blocks.

    `timings` (seconds by phase) are the worker's; the engine's own come with what it made. Raises Failure
    (EngineFailed) where it is not what was asked for.
    """
    generation = made.generation
    assert job.generation is not None, "plan decides one for every generator"
    _refuse_others(job.generation, made, workdir)
    _refuse_unjudged(made, _requires_guardrails(environment))
    seen = [note for file in made.files for note in _look(file, generation, workdir)]
    files = _deliverables(job, made, workdir)
    cost = cost_of(environment, made.timings.get("generate", timings["infer"]))
    all_timings = {**waited(job), **timings, **made.timings}
    document = GeneratorDocument(
        model=model.stored.model,
        model_size=size_of(model.stored.model),
        revision=model.stored.commit,
        engine=model.engine.name,
        lossy=_lossy(model),
        pipeline=job.pipeline,
        job_id=job.job_id,
        timestamp=job.timestamp,
        input=None if job.input is None else _documented(job.input),
        more_inputs=[_documented(one) for one in job.more_inputs],
        generation=generation,
        guardrails=DocumentedGuardrails(
            requested=generation.guardrails, required=_requires_guardrails(environment), verdicts=made.checks
        ),
        files=[DocumentedFile(file=file.key.rpartition("/")[2], role=file.role, size=file.size) for file in files],
        notes=_notes(job, model, made, seen),
        facts=made.facts,
        timings=all_timings,
        **cost._asdict(),
        job_logs=job_logs(model.engine.startup_logs, made.logs, all_timings),
        batch_job_id=environment.aws_batch_job_id,
    )
    return Outcome(document.to_json(), all_timings, files=files)


def _notes(job: Job, model: ResidentModel, made: Made, seen: list[str]) -> list[str]:
    lossy = _lossy(model)
    return [
        *made.generation.notes,
        *made.notes,
        *seen,
        *([] if made.generation.guardrails else [UNGUARDED]),
        *([UNVERIFIED] if "notVerified" in (made.checks.prompt, made.checks.output) else []),
        *([NOISE] if model.stored.model.startswith(RANDOM_WEIGHTS) else []),
        *([LOSSY.format(" and ".join(lossy))] if lossy else []),
        *([] if job.origin is None else _other_than(job.origin, model)),
    ]


def _deliverables(job: Job, made: Made, workdir: Path) -> list[Deliverable]:
    """What was made, and the previews of it, by the names that they will have."""
    previews = [preview for file in made.files if file.role == "video" for preview in _previews(file, made, workdir)]
    return [
        Deliverable(workdir / file.name, file.role, output_key(job.document.key, file.role, made.generation))
        for file in (*made.files, *previews)
    ]


def expected_roles(generation: Generation) -> set[Role]:
    """What a mode makes."""
    if generation.mode == "t2i":
        return {"image"}
    if generation.mode == "inverse_dynamics":
        return {"actions"}
    return {"video", "actions"} if generation.mode == "policy" else {"video"}


def _documented(file: InputFile) -> DocumentedInput:
    return DocumentedInput(uri=file.uri, version_id=file.version_id)


def _lossy(model: ResidentModel) -> list[str]:
    return list(model.engine.lossy) if isinstance(model.engine, LossyEngine) else []


def _other_than(origin: Origin, model: ResidentModel) -> list[str]:
    """What is made again by something else is another thing, whatever the seed."""
    before = f"{origin.engine} with {origin.model} at {origin.revision}"
    now = f"{engine_label(model.engine.name, _lossy(model))} with {model.stored.model} at {model.stored.commit}"
    return [] if now == before else [f"Made by {now}; before, by {before}: it is not the same."]


def _refuse_others(asked: Generation, made: Made, workdir: Path) -> None:
    """Raises Failure where it is another generation, or another set of files, than was asked for."""
    # Imported here, as below: no worker needs the libraries of media before its engine has started.
    from cosmos_batch.media.errors import unusable_output

    for name in _KEPT:
        wanted, found = getattr(asked, name), getattr(made.generation, name)
        if wanted not in (None, found):
            raise unusable_output(f"what was not asked for: {name} is {found} instead of {wanted}")
    if not may_have_frames(asked, made.generation.num_frames):
        raise unusable_output(
            f"what was not asked for: num_frames is {made.generation.num_frames} instead of {asked.num_frames}"
        )
    if missing := [file.name for file in made.files if not (workdir / file.name).is_file()]:
        raise unusable_output(f"no {', '.join(missing)}, though it says so")
    roles, due = [file.role for file in made.files], expected_roles(made.generation)
    # An engine of inverse dynamics may hand out the video beside the actions: it made it anyway.
    if len(set(roles)) != len(roles) or not due <= set(roles) <= due | {"video"}:
        raise unusable_output(f"{', '.join(roles)} instead of {', '.join(sorted(due))}")


def _requires_guardrails(environment: WorkerEnvironment) -> bool:
    return environment.serving is not None and environment.serving.guardrails_required


def _refuse_unjudged(made: Made, required: bool) -> None:
    """Raise Failure where guardrails were asked for and their verdict on what would be delivered is missing.

    This does not rely on an engine's word that it checks: without a verdict nothing is delivered. A server that runs
    elsewhere reports none, so where guardrails are required its work is not delivered either.
    """
    if not made.generation.guardrails:
        return
    due = {"prompt": made.checks.prompt}
    if {file.role for file in made.files} & {"video", "image"}:
        due["output"] = made.checks.output
    enough = ("passed", "facesBlurred") if required else ("passed", "facesBlurred", "notVerified")
    if missing := [what for what, verdict in due.items() if verdict not in enough]:
        raise unjudged(f"They did not say whether they checked the {' and the '.join(missing)}.")


def _look(file: MadeFile, generation: Generation, workdir: Path) -> list[str]:
    from cosmos_batch.media import WantedVideo, check_image, check_video, exact_rate
    from cosmos_batch.media.errors import unusable_output

    path = workdir / file.name
    if file.role == "actions":
        _look_at_actions(path, generation)
        return []
    size, frames, fps = generation.size, generation.num_frames, generation.fps
    if size is None or frames is None or fps is None:
        raise unusable_output(f"{file.name} without a word about its size, frames or rate")
    if file.role == "image":
        return check_image(path, size.width, size.height)
    return check_video(path, WantedVideo(size.width, size.height, frames, exact_rate(fps), generation.sound))


def _look_at_actions(path: Path, generation: Generation) -> None:
    from cosmos_batch.media import check_actions, read_actions
    from cosmos_batch.media.errors import as_output_failure

    assert generation.action is not None, "only such modes have the role"
    with as_output_failure("array of actions"):
        rows = read_actions(path, generation.action.width)
    check_actions(rows, generation.action.chunk_size, generation.action.width)


def _previews(video: MadeFile, made: Made, workdir: Path) -> Iterator[MadeFile]:
    from cosmos_batch.media import VideoInfo, probe, write_contact_sheet, write_gif

    path = workdir / video.name
    found = probe(path)
    assert isinstance(found, VideoInfo), "it was looked at"
    if made.generation.preview:
        write_gif(path, found, workdir / "preview.gif")
        yield MadeFile(name="preview.gif", role="preview")
    if made.generation.contact_sheet:
        write_contact_sheet(path, found, workdir / "contact-sheet.jpg")
        yield MadeFile(name="contact-sheet.jpg", role="contactSheet")

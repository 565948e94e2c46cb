"""Estimate a run: probe a sample of its files, look up the workers, and put the numbers together."""

from collections.abc import Sequence
from dataclasses import dataclass

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.answered_before import answered_before
from cosmos_batch.cli.runs.header_sample import Sampled, probe_sample
from cosmos_batch.cli.runs.inputs import InputCounts
from cosmos_batch.cli.runs.local_inputs import LocalUploads
from cosmos_batch.cli.runs.run_request import RunSpec
from cosmos_batch.cli.runs.worker_facts import PACE_OF_LAST_JOBS, worker_facts
from cosmos_batch.contract.environment import DeployedPipeline
from cosmos_batch.contract.runs import RunItem, RunRequest
from cosmos_batch.planning.pace import typical_weight, weight_of_generation
from cosmos_batch.planning.runs.estimate import PipelineEstimate, RunEstimate, estimate_pipeline, mean_and_error
from cosmos_batch.planning.runs.item_checks import RunRules
from cosmos_batch.planning.runs.question_work import ProbedMedia, media_tokens, work_of_question
from cosmos_batch.planning.runs.service_costs import orchestration_dollars, storage_dollars_per_month


@dataclass(frozen=True)
class Counted:
    """The counts of a run's inputs. `items` is the number of items that each pipeline has to answer."""

    items: int
    input_counts: InputCounts
    uploads: LocalUploads
    copies: int
    unchecked: int
    sample: Sequence[RunItem]


def estimate_run(
    deployment: Deployment,
    spec: RunSpec,
    request: RunRequest,
    rules: RunRules,
    deployed: dict[str, DeployedPipeline],
    counted: Counted,
) -> RunEstimate:
    """Return the estimated time and price of the run.

    `request` is the request of the run as it will be stored, which names the prefix of the uploaded files.
    """
    sampled = probe_sample(deployment.clients("s3"), counted.sample, counted.uploads.local_path)
    before = answered_before(deployment, request, spec.sweep.varies)
    parts: list[PipelineEstimate] = []
    errors: list[float] = []
    for pipeline in rules.pipelines:
        facts = worker_facts(deployment, pipeline.id, deployed.get(pipeline.id))
        works = (
            [1.0]
            if facts.basis == PACE_OF_LAST_JOBS and pipeline.surface == "reasoner"
            else _works(pipeline, rules, sampled)
        )
        work, error = mean_and_error(works)
        errors += [] if error is None else [error]
        left = max(0, counted.items - before.items[pipeline.id])
        parts.append(estimate_pipeline(facts, left, work, spec.workers))
    items = counted.items * len(parts)
    input_counts, uploads = counted.input_counts, counted.uploads
    estimate = RunEstimate(
        files=input_counts.read,
        prompts=input_counts.prompts,
        items=items,
        bytes=input_counts.bytes,
        left_out=dict(input_counts.left_out),
        left_out_names=dict(input_counts.left_out_names),
        unchecked=counted.unchecked,
        uploads=len(uploads),
        upload_bytes=uploads.bytes,
        copies=counted.copies,
        error_share=max(errors, default=None),
        done=items - sum(part.items for part in parts),
        done_by=before.run,
        pipelines=parts,
        gpu_dollars=sum(part.gpu_dollars for part in parts),
        starting_dollars=sum(part.starting_dollars for part in parts),
        orchestration_dollars=orchestration_dollars(items, spec.request.table_only),
        storage_dollars_per_month=storage_dollars_per_month(items, uploads.bytes),
        hours=max(part.hours for part in parts),
        hours_with_workers=max(part.hours_with_workers or 0.0 for part in parts) if spec.workers else None,
    )
    total = estimate.gpu_dollars + estimate.starting_dollars + estimate.orchestration_dollars
    return estimate.model_copy(update={"dollars": total, **_facts_of_sample(sampled, input_counts)})


def _works(pipeline: Pipeline, rules: RunRules, sampled: Sequence[Sampled]) -> list[float]:
    """Return the work of each item of the sample, in units of the pipeline's pace."""
    if pipeline.surface == "generator":
        generations = [rules.generation_of(each.item, pipeline) for each in sampled]
        known = [weight_of_generation(generation) for generation in generations if generation is not None]
        return known or [typical_weight(pipeline.id)]
    works = [_work_of_question(each, rules) for each in sampled if each.header is not None]
    return works or [1.0]


def _work_of_question(sampled: Sampled, rules: RunRules) -> float:
    header, parameters = sampled.header, sampled.item.parameters or rules.request.parameters
    assert header is not None
    facts = ProbedMedia(header.medium, header.width, header.height, header.seconds)
    return work_of_question(media_tokens(facts, parameters))


def _facts_of_sample(sampled: Sequence[Sampled], input_counts: InputCounts) -> dict[str, object]:
    """Return how many files of the sample were read, and the length of all videos, estimated from their bytes."""
    named = [each for each in sampled if each.item.input is not None]
    read = [each for each in named if each.header is not None]
    seconds = sum(each.header.seconds for each in read if each.header is not None)
    sampled_bytes = sum(each.item.size or 0 for each in read)
    whole = input_counts.bytes / sampled_bytes if sampled_bytes else input_counts.read / max(1, len(read))
    return {"probed": len(read), "unreadable": len(named) - len(read), "video_seconds": seconds * whole}

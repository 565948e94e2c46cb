"""Plan a run: read its items from all sources, keep them on disk, and estimate what the run will take and cost."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.request_checks import Problems, size_of
from cosmos_batch.cli.runs.disk_buffers import LinesOnDisk, SeenIds
from cosmos_batch.cli.runs.estimate_run import Counted, estimate_run
from cosmos_batch.cli.runs.header_sample import Sample
from cosmos_batch.cli.runs.inputs import InputCounts, ListedInput
from cosmos_batch.cli.runs.local_inputs import LocalUploads
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.cli.runs.progress_counter import ProgressCounter
from cosmos_batch.cli.runs.run_claim import StartDigest, claim_run
from cosmos_batch.cli.runs.run_request import RunSpec
from cosmos_batch.cli.runs.sources import Sources, has_own_questions
from cosmos_batch.cli.runs.stored_run import StoredRun, stored_run
from cosmos_batch.cli.runs.web_copies import WebCopies
from cosmos_batch.contract.runs import RunItem, RunRequest, ShardRef
from cosmos_batch.planning.runs.estimate import RunEstimate, item_estimate
from cosmos_batch.planning.runs.item_checks import RunRules
from cosmos_batch.planning.runs.line_problems import FieldProblem
from cosmos_batch.planning.runs.other_files import other_files
from cosmos_batch.planning.runs.shards import item_line, shards_of
from cosmos_batch.planning.runs.web_addresses import WebAddresses


@dataclass(frozen=True)
class PlannedRun:
    """A run that could be started: its request, its estimate, and the objects in S3 that `write` writes.

    Attributes
    ----------
    request
        What is asked for all items.
    estimate
        What the run will take and cost.
    uploads
        The files of this machine that have to be uploaded first.
    copies
        The files at https addresses that have to be copied first.
    digest
        The `StartDigest` of its items and its request.
    """

    request: RunRequest
    estimate: RunEstimate
    uploads: LocalUploads
    copies: WebCopies
    digest: str
    _items: LinesOnDisk
    _objects: StoredRun

    def write(self) -> None:
        """Claim the run's name, upload files of this machine, then write the run's objects, with progress.

        Raises WrongCall where a different start has claimed the name.
        """
        claim_run(self._objects, self.digest)
        if len(self.uploads):
            self.uploads.upload()
        self.copies.copy()
        refs: list[ShardRef] = []
        with ProgressCounter("items written") as counting:
            for ref in in_parallel(self._write_shard, shards_of(self._items, self.request.id, self.request.pipelines)):
                refs.append(ref)
                counting.add(ref.items)
        self._objects.write_plan(refs, self.request, item_estimate(self.estimate))

    def refuse_over_budget(self) -> None:
        """Raise WrongCall if the run would cost more than it may."""
        limit = self.request.max_dollars
        if limit is not None and self.estimate.dollars > limit:
            raise WrongCall(
                f"The run would cost about ${self.estimate.dollars:,.2f}, and --max-dollars allows ${limit:,.2f}.",
                "Allow more, ask about fewer files, or take a smaller model.",
            )

    def close(self) -> None:
        """Delete the temporary files with the items, the uploads and the copies."""
        self._items.close()
        self.uploads.close()
        self.copies.close()

    def _write_shard(self, shard: tuple[ShardRef, bytes]) -> ShardRef:
        ref, content = shard
        self._objects.write_shard(ref.shard, content)
        return ref


def plan_run(
    deployment: Deployment, spec: RunSpec, to_come: Collection[str] = (), digests: Mapping[Path, str] | None = None
) -> PlannedRun:
    """Read and check all inputs, with progress, and estimate the run. Nothing is uploaded or started.

    The files at the URIs `to_come` will be there before the run starts, and are not looked at. `digests` are those of
    files of this machine which are placed by their contents, as `LocalUploads` does.

    Raises WrongCall where an input cannot be used, after all that are wrong were printed; Failure where the question
    can be asked about no file; CliError where S3 refuses.
    """
    _refuse_shared_files(deployment, spec.request, to_come)
    input_counts = InputCounts()
    uploads = LocalUploads(deployment.clients("s3"), deployment.asset_roots, digests)
    deployed = deployment.deployed_pipelines(spec.request.pipelines)
    servings = {name: each.queue.serving for name, each in deployed.items() if each.queue.serving is not None}
    copies = WebCopies(deployment.clients("s3"))
    web = WebAddresses(deployment.input_hosts, next(iter(deployment.asset_roots), ""), copies.note)
    engines = {name: each.queue.identity.engine for name, each in deployed.items()}
    rules = RunRules(spec.request, spec.sweep, deployment.asset_roots, servings, web, engines)
    if not all(map(has_own_questions, spec.sources)):
        rules.refuse_question()
    sources = Sources(deployment, spec.selection, rules, input_counts, uploads)
    items = LinesOnDisk()
    sample, digest = Sample(), StartDigest()
    for item in _items(spec, sources, rules, input_counts, sample):
        items.add(item_line(item))
        digest.add(item)
    input_counts.refuse_wrong_lines(spec.skip_invalid)
    request = spec.request
    if request.output is not None and request.input_root is None:
        request = request.model_copy(update={"input_root": uploads.root})
    counted = Counted(len(items), input_counts, uploads, len(copies), sources.unchecked, sample.items)
    estimate = estimate_run(deployment, spec, request, rules, deployed, counted)
    objects = stored_run(deployment, request.id)
    return PlannedRun(request, estimate, uploads, copies, digest.with_request(request), items, objects)


def _refuse_shared_files(deployment: Deployment, request: RunRequest, to_come: Collection[str]) -> None:
    """Raise WrongCall that names the files beside the input of every item that do not exist or cannot be used."""
    problems = Problems()
    for file in other_files(request.parameters, request.generation):
        # Names that are no URIs are those of files beside each input.
        if file.name.startswith("s3://") and file.name not in to_come:
            problems.check(file.name, partial(size_of, deployment, file.name, file.extensions))
    problems.raise_all()


def _items(
    spec: RunSpec, sources: Sources, rules: RunRules, input_counts: InputCounts, sample: Sample
) -> Iterator[RunItem]:
    """Yield the items of all inputs that can be used, and report the others. Inputs are sampled before the sweep."""
    seen = SeenIds()
    try:
        for listed in (
            sources.inputs(spec.sources) if spec.sources else [ListedInput(RunItem(id="prompt"), "--prompt", 0)]
        ):
            problems = list(rules.problems(listed.item)) if listed.line == 0 else []
            problems = problems or list(_repeated_id(seen, listed))
            for problem in problems:
                input_counts.refuse(problem.at(listed.source, listed.line))
            if not problems:
                input_counts.take(listed.item)
                if not (listed.item.input or "").startswith(rules.web.folder):
                    sample.add(listed.item)
                yield from spec.sweep.items(listed.item, spec.request)
    finally:
        seen.close()


def _repeated_id(seen: SeenIds, listed: ListedInput) -> Iterator[FieldProblem]:
    first = seen.add(listed.item.id, f"{listed.source}, line {listed.line}" if listed.line else listed.source)
    if first is not None:
        remedy = "Give each its own `id`." if listed.line else "Name each file once, or the folder above all of them."
        yield FieldProblem("id", f"{listed.item.id!r} is used twice, first in {first}.", remedy)

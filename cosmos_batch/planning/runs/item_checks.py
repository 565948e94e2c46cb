"""Check every item of a run before the run starts: places, kinds of files, prompts and parameters."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from cosmos_batch.catalogue.formats import EXTENSIONS, Medium, medium_of
from cosmos_batch.catalogue.pipelines import Pipeline, Surface, pipeline_named
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.runs import RunItem, RunRequest
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.planning.generation.settling import settle
from cosmos_batch.planning.input_files import locate, refuse_name, refuse_prompt_size
from cosmos_batch.planning.questions import refuse_cut_of_image, refuse_unseen_files, settle_question
from cosmos_batch.planning.runs.line_problems import FieldProblem
from cosmos_batch.planning.runs.other_files import OtherFile, other_files
from cosmos_batch.planning.runs.sweep import Sweep
from cosmos_batch.planning.runs.web_addresses import WebAddresses


class RunRules:
    """The rules for the items of one run.

    Args:
        request: What is asked for all items.
        sweep: Its prompts and seeds.
        roots: `bucket` or `bucket/prefix/`, where files may lie; anywhere for None.
        servings: By pipeline, the settings of its deployed generator; what it cannot make is refused with them.
        engines: By pipeline, its configured engine; files that a reasoner's engine cannot look at are refused.
        web: What may be fetched from https addresses that a manifest names; nothing if absent.
    """

    def __init__(
        self,
        request: RunRequest,
        sweep: Sweep,
        roots: Sequence[str] | None,
        servings: Mapping[str, Serving] | None = None,
        web: WebAddresses | None = None,
        engines: Mapping[str, str] | None = None,
    ) -> None:
        self.request = request
        self.sweep = sweep
        self._roots = None if roots is None else list(roots)
        self._servings = servings or {}
        self._engines = engines or {}
        self.web = web or WebAddresses()
        self._refusals_by_medium: dict[Medium | None, list[FieldProblem]] = {}

    @cached_property
    def pipelines(self) -> list[Pipeline]:
        """Return the run's pipelines. Raises Failure where one is unknown, or where they are of two kinds."""
        known_or_none = [pipeline_named(name) for name in self.request.pipelines]
        pipelines = [pipeline for pipeline in known_or_none if pipeline is not None]
        if len(pipelines) < len(known_or_none) or len({pipeline.surface for pipeline in pipelines}) != 1:
            raise Failure(
                "InvalidInput",
                f"{', '.join(self.request.pipelines)} cannot answer the same run.",
                "Name reasoners alone or generators alone: their parameters differ.",
            )
        return pipelines

    @property
    def surface(self) -> Surface:
        """Return whether the run's pipelines are reasoners or generators."""
        return self.pipelines[0].surface

    def generation_of(self, item: RunItem, pipeline: Pipeline) -> Generation | None:
        """Return the settled generation of an item; None for a reasoner, or if the generator's settings are unknown."""
        serving = self._servings.get(pipeline.id)
        if serving is None:
            return None
        prompt = item.prompt or self.request.prompt or (self.sweep.prompts[0] if self.sweep.prompts else None)
        medium = medium_of(item.input) if item.input else None
        return settle(self._generation_parameters(item), prompt, pipeline, medium, item.id, serving)

    def _generation_parameters(self, item: RunItem) -> GenerationParameters:
        return item.generation or self.request.generation or GenerationParameters()

    def refuse_question(self) -> None:
        """Raise Failure (InvalidInput) if the run's question is refused for images and for videos alike."""
        of_images, of_videos = (list(self._refusals(RunItem(id="any"), medium)) for medium in ("image", "video"))
        for problem in of_videos:
            if problem in of_images:
                field = f"{problem.field}: " if problem.field else ""
                raise Failure("InvalidInput", field + problem.message, problem.remedy)

    def problems(self, item: RunItem) -> Iterator[FieldProblem]:
        """Yield what is wrong with an item."""
        files = [item.input] if item.input is not None else []
        more = (item.parameters or self.request.parameters).more_inputs or []
        if not files and self.surface == "reasoner":
            yield FieldProblem("input", "is missing.", 'Name the file: "input": "s3://my-bucket/folder/clip.mp4".')
            return
        if not files and self.request.output is None:
            yield FieldProblem(
                "input", "is missing, and the run has no output.", "Say where to write: --output s3://..."
            )
            return
        bad = list(self._place_problems(files, other_files(item.parameters, item.generation))) or list(
            self._engine_problems(files, more)
        )
        yield from bad
        if bad:
            return
        medium = medium_of(*files, *more) if files else None
        yield from self._request_problems(item, medium)

    def _place_problems(self, files: list[str], others: list[OtherFile]) -> Iterator[FieldProblem]:
        first = parse_uri(files[0]) if files else None
        for field, name, extensions in [*(OtherFile("input", name, EXTENSIONS) for name in files), *others]:
            try:
                location = locate(field, name, first)
                refuse_name(field, location, [location.bucket] if self._roots is None else self._roots, extensions)
            except Failure as failure:
                yield FieldProblem.of(field, failure)

    def _engine_problems(self, files: list[str], more: list[str]) -> Iterator[FieldProblem]:
        """Yield a problem for each pipeline whose engine cannot look at the files.

        The files of a generator are checked with its mode, in `settle`.
        """
        if self.surface == "generator":
            return
        for engine in {self._engines[name] for name in self.request.pipelines if name in self._engines}:
            try:
                refuse_unseen_files(engine, files[0], more)
            except Failure as failure:
                yield FieldProblem.of("input", failure)

    def _request_problems(self, item: RunItem, medium: Medium | None) -> Iterator[FieldProblem]:
        """Yield what is wrong with the prompt and the parameters of an item.

        Items that have none of their own are checked once for each medium, because the result is the same.
        """
        if any(value is not None for value in (item.prompt, item.system_prompt, item.parameters, item.generation)):
            yield from self._refusals(item, medium)
            return
        if medium not in self._refusals_by_medium:
            self._refusals_by_medium[medium] = list(self._refusals(item, medium))
        yield from self._refusals_by_medium[medium]

    def _refusals(self, item: RunItem, medium: Medium | None) -> Iterator[FieldProblem]:
        prompts: Sequence[str | None] = self.sweep.prompts or [self.request.prompt]
        if item.prompt is not None:
            prompts = [item.prompt]
        for prompt in prompts:
            try:
                refuse_prompt_size(len((prompt or "").encode()))
            except Failure as failure:
                yield FieldProblem.of("prompt", failure)
                continue
            yield from self._refused_by_pipelines(item, prompt, medium)

    def _refused_by_pipelines(self, item: RunItem, prompt: str | None, medium: Medium | None) -> Iterator[FieldProblem]:
        try:
            if self.surface == "reasoner":
                _refuse_question(item.parameters or self.request.parameters, prompt, medium or "video")
                return
            generation = self._generation_parameters(item)
            for pipeline in self.pipelines:
                if pipeline.id in self._servings:
                    settle(generation, prompt, pipeline, medium, item.id, self._servings[pipeline.id])
                elif not prompt:
                    yield FieldProblem("prompt", "is missing.", "Say what to make.")
        except Failure as failure:
            yield FieldProblem.of(_field_of(failure), failure)


def _refuse_question(parameters: Parameters, prompt: str | None, medium: Medium) -> None:
    refuse_cut_of_image(parameters, medium)
    settle_question(parameters, prompt, None, medium)


def _field_of(failure: Failure) -> str:
    """Return the field with which a refusal's message begins, such as `numFrames: ...`; "" if it begins otherwise."""
    field, colon, _ = failure.error.message.partition(": ")
    return field if colon and field.isidentifier() else ""

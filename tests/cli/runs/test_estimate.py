"""The estimate of a run: from the files' headers, the deployed workers and their measured pace."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.main import main
from cosmos_batch.cli.runs.header_sample import RangeReader, Sample
from cosmos_batch.cli.runs.plan_report import plan_lines
from cosmos_batch.cli.runs.run_plan import PlannedRun, plan_run
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.contract.environment import DeployedCompute, DeployedPipeline, DeployedQueue
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.runs import ORIGIN_LIMIT, RunItem, RunRequest, RunSummary
from cosmos_batch.contract.s3 import S3Location
from cosmos_batch.planning.generation.prompts import prompt_text
from cosmos_batch.planning.pace import first_seconds_per_unit
from cosmos_batch.planning.runs.estimate import FIRST_COLD_START_SECONDS, IDLE_SECONDS
from cosmos_batch.state import RunRow, ShardRow, Table
from tests.cli.conftest import PIPELINE
from tests.cli.runs.conftest import ask
from tests.support import nvidia_files

Plan = Callable[..., PlannedRun]
Put = Callable[..., None]

INSTANCE = INSTANCE_TYPES["g6e.12xlarge"]
FIRST_GUESS = first_seconds_per_unit(PIPELINE, "L40S", 1)


@pytest.fixture
def deployment(deployment: Deployment) -> Deployment:
    """Provide a deployment whose pipelines' parameters can be read, one of them a generator."""
    ssm = deployment.clients("ssm")
    names = [*deployment.pipelines, "cosmos3-nano"]
    for name in names:
        serving = Serving(engine="diffusers", guardrails=False, max_resolution="720p", plans={})
        identity = Identity(model="/models/m", engine="e", configuration="c")
        pipeline = DeployedPipeline(
            queue=DeployedQueue(
                id=name, queue_url="q", identity=identity, serving=serving if name == "cosmos3-nano" else None
            ),
            compute=DeployedCompute(
                id=name,
                queue_url="q",
                job_queue="j",
                job_definition="d",
                max_workers=16,
                vcpus=12,
                max_life_hours=24,
                instance_types=["g6e.12xlarge"],
            ),
        )
        ssm.put_parameter(Name=name, Type="String", Value=pipeline.model_dump_json())
    return replace(deployment, pipelines=names, parameters={name: name for name in names})


@pytest.fixture
def clips(put: Put, clip: Path) -> None:
    """Upload ten clips, and one that is damaged."""
    put(*(f"clips/{number}.mp4" for number in range(10)), body=clip.read_bytes())
    put("clips/damaged.mp4", body=b"no video")


@pytest.mark.usefixtures("clips")
def test_a_sample_is_probed_and_the_first_guess_is_priced(plan: Plan) -> None:
    estimate = plan("s3://assets/clips/", "--workers", "2").estimate
    assert (estimate.files, estimate.items, estimate.probed, estimate.unreadable) == (11, 11, 10, 1)
    assert estimate.video_seconds == pytest.approx(40, rel=0.3)
    [part] = estimate.pipelines
    assert "first guess" in part.basis and part.gpu == "1 x L40S" and part.max_workers == 16
    assert part.gpu_dollars == pytest.approx(part.gpu_hours * INSTANCE.dollars_per_hour / INSTANCE.gpus)
    whole_instance = INSTANCE.dollars_per_hour * (FIRST_COLD_START_SECONDS + IDLE_SECONDS) / 3600
    assert part.starting_dollars == pytest.approx(whole_instance + 3 * part.gpu_dollars), "one of four GPUs is used"
    assert estimate.dollars == pytest.approx(
        estimate.gpu_dollars + estimate.starting_dollars + estimate.orchestration_dollars
    )
    assert estimate.hours_with_workers is not None and estimate.hours_with_workers > estimate.hours


@pytest.mark.usefixtures("clips")
def test_longer_media_and_more_frames_cost_more(plan: Plan) -> None:
    slow, fast = (plan("s3://assets/clips/", "--fps", fps).estimate.gpu_dollars for fps in ("1", "8"))
    assert fast > 2 * slow


@pytest.mark.usefixtures("clips")
def test_what_an_item_is_expected_to_take_is_written_for_the_budget(plan: Plan, deployment: Deployment) -> None:
    slow, fast = (plan("s3://assets/clips/", "--fps", fps) for fps in ("1", "8"))
    written = []
    for planned in (slow, fast):
        planned.write()
        written.append(stored_run(deployment, planned.request.id).estimate().gpu_seconds[PIPELINE])
        [part] = planned.estimate.pipelines
        assert written[-1] * part.items == pytest.approx(part.gpu_hours * 3600)
    assert written[1] > 2 * written[0]


@pytest.mark.usefixtures("clips")
def test_the_measured_pace_of_the_pipelines_jobs_is_used(plan: Plan, deployment: Deployment) -> None:
    deployment.workers(PIPELINE).measured(seconds_per_unit=36.0)
    [part] = plan("s3://assets/clips/").estimate.pipelines
    assert (part.worker_hours, part.basis) == (pytest.approx(0.11), "the pace of its last jobs")


@pytest.mark.usefixtures("clips")
def test_the_guess_that_scaling_writes_for_a_new_pipeline_is_no_measured_pace(
    plan: Plan, deployment: Deployment
) -> None:
    before = plan("s3://assets/clips/").estimate
    deployment.workers(PIPELINE).measured(seconds_per_unit=first_seconds_per_unit(PIPELINE, "L40S", 1))
    assert plan("s3://assets/clips/").estimate == before
    assert "first guess" in before.pipelines[0].basis


@pytest.mark.usefixtures("clips")
def test_the_pace_of_an_earlier_run_is_used_by_its_tokens(plan: Plan, deployment: Deployment) -> None:
    deployment.workers(PIPELINE).measured(seconds_per_unit=36.0)
    at = datetime(2026, 11, 20, tzinfo=UTC)
    items, guess = 100, plan("s3://assets/clips/", "--pipeline", "cosmos-reason2-8b").estimate.pipelines[0]
    summary = RunSummary(
        id="earlier", state="SUCCEEDED", items=items, succeeded=items, failed=0, cancelled=0, reused=0,
        prompt_tokens=2472 * items, gpu_seconds=0.5 * items, started_at=at, ended_at=at,
    )  # fmt: skip
    row = RunRow(id="earlier", state="SUCCEEDED", pipelines=[PIPELINE], items=items, started_at=at.isoformat())
    deployment.runs.create(row)
    deployment.clients("s3").put_object(
        Bucket="state", Key="runs/earlier/summary.json", Body=summary.model_dump_json().encode()
    )
    [part] = plan("s3://assets/clips/").estimate.pipelines
    assert part.basis == "the pace of earlier"
    of_8b = first_seconds_per_unit("cosmos-reason2-8b", "L40S", 1)
    assert part.worker_hours == pytest.approx(guess.worker_hours * 0.5 / of_8b), "0.5 s for each unit of work"


def record(deployment: Deployment, request: RunRequest, succeeded: int) -> None:
    """Write what an earlier run leaves: its row, its request and a shard that has ended."""
    at = datetime(2026, 11, 20, tzinfo=UTC).isoformat()
    row = RunRow(id=request.id, state="SUCCEEDED", pipelines=request.pipelines, started_at=at, origin=request.origin)
    deployment.runs.create(row)
    deployment.clients("s3").put_object(
        Bucket="state", Key=f"runs/{request.id}/run.json", Body=request.model_dump_json().encode()
    )
    shard = ShardRow(run=request.id, shard="00000", pipeline=PIPELINE, items=11, state="ENDED", succeeded=succeeded)
    state = {name: value for name, value in shard.model_dump(by_alias=True).items() if value != set()}
    Table(deployment.clients("dynamodb"), "state").put_new(f"run#{request.id}", "shard#00000", state)


@pytest.mark.usefixtures("clips")
def test_what_an_earlier_run_has_answered_costs_nothing(plan: Plan, deployment: Deployment) -> None:
    arguments = ("s3://assets/clips/", "--prompt", "What?")
    first = plan(*arguments)
    record(deployment, first.request.model_copy(update={"id": "earlier"}), succeeded=11)
    again = plan(*arguments, "--max-dollars", "5").estimate
    assert (again.items, again.done, again.done_by, again.gpu_dollars, again.hours) == (11, 11, "earlier", 0, 0)
    other = plan("s3://assets/clips/", "--prompt", "Why?").estimate
    assert (other.done, other.gpu_dollars) == (0, first.estimate.gpu_dollars)


@pytest.mark.parametrize(
    ("earlier", "later"), [(["x" * 2000, "a"], ["x" * 2000, "b"]), ([], ["--episode 0-2", "x" * 2000])]
)
@pytest.mark.usefixtures("clips")
def test_inputs_with_many_names_are_told_from_each_other_and_from_episodes(
    earlier: list[str], later: list[str], deployment: Deployment
) -> None:
    """Clips that are cut out of episodes have other names each time; such an origin begins with `--episode`."""

    def estimate(origin: list[str]) -> tuple[RunRequest, int]:
        planned = plan_run(deployment, ask(deployment, "s3://assets/clips/", origin=" ".join(origin)))
        planned.close()
        return planned.request, planned.estimate.done

    first, _ = estimate(earlier or later)
    record(deployment, first.model_copy(update={"id": "earlier"}), succeeded=11)
    assert len(first.origin or "") <= ORIGIN_LIMIT
    assert estimate(later)[1] == 0
    assert estimate(earlier)[1] == (11 if earlier else 0)


@pytest.mark.usefixtures("clips")
def test_what_an_earlier_run_has_answered_in_part_is_subtracted(plan: Plan, deployment: Deployment) -> None:
    first = plan("s3://assets/clips/")
    record(deployment, first.request.model_copy(update={"id": "earlier"}), succeeded=5)
    again = plan("s3://assets/clips/").estimate
    assert again.done == 5
    assert again.gpu_dollars == pytest.approx(first.estimate.gpu_dollars * 6 / 11)


def test_generations_are_weighed_by_what_they_make(plan: Plan) -> None:
    def dollars(*options: str) -> float:
        arguments = ("--pipeline", "cosmos3-nano", "--prompt", "A robot.", "--prompt", "A cat.", "--seeds", "1-3")
        planned = plan(*arguments, *options)
        assert planned.request.output == "s3://assets/made/"
        estimate = planned.estimate
        assert (estimate.files, estimate.items) == (1, 6)
        return estimate.gpu_dollars

    assert dollars() > 0


def test_a_generators_prompt_is_read_from_its_file(plan: Plan, tmp_path: Path) -> None:
    structured = nvidia_files.structured_prompt(tmp_path)
    request = plan("--pipeline", "cosmos3-nano", "--prompt", f"@{structured}").request
    assert request.prompt == prompt_text("prompt", nvidia_files.STRUCTURED_PROMPT)


def test_what_starts_from_text_is_no_file_of_the_plan(plan: Plan, put: Callable[..., None], tmp_path: Path) -> None:
    def inputs(*arguments: str) -> str:
        return list(plan_lines("run", plan("--pipeline", "cosmos3-nano", *arguments).estimate))[1]

    assert inputs("--prompt", "A robot.") == "  inputs   prompts alone, no file"
    put("first.png")
    lines = [{"id": "1", "prompt": "Rain."}, {"id": "2", "prompt": "Rain.", "input": "s3://assets/first.png"}]
    (tmp_path / "asked.jsonl").write_text("\n".join(map(json.dumps, lines)))
    shown = inputs(str(tmp_path / "asked.jsonl"), "--output", "s3://assets/made/")
    assert shown.startswith("  inputs   1 file, 7 B") and "and 1 prompt without a file" in shown


def test_generators_take_parameters_of_a_file(plan: Plan, tmp_path: Path) -> None:
    settings = tmp_path / "made.json"
    made = {}
    for steps in (10, 20):
        settings.write_text(json.dumps({"numSteps": steps, "mode": "t2v"}))
        arguments = ("--pipeline", "cosmos3-nano", "--prompt", "A robot.", "--parameters", str(settings))
        made[steps] = plan(*arguments).estimate.gpu_dollars
    assert made[20] == pytest.approx(2 * made[10])


@pytest.mark.usefixtures("clips")
def test_a_run_over_its_budget_is_refused_after_the_plan_is_shown(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    assert main(["runs", "plan", "s3://assets/clips/", "--max-dollars", "0.01"]) == 2
    printed = capsys.readouterr()
    assert "11 files" in printed.out and "no size in the header of 1 of the sample" in printed.out
    assert "--max-dollars allows $0.01" in printed.err
    assert main(["runs", "plan", "s3://assets/clips/", "--max-dollars", "100", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["files"] == 11
    assert "quota" in printed.err, "what could not be checked, or would stop the run, is named"


def test_a_local_file_is_probed_where_it_lies(plan: Plan, clip: Path) -> None:
    planned = plan(str(clip))
    assert (planned.estimate.probed, planned.estimate.uploads) == (1, 1)


def test_a_parameter_that_is_gone_does_not_keep_from_planning(deployment: Deployment, put: Put) -> None:
    put("a.mp4")
    other = replace(deployment, parameters={PIPELINE: "gone"})
    assert plan_run(other, ask(other, "s3://assets/a.mp4")).estimate.items == 1


def test_without_the_pipelines_parameter_the_catalogue_is_used(deployment: Deployment, put: Put) -> None:
    put("a.mp4")
    older = replace(deployment, parameters={})
    [part] = plan_run(older, ask(older, "s3://assets/a.mp4")).estimate.pipelines
    assert part.max_workers == 1 and part.gpu == "1 x L40S"


def test_a_sample_is_drawn_from_everywhere() -> None:
    sample = Sample(100)
    for number in range(10_000):
        sample.add(RunItem(id=str(number)))
    numbers = sorted(int(item.id) for item in sample.items)
    assert len(numbers) == 100
    assert 3_500 < sum(numbers) / 100 < 6_500 and numbers[0] < 1_000 and numbers[-1] > 9_000


def test_ranges_are_read_as_a_file(deployment: Deployment) -> None:
    content = bytes(range(256)) * 4096
    s3 = deployment.clients("s3")
    s3.put_object(Bucket="assets", Key="a", Body=content)
    reader = RangeReader(s3, S3Location("assets", "a"), len(content))
    reader.seek(-3, 2)
    assert reader.read(10) == content[-3:]
    reader.seek(100)
    assert reader.read(5) == content[100:105]
    assert RangeReader(s3, S3Location("assets", "a"), len(content)).readall() == content
    with pytest.raises(OSError, match="too long"):
        RangeReader(s3, S3Location("assets", "a"), len(content), limit=1).readall()


def test_a_budget_is_no_refusal_if_it_is_enough(plan: Plan, put: Put) -> None:
    put("a.mp4")
    plan("s3://assets/a.mp4", "--max-dollars", "1000").refuse_over_budget()
    with pytest.raises(WrongCall):
        plan("s3://assets/a.mp4", "--max-dollars", "0.001").refuse_over_budget()

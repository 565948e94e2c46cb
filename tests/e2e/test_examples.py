"""The examples of every --help do what they say, on one local cloud with engines that have no models."""

import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import httpx
import pytest

from cosmos_batch.cli import configuration
from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand
from cosmos_batch.cli.commands import local
from cosmos_batch.cli.main import main
from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.local.cloud import LocalCloud
from tests.support import media_files
from tests.support.command_line import commands
from tests.support.console_documents import write_answer
from tests.support.deployed_app import text_with_nano, wait_for
from tests.support.model_hub import Hub
from tests.support.robot_data_set import write_v21
from tests.support.served_page import served_page

# What cannot be run here, by a part of it, and why.
NOT_HERE = {
    "--edge --blur": "the engine here computes no controls; tests/e2e/test_generator_modes.py has one that does",
}
# Added to what a generator is to make, so that it does not take minutes to write. With an action chunk the size is set.
SMALL = ("--resolution", "256p", "--num-frames", "25")
FAILS_AGAIN = "retry RUN --code"  # its items are broken here, and --watch waits for them
RUNS, FAILED_RUN = ("tuesday", "wednesday"), "failed"
LAST = ("cosmos-batch local down", "cosmos-batch local down --discard")
# What examples name and this machine does not have, and what takes its place: the Hub's model that `run` would load,
# a port that another program may have, and a code of failures that take hours.
SUBSTITUTES = {
    "run": {"nvidia/Cosmos-Reason2-2B": str(DEMO_REASON)},
    "console": {"8800": "0"},
    "view": {"8800": "0"},
    "runs": {"TimedOut": "EngineFailed"},
}


def examples_by_command() -> list[list[str]]:
    """Return the examples of each command, in the order of --help."""
    return [list(command.examples) for command in commands().values() if isinstance(command, CosmosCommand)]


def examples() -> list[str]:
    """Return the examples of all commands."""
    return list(chain(*examples_by_command()))


def first_of_each_command(chosen: list[str]) -> list[pytest.ParameterSet]:
    """Return examples as parameters of a test: `make test` takes the first of each command, CI all of them."""
    first = {next((one for one in of_command if one in chosen), None) for of_command in examples_by_command()}
    return [pytest.param(one, marks=() if one in first else pytest.mark.slow, id=one) for one in chosen]


HERE = [example for example in examples() if example not in LAST and not any(part in example for part in NOT_HERE)]
SERVED = [example for example in HERE if re.search(" (console|view) ?", example) and "--export" not in example]


@dataclass
class Typed:
    """An example as a shell would read it: variables, the program's arguments, and the file of standard output."""

    variables: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    output: tuple[str, str] | None = None  # the path, and the mode in which it is opened

    @classmethod
    def read(cls, line: str) -> "Typed":
        """Read a line of the shell, as far as examples use its language."""
        command = re.sub(r'^eval "\$\((.*)\)"$', r"\1", line)
        command, *redirected = re.split(r" (>>?) ", command)
        words = shlex.split(command)
        program = words.index("cosmos-batch")
        variables = dict(word.split("=", 1) for word in words[:program])
        arguments = [name for word in words[program + 1 :] for name in _matching(word)]
        output = (redirected[1], "a" if redirected[0] == ">>" else "w") if redirected else None
        return cls(variables, arguments, output)


def _matching(word: str) -> list[str]:
    """Return the files here that a pattern means, as a shell does; any other word is itself."""
    return (sorted(str(path) for path in Path().glob(word)) if "*" in word else []) or [word]


@dataclass
class Place:
    """A folder with the files that examples name, beside a local cloud."""

    monkeypatch: pytest.MonkeyPatch
    folder: Path
    bucket: str = "my-bucket"
    succeeded: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    cancelled_runs: list[str] = field(default_factory=list)

    def run(self, line: str) -> tuple[int, str]:
        """Run a line, say yes to what it asks, and return its exit status and what it printed to standard output."""
        typed = Typed.read(line)
        arguments = self.substituted(typed.arguments)
        if arguments[0] == "generate" and not arguments[1].endswith(".json"):
            arguments += SMALL[: 2 if "--action-chunk-size" in arguments else 4]
        printed = io.StringIO()
        with self.monkeypatch.context() as here, redirect_stdout(printed):
            here.setattr(sys, "stdin", Terminal("y\n"))
            for name, value in typed.variables.items():
                here.setenv(name, value)
            status = main(arguments)
        if typed.output is not None:
            path = Path(typed.output[0]).expanduser()
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open(typed.output[1]) as file:
                file.write(printed.getvalue())
        return status, printed.getvalue()

    def substituted(self, arguments: list[str]) -> list[str]:
        """Return the words with what is here for what they name."""
        substitutes = {"my-bucket": self.bucket, **SUBSTITUTES.get(arguments[0], {})}
        words = self._with_ids(arguments)
        for name, substitute in substitutes.items():
            words = [word.replace(name, substitute) for word in words]
        return words

    def renew_answers(self) -> None:
        """Leave one document in `answers`: those of one second have one name, and what is there already is kept."""
        shutil.rmtree(self.folder / "answers", ignore_errors=True)
        write_answer(self.folder / "answers" / "clip_CosmosReason_20260101-120000.json")
        shutil.copy(self.folder / "clip.mp4", self.folder / "answers")

    def _with_ids(self, arguments: list[str]) -> list[str]:
        """Return the words with ids of jobs and names of runs that have ended as the command needs it."""
        jobs = iter(self.failed if "retry" in arguments else self.succeeded)
        runs = iter({"retry": [FAILED_RUN], "resume": self.cancelled_runs[-1:]}.get(" ".join(arguments[1:2]), RUNS))
        if "resume" in arguments and "RUN" in arguments:
            self.cancelled_runs.pop()
        named = {"ID": jobs, "RUN": runs, "RUN1": runs, "RUN2": runs}
        return [next(named[word]) if word in named else word for word in arguments]


class Terminal(io.StringIO):
    """Standard input at which a person sits."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Provide the folder, a local cloud that `local up` has started, and jobs that have ended there."""
    folder = tmp_path_factory.mktemp("examples")
    home = folder / "home"
    _write_files(folder)
    with pytest.MonkeyPatch.context() as monkeypatch, Hub() as hub:
        hub.direct_this_process(monkeypatch, folder)
        for model in ("nvidia/Cosmos-Reason2-2B", "nvidia/Cosmos-Reason2-8B"):
            hub.add(model, DEMO_REASON)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("BROWSER", "true %s")  # a program that ends well and shows nothing
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setenv("COSMOS_BATCH_HOME", str(home))
        monkeypatch.setattr(configuration, "CONFIG", folder / "config.json")
        monkeypatch.setattr(local, "CONFIG", folder / "config.json")
        place = Place(monkeypatch, folder)
        try:
            status, exports = place.run('eval "$(cosmos-batch local up --export)"')
            assert status == 0
            for line in exports.splitlines():
                name, _, value = line.removeprefix("export ").partition("=")
                monkeypatch.setenv(name, shlex.split(value)[0])
            place.succeeded = _ended(place, "What happens?", 0)
            place.failed = _ended(place, json.dumps({"raise": "broken"}), 1)
            _put_objects(place)
            _start_runs(place)
            yield place
        finally:
            if cloud := LocalCloud.find(home):
                cloud.stop()


def _write_files(folder: Path) -> None:
    (folder / "config.json").write_text(text_with_nano(folder))
    media_files.video(folder / "clip.mp4", frames=30)
    media_files.image(folder / "first.png", width=320, height=192)
    (folder / "clips").mkdir()
    (folder / "clips" / "cam").mkdir()
    for name in ("clip.mp4", "cam/front.mp4"):
        shutil.copy(folder / "clip.mp4", folder / "clips" / name)
    for name in ("pusht", "libero"):
        write_v21(folder / name)
    request = {"prompt": "A robot pours water.", "resolution": "256p", "numFrames": 25}
    (folder / "pour.cosmos.json").write_text(json.dumps(request))


def _ended(place: Place, prompt: str, status: int) -> list[str]:
    """Submit two jobs, and return their ids when they have ended with this exit status. Two files would be a run."""
    ids = []
    for name in ("clip.mp4", "first.png"):
        submitted, printed = place.run(f"cosmos-batch submit {name} --prompt {shlex.quote(prompt)}")
        assert submitted == 0
        ids += printed.split()
    assert len(ids) == 2
    assert place.run(f"cosmos-batch wait {' '.join(ids)}")[0] == status
    return ids


def _put_objects(place: Place) -> None:
    """Put a clip below `clips/` in the bucket of the deployment, and write a manifest that names it."""
    deployment = deployments.find()
    place.bucket = deployment.asset_roots[0]
    deployment.clients("s3").upload_file(str(place.folder / "clip.mp4"), place.bucket, "clips/clip.mp4")
    line = {"id": "first", "input": f"s3://{place.bucket}/clips/clip.mp4", "prompt": "What happens?"}
    (place.folder / "requests.jsonl").write_text(json.dumps(line))


def _start_runs(place: Place) -> None:
    """Start two runs that are answered, one that fails, and two that are cancelled and can go on."""
    go = place.folder / "go"
    place.cancelled_runs = ["cancelled-1", "cancelled-2"]
    prompts = {
        **{name: f"What happens on {name}?" for name in RUNS},
        FAILED_RUN: json.dumps({"raise": "broken"}),
        **{name: json.dumps({"until": str(go), "text": name}) for name in place.cancelled_runs},
    }
    for name, prompt in prompts.items():
        start = f"cosmos-batch runs start clips/ --name {name} --yes --prompt {shlex.quote(prompt)}"
        assert place.run(start)[0] == 0
    for name in place.cancelled_runs:
        wait_for(partial(_is_under_way, place, name), 120, f"the items of {name} were not fed")
    assert place.run(f"cosmos-batch runs cancel {' '.join(place.cancelled_runs)}")[0] == 0
    for name in prompts:
        assert place.run(f"cosmos-batch runs watch {name}")[0] == (0 if name in RUNS else 1), name
    go.touch()


def _is_under_way(place: Place, run: str) -> bool:
    return bool(json.loads(place.run(f"cosmos-batch runs show {run} --json")[1])["inFlight"])


def test_every_example_is_run_or_said_to_be_impossible_here() -> None:
    assert set(LAST) <= set(examples())
    for part in NOT_HERE:
        assert any(part in example for example in examples()), f"{part} is in no example any more"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", first_of_each_command([example for example in HERE if example not in SERVED]))
def test_an_example_does_what_it_says(place: Place, example: str, capsys: pytest.CaptureFixture[str]) -> None:
    place.renew_answers()
    status, printed = place.run(example)
    assert status == (1 if FAILS_AGAIN in example else 0), capsys.readouterr().err
    if "--output" in example:
        saved = [line for line in printed.splitlines() if line]
        assert saved and all(Path(line).exists() for line in saved)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", first_of_each_command(SERVED))
def test_an_example_serves_its_page_until_ctrl_c_is_pressed(place: Place, example: str) -> None:
    place.renew_answers()
    with served_page(*place.substituted(Typed.read(example).arguments)) as page:
        assert "<title>Cosmos Batch</title>" in httpx.get(page.url).text
        status, said = page.interrupt()
    assert (status, said.splitlines()[-1]) == (0, "Ended."), said


@pytest.mark.timeout(600)
def test_one_worker_answers_all_files_of_a_run(place: Place) -> None:
    """The model is loaded once, in a local cloud that stands already."""
    status, printed = place.run("cosmos-batch run clip.mp4 first.png --prompt Why? --output several/")
    documents = [json.loads(Path(path).read_text()) for path in printed.splitlines()]
    assert (status, [document["inputFile"] for document in documents]) == (0, ["clip.mp4", "first.png"])
    assert len({document["batchJobId"] for document in documents}) == 1


@pytest.mark.timeout(600)
def test_stopping_keeps_jobs_and_discarding_them_does_not(place: Place) -> None:
    """The examples of `local down`, in this order."""
    keeps, discards = LAST
    status, printed = place.run(keeps)
    assert status == 0
    assert "Its jobs are kept" in printed and "Its runs are kept" in printed
    listed = json.loads(place.run("cosmos-batch status --json --limit 100")[1])
    assert {*place.succeeded, *place.failed} <= {job["id"] for job in listed}
    status, printed = place.run("cosmos-batch result ID --text")
    assert (status, printed) == (0, "What happens?\n")
    assert place.run(discards)[0] == 0
    assert place.run("cosmos-batch status --json")[0] == 1

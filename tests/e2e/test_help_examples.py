"""Each example of each --help is typed into a shell, on a machine with a local cloud, and does what it says."""

import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from socket import socket

import pytest

from cosmos_batch.local.cloud import LocalCloud
from tests.support.command_line import commands
from tests.support.deployed_app import text_with_nano, wait_for
from tests.support.installed_program import PROGRAM
from tests.support.model_hub import Hub
from tests.support.robot_data_set import write_v21, write_v30

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

UNTIL, BROKEN = "until", "broken"  # prompts of jobs and runs that go on until they are let go, or fail
EXAMPLES = [example for command in commands().values() for example in command.examples]

# The exit status of each example, and regular expressions that must be found in its standard output and in its standard
# error. $ASSETS stands for the bucket of files.
DOCUMENT, RUN_ID, JOB_ID = r'"result": ', r"\Arun-\d{8}-\d{6}-[0-9a-f]{6}\n\Z", r"\A[a-z0-9-]+-[0-9a-f]{32}\n\Z"
SAVED = r"^answers/clip_CosmosReason_[\d-]+\.json$"
CASES: dict[str, tuple[int, str, str]] = {
    'cosmos-batch run clip.mp4 --prompt "What happens?"': (0, r'"result": "What happens\?"', "as it stands"),
    "cosmos-batch run *.mp4 --task caption --output answers/": (0, rf"{SAVED}\n^answers/other_Cos", "2 of 2 done"),
    "cosmos-batch run clips/ --task caption --skip-invalid --output answers/": (
        0, r"^answers/a_Cosmos.*\n^answers/ep1/front_Cosmos", r"files of other kinds: 1(.*\n)*.*2 of 2 done",
    ),
    'cosmos-batch run clip.mp4 --task 2d-grounding --prompt "the red cube" --overlay --output answers/': (
        0, rf"{SAVED}\n^answers/clip_\S+\.sheet\.png$", "no boxes, points or events to draw",
    ),
    "cosmos-batch run pusht/ --episode 0-2 --camera observation.images.front --task caption": (
        0, rf"(?s)({DOCUMENT}.*){{3}}", "pusht/: 3 episodes, seen by observation.images.front",
    ),
    "cosmos-batch run clip.mp4 --model nvidia/Cosmos-Reason2-2B --output answer.json --force": (
        0, r"\Aanswer\.json\n\Z", r"starts one of its own(.*\n)*.*Local cloud stopped",
    ),
    'cosmos-batch generate --prompt "A robot pours water." --no-guardrails': (
        0, r"^cosmos3-nano-[\d-]+\.mp4$", "as it stands",
    ),
    'cosmos-batch generate first.png --prompt "It starts to rain." --num-frames 93 --no-guardrails --output made/': (
        0, r"^made/first_Cosmos3_.*\.mp4$", "as it stands",
    ),
    'cosmos-batch generate clip.mp4 --prompt "The same, at night." --edge --blur --no-guardrails': (
        0, r"^clip_Cosmos3_.*\.mp4$", "as it stands",
    ),
    "cosmos-batch generate pour.cosmos.json --submit": (0, JOB_ID, r"\A\Z"),
    "cosmos-batch generate libero/ --episode 1 --camera observation.images.front --mode forward_dynamics"
    " --domain-name libero --action-chunk-size 8 --no-guardrails": (
        0, r"^episode_000001.*_Cosmos3_.*\.mp4$", "The prompt is the episode's task: Open the drawer",
    ),
    'cosmos-batch submit clip.mp4 --prompt "What happens?"': (0, JOB_ID, r"\A\Z"),
    "cosmos-batch submit pusht/ --episode 0-2 --camera observation.images.front --task caption": (0, RUN_ID, "3 files"),
    "cosmos-batch submit clips/ --task caption --skip-invalid --yes": (0, RUN_ID, "2 files"),
    "cosmos-batch submit s3://my-bucket/clips/ --task caption": (0, RUN_ID, "2 files"),
    'cosmos-batch submit clip.mp4 --json --prompt "Is anybody in danger?" --pipeline cosmos-reason2-2b': (
        0, r'\A\{"id": "[a-z0-9-]+", "input": "s3://$ASSETS/uploads/.*/clip\.mp4"\}\n\Z', r"\A\Z",
    ),
    'cosmos-batch runs plan s3://my-bucket/clips/ --prompt "What happens?"': (0, "2 files", ""),
    "cosmos-batch runs plan clips/ --include '*/front.mp4' --task caption --workers 4": (0, "1 file,", ""),
    "cosmos-batch runs plan requests.jsonl --max-dollars 50 --json": (0, r'"items": 2', ""),
    'cosmos-batch runs plan --pipeline cosmos3-nano --prompt "A robot pours water." --seeds 1-8': (
        0, r"prompts alone, no file\n  items +8\n", "",
    ),
    'cosmos-batch runs start clips/ --prompt "What happens?" --max-dollars 50': (2, r"\A\Z", "add --yes"),
    "cosmos-batch runs start s3://my-bucket/clips/ --task caption --yes --watch": (0, r"run-.* SUCCEEDED\n", "2 files"),
    "cosmos-batch runs start requests.jsonl --name monday --yes": (0, r"\Amonday\n\Z", "runs watch monday"),
    "cosmos-batch runs list": (0, r"^first +SUCCEEDED", r"\A\Z"),
    "cosmos-batch runs list --state held --json": (0, r"\A\[\]\n\Z", r"\A\Z"),
    "cosmos-batch runs show RUN": (0, r"\Afirst\n +state +SUCCEEDED$", "To save the answers"),
    "cosmos-batch runs show RUN --json": (0, r'"succeeded": 2', r"\A\Z"),
    "cosmos-batch runs watch RUN": (0, r"\Afirst SUCCEEDED\n  2 of 2 done", ""),
    "cosmos-batch runs watch RUN --quiet": (0, r"\Afirst SUCCEEDED\n  2 of 2 done", r"\A\Z"),
    "cosmos-batch runs cancel RUN": (0, r"\A\S+ CANCELLED\n\Z", "what was answered stays"),
    "cosmos-batch runs cancel RUN RUN": (0, r"\A(\S+ CANCELLED\n){2}\Z", "what was answered stays"),
    "cosmos-batch runs resume RUN": (0, r"\A\S+ (STARTING|RUNNING)\n\Z", "0 of 2 done"),
    "cosmos-batch runs resume RUN --max-dollars 100 --watch": (0, r"^\S+ SUCCEEDED\n  2 of 2 done", ""),
    "cosmos-batch runs retry RUN --failed": (0, RUN_ID, "Asked again: 2 items of failed"),
    "cosmos-batch runs retry RUN --code TimedOut --code NoCapacity --watch": (
        2, r"\A\Z", "No failed item of failed matches --code NoCapacity, TimedOut",
    ),
    "cosmos-batch runs export RUN --format parquet --output answers.parquet": (0, r"^answers\.parquet$", ""),
    "cosmos-batch runs export RUN --format csv --output answers.csv --force": (0, r"^answers\.csv$", ""),
    "cosmos-batch runs export RUN --format fiftyone --output dataset/": (0, "dataset", "LegacyFiftyOneDataset"),
    "cosmos-batch runs diff RUN1 RUN2": (0, r"^ +2  changed$", ""),
    "cosmos-batch runs diff RUN1 RUN2 --by input --json > changed.json": (0, r"\A\Z", r"\A\Z"),
    "cosmos-batch status": (0, r"\AID +STATE +AGE +INPUT\n", ""),
    "cosmos-batch status ID": (0, r"^  state +SUCCEEDED$", r"\A\Z"),
    "cosmos-batch status --state failed --since 2h": (0, r"FAILED(.*\n)+ +EngineFailed: .*broken", ""),
    "cosmos-batch status --text cam0 --limit 100 --json": (0, r"\A\[\]\n\Z", r"\A\Z"),
    "cosmos-batch wait ID": (0, r"\A\S+ SUCCEEDED\n\Z", ""),
    "cosmos-batch wait ID ID --timeout 600": (0, r"\A(\S+ SUCCEEDED\n){2}\Z", ""),
    "cosmos-batch result ID": (0, r'"result": "What is it\?"', r"\A\Z"),
    "cosmos-batch result ID --text": (0, r"\AWhat is it\?\n\Z", r"\A\Z"),
    "cosmos-batch result ID ID --wait --output answers/": (0, SAVED, ""),
    "cosmos-batch result ID --overlay --output answers/": (0, rf"{SAVED}\n^answers/clip_\S+\.sheet\.png$", ""),
    "cosmos-batch view answers/ --export page/ --media": (0, r"\Apage/index\.html\n\Z", r"documents?, \d+ media"),
    "cosmos-batch logs ID": (0, "reported .*succeeded=true", r"\A\Z"),
    "cosmos-batch logs ID --all": (0, "ready to serve", r"\A\Z"),
    "cosmos-batch cancel ID": (0, r"\A\S+ CANCELLED\n\Z", ""),
    "cosmos-batch cancel ID ID": (0, r"\A(\S+ CANCELLED\n){2}\Z", ""),
    "cosmos-batch retry ID": (0, JOB_ID, ""),
    "cosmos-batch retry ID ID": (0, r"\A\S+-[0-9a-f]{32}\n\Z", ""),  # both are one job here
    "cosmos-batch doctor": (0, "cosmos-reason2-2b", r"\A\Z"),
    "cosmos-batch doctor --pipeline cosmos-reason2-8b": (0, "cosmos-reason2-8b", r"\A\Z"),
    "cosmos-batch doctor --json": (0, r'\A\{"', r"\A\Z"),
    "cosmos-batch models put nvidia/Cosmos-Reason2-2B": (0, r"\Anvidia/Cosmos-Reason2-2B is in s3://", "uploaded 100"),
    "HF_TOKEN=hf_... cosmos-batch models put nvidia/Cosmos-Reason2-8B@main": (
        0, r"\Anvidia/Cosmos-Reason2-8B@main is in s3://", "uploaded 100",
    ),
    "cosmos-batch models update": (0, "cosmos-reason2-8b: nothing is recorded", r"\A\Z"),
    "cosmos-batch models update cosmos-reason2-2b": (0, r"\Acosmos-reason2-2b: nothing is recorded", r"\A\Z"),
    "cosmos-batch demo": (0, DOCUMENT, r"Asking about shapes\.mp4(.*\n)*.*Done in"),
    'FILE=clip.mp4 PROMPT="Is anybody in danger?" cosmos-batch demo': (
        0, r'"result": "Is anybody in danger\?"', r"Asking about clip\.mp4",
    ),
    "cosmos-batch demo-generate": (0, r"^video +\S+\.mp4$", "Making a video: A robot arm"),
    'PROMPT="A robot pours water." cosmos-batch demo-generate': (0, r"^video +\S+\.mp4$", ": A robot pours water"),
    "cosmos-batch completion bash >> ~/.bashrc": (0, r"\A\Z", r"\A\Z"),
    "cosmos-batch completion zsh >> ~/.zshrc": (0, r"\A\Z", r"\A\Z"),
    "cosmos-batch completion fish > ~/.config/fish/completions/cosmos-batch.fish": (0, r"\A\Z", r"\A\Z"),
}  # fmt: skip

# Commands that serve a page until Ctrl-C is pressed, each with the text by which it names what the page shows.
SERVED = {
    "cosmos-batch console": "All runs",
    "cosmos-batch console --port 8800 --no-browser": "All runs",
    "cosmos-batch view answers/": "Showing answers/",
    "cosmos-batch view answers/clip_CosmosReason_20260101-120000.json": "Showing answers/clip_",
    "cosmos-batch view answers/ --port 8800 --no-browser": "Showing answers/",
    "cosmos-batch view RUN": "Showing first",
    "cosmos-batch view s3://my-bucket/clips/": "Showing s3://",
}

# The life of a local cloud, from the one on which all of the above is typed, in this order.
LOCAL = [
    ("cosmos-batch local status", 0, r"A local cloud runs at .*\nPipelines: cosmos-reason2-2b, "),
    ("cosmos-batch local down", 0, r"\AStopped\.\nIts jobs are kept \(\d+\): .*\nIts runs are kept \(\d+\): "),
    ("cosmos-batch local down --discard", 0, "What earlier ones had left was thrown away"),
    ('eval "$(cosmos-batch local start --export)"', 0, r"\A\Z"),
    ("cosmos-batch local status", 0, "Nothing is deployed to it: cosmos-batch local up"),
    ("cosmos-batch local up", 0, r'\A  eval "\$\(cosmos-batch local up --export\)"\n\Z'),
    ('eval "$(cosmos-batch local up --export)"', 0, r"\A\Z"),
]  # fmt: skip


class Terminal:
    """A shell in a folder of a person's files, on a machine that reaches a Hub of its own."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.folder = folder
        others = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "COSMOS_BATCH_"))}
        self.variables = {
            **others,
            "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "COSMOS_BATCH_HOME": str(folder / "home"),
            "COSMOS_BATCH_CONFIG": str(folder / "config.json"),
            "HF_ENDPOINT": hub.url,
            "BROWSER": "true",
        }
        self._numbers = itertools.count()
        self._gates: list[Path] = []

    def start(self, line: str) -> subprocess.Popen[str]:
        """Start a line."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["bash", "-c", line], cwd=self.folder, env=self.variables, stdin=subprocess.DEVNULL, stdout=pipe,
            stderr=pipe, text=True,
        )  # fmt: skip

    def types(self, line: str, status: int = 0) -> tuple[str, str]:
        """Type a line and return what it prints to standard output and to standard error, when it has ended."""
        with self.start(line) as process:
            out, err = process.communicate()
        assert process.returncode == status, f"{line}: {process.returncode}\n{out}\n{err}"
        return out, err

    def let_go(self) -> None:
        """Let the jobs and runs that go on come to their end: a job that has failed once waits until it is alone."""
        for gate in self._gates:
            gate.touch()

    def point_at_cloud(self) -> None:
        """Do what `eval "$(cosmos-batch local up --export)"` does to a shell that stays open."""
        exports = (
            line.removeprefix("export ").partition("=")
            for line in self.types("cosmos-batch local up --export")[0].splitlines()
        )
        self.variables |= {name: shlex.split(value)[0] for name, _, value in exports}

    def job(self, kind: str) -> str:
        """Return the id of a job that has an answer, has failed, or goes on."""
        return self.types(f"cosmos-batch submit clip.mp4 --prompt {shlex.quote(self._prompt(kind))}")[0].strip()

    def run(self, kind: str, name: str | None = None) -> str:
        """Return the id of such a run."""
        name = name or f"run-{next(self._numbers)}"
        prompt = shlex.quote(self._prompt(kind))
        return self.types(f"cosmos-batch runs start clips/ --prompt {prompt} --yes --name {name}")[0].strip()

    def _prompt(self, kind: str) -> str:
        self._gates.append(self.folder / f"go-{next(self._numbers)}")
        until = json.dumps({"until": str(self._gates[-1]), "text": "At last."})
        return {UNTIL: until, BROKEN: json.dumps({"raise": "broken"})}.get(kind, kind)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory, clip: Path, picture: Path) -> Iterator[Terminal]:
    """Provide a terminal whose shell points at a local cloud with reasoners, a generator, jobs and runs."""
    folder = tmp_path_factory.mktemp("person")
    _write_files(folder, clip, picture)
    with Hub() as hub:
        for model in ("2B", "8B"):
            hub.add(f"nvidia/Cosmos-Reason2-{model}", folder / "cosmos-reason2-2b")
        terminal = Terminal(folder, hub)
        try:
            terminal.point_at_cloud()
            _fill_cloud(terminal)
            yield terminal
        finally:
            terminal.let_go()
            if cloud := LocalCloud.find(folder / "home"):
                cloud.stop()


def _write_files(folder: Path, clip: Path, picture: Path) -> None:
    for name in ("clip.mp4", "other.mp4", "clips/ep1/front.mp4"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(clip, folder / name)
    for name in ("first.png", "clips/a.png"):
        shutil.copy(picture, folder / name)
    (folder / "clips" / "notes.txt").write_text("no media")
    write_v21(folder / "pusht")
    write_v30(folder / "libero")
    small = {"prompt": "A robot pours water.", "resolution": "256p", "num_frames": 5, "guardrails": False}
    (folder / "pour.cosmos.json").write_text(json.dumps(small))
    (folder / ".config" / "fish" / "completions").mkdir(parents=True)  # as fish makes them when it first starts
    (folder / "config.json").write_text(text_with_nano(folder))


def _fill_cloud(terminal: Terminal) -> None:
    bucket = _bucket(terminal)
    cloud = LocalCloud.find(terminal.folder / "home")
    assert cloud is not None
    for name in ("a.png", "ep1/front.mp4"):
        cloud.client("s3").upload_file(str(terminal.folder / "clips" / name), bucket, f"clips/{name}")
    lines = [
        {"id": name, "input": f"s3://{bucket}/clips/{name}", "prompt": "What?"} for name in ("a.png", "ep1/front.mp4")
    ]
    (terminal.folder / "requests.jsonl").write_text("\n".join(map(json.dumps, lines)))
    jobs = {"ANSWERED": "What is it?", "OTHER": "And this?", "FAILED": BROKEN}
    terminal.variables |= {name: terminal.job(prompt) for name, prompt in jobs.items()}
    for name, prompt in (("first", "What is it?"), ("second", "And now?"), ("failed", BROKEN)):
        terminal.run(prompt, name)
    terminal.types("cosmos-batch wait $ANSWERED $OTHER")
    terminal.types("cosmos-batch wait $FAILED", status=1)
    for name, status in (("first", 0), ("second", 0), ("failed", 1)):
        terminal.types(f"cosmos-batch runs watch {name}", status)
    [saved] = terminal.types("cosmos-batch result $ANSWERED --output answers/")[0].splitlines()
    (terminal.folder / saved).rename(terminal.folder / "answers" / "clip_CosmosReason_20260101-120000.json")


def _bucket(terminal: Terminal) -> str:
    cloud = LocalCloud.find(terminal.folder / "home")
    assert cloud is not None
    stacks = cloud.client("cloudformation").describe_stacks()["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for stack in stacks for output in stack.get("Outputs", [])}
    return str(outputs["AssetBucketName"])


def _filled_in(terminal: Terminal, example: str) -> str:
    """Return an example with names of this cloud in the place of those that it has to be given."""

    answered = iter((terminal.variables["ANSWERED"], terminal.variables["OTHER"]))

    def job(_: re.Match[str]) -> str:
        if " cancel " in example:
            return terminal.job(UNTIL)
        return terminal.variables["FAILED"] if " retry " in example else next(answered)

    def run(_: re.Match[str]) -> str:
        if " cancel " in example:
            return terminal.run(UNTIL)
        if " resume " in example:
            cancelled = terminal.run(UNTIL)
            terminal.types(f"cosmos-batch runs cancel {cancelled}")
            terminal.types(f"cosmos-batch runs watch {cancelled}", status=1)
            if "--watch" in example:
                terminal.let_go()
            return cancelled
        return "failed" if " retry " in example else "first"

    line = re.sub(r"\bID\b", job, re.sub(r"\bRUN\b", run, example))
    line = line.replace("RUN1", "first").replace("RUN2", "second").replace("my-bucket", _bucket(terminal))
    with closing(socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return re.sub(r"\b8800\b", str(taken.getsockname()[1]), line)  # not within the id of a job


def test_every_example_is_typed_here() -> None:
    typed = [*CASES, *SERVED, *dict.fromkeys(line for line, _, _ in LOCAL)]
    assert sorted(typed) == sorted(EXAMPLES)


@pytest.mark.parametrize("example", CASES)
def test_an_example_does_what_it_says(example: str, terminal: Terminal) -> None:
    status, on_output, on_error = CASES[example]
    out, err = terminal.types(_filled_in(terminal, example), status)
    terminal.let_go()
    for printed, pattern in ((out, on_output), (err, on_error)):
        assert re.search(pattern.replace("$ASSETS", _bucket(terminal)), printed, re.MULTILINE), f"{out}\n----\n{err}"


@pytest.mark.parametrize("example", SERVED)
def test_a_page_is_served_until_ctrl_c(example: str, terminal: Terminal) -> None:
    with terminal.start(f"exec {_filled_in(terminal, example)}") as process:
        assert process.stderr is not None
        shown, _, url = process.stderr.readline().rstrip().rpartition(": ")
        assert shown.startswith(SERVED[example])
        with urllib.request.urlopen(url) as page:
            assert b"<title>" in page.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (0, "") and err.endswith("Ended.\n"), err


def test_the_local_cloud_is_stopped_and_started_again(terminal: Terminal) -> None:
    """The last test here: it stops the cloud of the others."""
    wait_for(
        lambda: json.loads(terminal.types("cosmos-batch status --state active --json")[0]) == [], 120, "jobs go on"
    )
    for line, status, printed in LOCAL:
        out, err = terminal.types(line, status)
        assert re.search(printed, out), f"{line}\n{out}\n----\n{err}"

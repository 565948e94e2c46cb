"""Options for LeRobot data sets: `--episode` and `--camera` choose videos of a folder with such a data set."""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.catalogue.generation import DOMAINS
from cosmos_batch.cli.command_line import option
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.input_checks import checked_folder
from cosmos_batch.cli.messages import inform
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import suggestion

if TYPE_CHECKING:
    from cosmos_batch.robot_data import DataSet, Episode

SECTION = "Episodes of a LeRobot data set (docs/command-line.md)"
ALL = "all"
_CAMERA = "Camera of the data set, such as observation.images.front; default: the only one."
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def episode_options(function: Decorated) -> Decorated:
    """Add the options that choose videos of a data set: several episodes and cameras."""
    camera = f"{_CAMERA} May be given again."
    function = option("--camera", "cameras", metavar="NAME", multiple=True, section=SECTION, help=camera)(function)
    episode = "Take the videos of these episodes; FILE is the data set's folder. May be given again."
    return option("--episode", "episodes", metavar="N|N-M|all", multiple=True, section=SECTION, help=episode)(function)


def one_episode_options(function: Decorated) -> Decorated:
    """Add the options that choose a part of one episode of a data set, as a generator's input."""
    start, numbers = "Begin at this second of the episode.", click.FloatRange(min=0)
    function = option("--episode-start", metavar="SECONDS", type=numbers, section=SECTION, help=start)(function)
    function = option("--camera", metavar="NAME", section=SECTION, help=_CAMERA)(function)
    episode = "Start from this episode, with its task, rate and actions; FILE is the data set's folder."
    return option("--episode", metavar="N", type=click.IntRange(min=0), section=SECTION, help=episode)(function)


def with_episodes(names: Sequence[str], episodes: Sequence[str], cameras: Sequence[str]) -> list[str]:
    """Return the names with each data set's folder replaced by the videos of its chosen episodes.

    Videos that are cut out of files are kept until the command has ended. Raises WrongCall, or Failure with the words
    of the data set's reader.
    """
    return click.get_current_context().with_resource(_episode_videos(names, episodes, cameras))


def typed_inputs(names: Sequence[str], episodes: Sequence[str], cameras: Sequence[str]) -> str:
    """Return the inputs as a person may type them, after the options that choose episodes: of many names some are cut.

    >>> typed_inputs(["pusht/"], ["0-2"], ["front"])
    '--episode 0-2 --camera front pusht/'
    """
    options = [*(f"--episode {episode}" for episode in episodes), *(f"--camera {camera}" for camera in cameras)]
    return " ".join([*options, *names])


@contextmanager
def _episode_videos(names: Sequence[str], episodes: Sequence[str], cameras: Sequence[str]) -> Iterator[list[str]]:
    if not any(map(is_data_set, names)):
        _refuse_without_data_set(names, bool(episodes or cameras))
        yield list(names)
        return
    from cosmos_batch.robot_data import episode_clip, open_data_set, read_episodes

    with tempfile.TemporaryDirectory(prefix="cosmos-batch-") as scratch:
        videos: list[str] = []
        for number, name in enumerate(names):
            if not is_data_set(name):
                videos.append(name)
                continue
            data_set = open_data_set(checked_folder(name))
            numbers = _numbers(data_set, episodes)
            chosen_cameras = _cameras(data_set, cameras)
            chosen = read_episodes(data_set, numbers)
            inform(f"{name}: {counted(len(chosen), 'episode')}, seen by {', '.join(chosen_cameras)}")
            folder = Path(scratch) / str(number) / data_set.folder.resolve().name
            folder.mkdir(parents=True)
            videos += [
                str(episode_clip(data_set, episode, camera, folder)) for episode in chosen for camera in chosen_cameras
            ]
        yield videos


def with_episode(
    name: str | None, prompt: str | None, options: Mapping[str, Any], folder: Path
) -> tuple[str | None, str | None, dict[str, Any]]:
    """Return a generator's input, prompt and options with what an episode of a data set has to say to them.

    The input is the episode's video; what was not named is the episode's task as the prompt, and its rate. For
    `forward_dynamics` its actions are written to a file. What is written goes into `folder`. Raises WrongCall, or
    Failure.
    """
    values = {key: value for key, value in options.items() if key not in ("episode", "camera", "episode_start")}
    episode, camera, start = options.get("episode"), options.get("camera"), options.get("episode_start") or 0.0
    if name is None or not is_data_set(name):
        _refuse_without_data_set([name] if name else [], episode is not None or camera is not None or start > 0)
        return name, prompt, values
    from cosmos_batch.robot_data import episode_clip, open_data_set, read_episodes

    data_set = open_data_set(Path(name).expanduser())
    [number] = _numbers(data_set, [] if episode is None else [str(episode)]) or []
    [chosen_camera] = _cameras(data_set, [camera] if camera else [])
    [chosen] = read_episodes(data_set, [number])
    video = episode_clip(data_set, chosen, chosen_camera, folder, start)
    if prompt is None and values.get("prompt_file") is None and chosen.tasks:
        prompt = chosen.tasks[0]
        inform(f"The prompt is the episode's task: {prompt}")
    if values.get("mode") in ("forward_dynamics", "inverse_dynamics", "policy") and values.get("fps") is None:
        values["fps"] = str(data_set.info.fps)
    if values.get("mode") == "forward_dynamics" and values.get("action_path") is None:
        values |= _actions(data_set, chosen, start, values, folder)
    return str(video), prompt, values


def _actions(
    data_set: "DataSet", episode: "Episode", start: float, options: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """Write an episode's actions to a file, and return the options that name it. Raises WrongCall."""
    from cosmos_batch.robot_data import read_actions

    name = options.get("domain_name")
    if name not in DOMAINS:
        raise WrongCall(
            f"--domain-name: {name} is not known." if name else "--domain-name is missing.",
            f"{suggestion(name or '', DOMAINS)}Name the embodiment of the actions: {', '.join(DOMAINS)}.",
        )
    size = str(options.get("action_chunk_size") or DOMAINS[name].chunk_size)
    if not size.isdecimal():
        raise WrongCall(f"--action-chunk-size: {size} is not a whole number.", "Give a number such as 16.")
    rows = read_actions(data_set, episode, start, int(size))
    if len(rows[0]) not in DOMAINS[name].widths:
        raise WrongCall(
            f"The actions of {data_set.folder} have {len(rows[0])} numbers, those of {name} "
            f"{' or '.join(map(str, DOMAINS[name].widths))}.",
            "Name the embodiment of the data set, or convert its actions and name them with --action-path.",
        )
    path = folder / f"episode_{episode.index:06d}.actions.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return {"action_path": str(path), "action_chunk_size": size, "raw_action_dim": str(len(rows[0]))}


def is_data_set(name: str) -> bool:
    """Return whether a name is that of a folder with a LeRobot data set."""
    path = Path(name).expanduser()
    # The room is imported only for a folder that may be one: it loads the libraries of media files.
    return (path / "meta" / "info.json").is_file()


def _cameras(data_set: "DataSet", cameras: Sequence[str]) -> list[str]:
    """Return the cameras that were named, or the only one. Raises WrongCall."""
    unknown = [camera for camera in cameras if camera not in data_set.cameras]
    if unknown:
        raise WrongCall(
            f"{data_set.folder} has no camera {', '.join(unknown)}.", f"Its cameras: {', '.join(data_set.cameras)}."
        )
    if not cameras and len(data_set.cameras) != 1:
        raise WrongCall(
            f"{data_set.folder} has {len(data_set.cameras)} cameras with videos.",
            f"Name one: --camera {data_set.cameras[0]}\nIts cameras: {', '.join(data_set.cameras)}."
            if data_set.cameras
            else "Convert its images to videos with LeRobot.",
        )
    return list(dict.fromkeys(cameras)) or data_set.cameras


def _numbers(data_set: "DataSet", episodes: Sequence[str]) -> list[int] | None:
    """Return the numbers of the episodes that were named; None for all. Raises WrongCall."""
    if not episodes:
        camera = f" --camera {data_set.cameras[0]}" if len(data_set.cameras) > 1 else ""
        raise WrongCall(
            f"{data_set.folder} is a LeRobot data set, and no episode was named.",
            f"Name one, such as --episode 0{camera}",
        )
    if ALL in episodes:
        return None
    numbers: set[int] = set()
    for text in episodes:
        match = _NUMBERS.fullmatch(text)
        if match is None or int(match[2] or match[1]) - int(match[1]) not in range(100_000):
            raise WrongCall(f"--episode: {text} is no number or range.", "Write --episode 3, 0-9 or all.")
        numbers |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(numbers)


def _refuse_without_data_set(names: Sequence[str], chooses: bool) -> None:
    """Raise WrongCall where episodes of no data set of this machine are meant."""
    for name in names:
        is_like_id = _HUB_ID.fullmatch(name) is not None and extension(name) not in (*EXTENSIONS, ".json")
        if is_like_id and not Path(name).exists():
            folder = name.rpartition("/")[2]
            raise WrongCall(
                f"{name} does not exist on this machine.",
                "A data set of the Hugging Face Hub is not read from there. Download it, and name its folder:\n"
                f"  hf download {name} --repo-type dataset --local-dir {folder}",
            )
    if chooses:
        raise WrongCall(
            "--episode and --camera go with a LeRobot data set, and none was named.",
            "Name its folder, in which meta/info.json is.",
        )

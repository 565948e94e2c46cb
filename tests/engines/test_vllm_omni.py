"""The vLLM-Omni engine on a server that does what it is told: what is sent, what is made of it, and what faults mean.

The real server is in tests/omni.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.result import Made
from cosmos_batch.demo.tokenizer import train_tokenizer, write_json, write_tokenizer
from cosmos_batch.engines import (
    Compiling,
    EngineDied,
    GenerationFiles,
    Guarding,
    Sharing,
    Stepping,
    create,
    hang,
    served_model,
    vllm_omni,
)
from cosmos_batch.engines import server as server_module
from cosmos_batch.engines.served_model import DEATHS_IN_A_ROW
from cosmos_batch.engines.vllm_omni import VllmOmniEngine
from cosmos_batch.engines.vllm_omni_command import OmniPlan, steps_in
from cosmos_batch.media import ImageInfo, VideoInfo, WantedVideo, check_video, exact_rate, probe
from tests.contract.generations import settled
from tests.engines.test_server import lives, until

SMALL = {"width": 64, "height": 48, "steps": 2}
VIDEO = {"mode": "t2v", **SMALL, "num_frames": 9}
ACTIONS = {"domain_name": "bridge", "resolution": "256p", "action_chunk_size": 4, "steps": 2}
TABLE = {"resolution": "256p", "aspect_ratio": "16:9", "steps": 2, "num_frames": 9}
ROWS = [[0.1] * 10] * 4
PROMPT = "A red cube rolls."


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is read of one before its server starts."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    (folder / "text_tokenizer").mkdir(parents=True)
    (folder / "transformer").mkdir()
    write_tokenizer(folder / "text_tokenizer", train_tokenizer())
    write_json(folder / "transformer" / "config.json", {"sound_gen": True, "action_gen": True})
    write_json(folder / "model_index.json", {"_class_name": "Cosmos3OmniPipeline"})
    return folder


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """What the stand-in was asked, which is started in place of the real one."""
    file = tmp_path / "asked"
    script = str(Path(__file__).with_name("omni_served.py"))

    def command(_plan: OmniPlan, _folder: Path, socket: Path) -> list[str]:
        return [sys.executable, script, str(socket), str(file)]

    monkeypatch.setattr(OmniPlan, "command", command)
    monkeypatch.setattr(vllm_omni, "version", lambda _: "0.30.0")
    return lambda: [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def engine(asked: Any, checkpoint: Path) -> Iterator[VllmOmniEngine]:
    engine = VllmOmniEngine()
    engine.load(checkpoint)
    yield engine
    engine.close()


Make = Callable[..., Made]


@pytest.fixture
def make(engine: VllmOmniEngine, tmp_path: Path) -> Make:
    def make(said: dict[str, Any], medium: Path | None = None, **how: Any) -> Made:
        controls = how.pop("controls", {})
        return asyncio.run(
            engine.generate(generation(said, medium, **how), GenerationFiles(medium, controls), folder(tmp_path))
        )

    return make


def generation(said: dict[str, Any], medium: Path | None = None, prompt: str = PROMPT, **how: Any) -> Generation:
    return settled(said, None if medium is None else "image" if medium.suffix == ".png" else "video", prompt, **how)


def folder(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir(exist_ok=True)
    return tmp_path / "out"


def refused(make: Make, *arguments: Any, **how: Any) -> Error:
    with pytest.raises(Failure) as raised:
        make(*arguments, **how)
    return raised.value.error


def video(made: Made, tmp_path: Path) -> tuple[int, int, int, float]:
    """Width, height, frames and rate; it must be what was asked for, sound and all."""
    path, asked = tmp_path / "out" / "output.mp4", made.generation
    assert asked.size and asked.num_frames and asked.fps and made.files[0].name == path.name
    wanted = WantedVideo(*asked.size, asked.num_frames, exact_rate(asked.fps), asked.sound)
    check_video(path, wanted)
    found = probe(path)
    assert isinstance(found, VideoInfo) and found.codec == "h264"
    return found.width, found.height, len(found.timeline.times), round(found.timeline.fps, 3)


def test_it_is_what_a_worker_sets_up(engine: VllmOmniEngine) -> None:
    assert isinstance(engine, Guarding) and isinstance(engine, Sharing) and isinstance(engine, Compiling)
    assert create("vllm-omni").name == engine.name == "vllm-omni 0.30.0"
    assert engine.startup_logs[-1].startswith("vllm-omni 0.30.0 is ready")
    assert engine.made_for()["plan"] == "one GPU"


def test_an_image(make: Make, asked: Callable[[], list[dict[str, Any]]], tmp_path: Path) -> None:
    made = make({"mode": "t2i", "image_format": "jpeg", "seed": 2**32 - 1, **SMALL}, guardrails=False)
    assert probe(tmp_path / "out" / made.files[0].name) == ImageInfo(64, 48) and made.files[0].role == "image"
    (said,) = asked()
    extra = said.pop("extra_params")
    assert said.pop("extra_args") == extra
    assert said == {
        "path": "/v1/images/generations",
        "prompt": PROMPT,
        "negative_prompt": "",
        "size": "64x48",
        "num_inference_steps": 2,
        "guidance_scale": 7.0,
        "flow_shift": 3.0,
        "seed": 2**32 - 1,
        "n": 1,
        "response_format": "b64_json",
        "output_format": "png",
    }
    assert extra == {
        "guardrails": False,
        "max_sequence_length": 512,
        "use_resolution_template": True,
        "use_duration_template": False,
        "use_system_prompt": True,
    }
    assert made.timings.keys() == {"prepare", "generate", "write"}


@pytest.mark.parametrize("sound", [False, True])
def test_text_becomes_a_video_with_all_that_is_asked(
    make: Make, asked: Callable[[], list[dict[str, Any]]], tmp_path: Path, sound: bool
) -> None:
    made = make({**VIDEO, "fps": 29.97, "sound": sound, "negative_prompt": "", "seed": 5})
    assert video(made, tmp_path) == (64, 48, 9, 29.97)
    said, forgotten = asked()
    extra = json.loads(said.pop("extra_params"))
    assert said == {
        "path": "/v1/videos",
        "prompt": PROMPT,
        "negative_prompt": "",
        "size": "64x48",
        "num_inference_steps": "2",
        "guidance_scale": "6.0",
        "flow_shift": "10.0",
        "seed": "5",
        "num_frames": "9",
        "fps": "29.97",
        "generate_sound": str(sound).lower(),
        "files": {},
    }
    assert extra["guardrails"] is True and extra["use_duration_template"] is True
    assert extra["video_codec_options"]["qp"] == "0", "it is compressed once, by us"
    assert forgotten == {"path": "/v1/videos/video_gen_0", "deleted": True}
    assert made.facts == {
        "scheduler": "UniPC",
        "plan": "one GPU",
        "stages": {"stage_0_gen_ms": 500.0},
        "peakGpuBytes": 2 << 20,
    }


def test_an_image_is_sent_at_exactly_its_size(
    make: Make, asked: Callable[[], list[dict[str, Any]]], picture: Path, tmp_path: Path
) -> None:
    """It would be stretched to it."""
    assert video(make({**SMALL, "num_frames": 9}, picture), tmp_path)[:3] == (64, 48, 9)
    assert probe_upload(asked()[0], "input_reference") == "given.png"


@pytest.mark.parametrize("keep", ["first", "last"])
def test_of_a_video_that_goes_on_only_the_frames_that_stay_are_sent(
    make: Make, asked: Callable[[], list[dict[str, Any]]], clip: Path, tmp_path: Path, keep: str
) -> None:
    made = make({**SMALL, "num_frames": 13, "condition_keep": keep, "condition_frames": [0, 1, 2]}, clip)
    assert video(made, tmp_path) == (64, 48, 13, 24)
    extra = json.loads(asked()[0]["extra_params"])
    assert (extra["condition_frame_indexes_vision"], extra["condition_video_keep"]) == ([0, 1, 2], "first")
    sent = probe(tmp_path / "out" / "given.mp4")
    assert isinstance(sent, VideoInfo) and (sent.width, sent.height, len(sent.timeline.times)) == (64, 48, 9)


@pytest.mark.parametrize("mode", ["forward_dynamics", "inverse_dynamics", "policy"])
def test_actions(make: Make, asked: Callable[[], list[dict[str, Any]]], clip: Path, tmp_path: Path, mode: str) -> None:
    given = {"action": ROWS} if mode == "forward_dynamics" else {}
    made = make({"mode": mode, **given, **ACTIONS}, clip)
    assert video(made, tmp_path) == (320, 240, 5, 5)
    assert np.array(json.loads((tmp_path / "out" / "actions.json").read_text())).shape == (4, 10)
    said = asked()[0]
    extra = json.loads(said["extra_params"])
    assert (said["num_frames"], said["fps"], said["flow_shift"], said["guidance_scale"]) == ("5", "5.0", "10.0", "1.0")
    assert (extra["action_mode"], extra["domain_name"]) == (mode, "bridge_orig_lerobot")
    assert (extra["raw_action_dim"], extra["action_chunk_size"], extra.get("action")) == (10, 4, given.get("action"))
    assert extra["use_system_prompt"] is False
    name = probe_upload(said, "input_reference")
    assert name == ("given.mp4" if mode == "inverse_dynamics" else "given.png")
    assert not made.notes


def test_a_view_point_that_is_not_passed_on_is_told(make: Make, clip: Path) -> None:
    made = make({"mode": "policy", "view_point": "wrist_view", **ACTIONS}, clip)
    assert "viewPoint did nothing" in made.notes[0]


def test_several_controls_lie_beside_each_other(
    make: Make, asked: Callable[[], list[dict[str, Any]]], clip: Path, tmp_path: Path
) -> None:
    controls = {"edge": {"weight": 0.5}, "blur": {}, "depth": {"path": "s3://my-bucket/depth.mp4"}}
    said = {"mode": "transfer", "controls": controls, "frames_per_chunk": 21, **TABLE}
    made = make(said, clip, controls={"depth": clip})
    assert video(made, tmp_path)[:3] == (320, 192, 9)
    sent = json.loads(asked()[0]["extra_params"])
    assert asked()[0]["files"] == {}
    for hint, weight in (("edge", 0.5), ("blur", 1.0), ("depth", 1.0)):
        assert sent[hint] == {"control_weight": weight, "control_path": str(tmp_path / "out" / f"{hint}.mp4")}
        found = probe(Path(sent[hint]["control_path"]))
        assert isinstance(found, VideoInfo) and (found.width, found.height, len(found.timeline.times)) == (320, 192, 9)
    assert (sent["resolution"], sent["num_video_frames_per_chunk"], sent["control_guidance"]) == ("256", 9, 1.5)
    assert "use_system_prompt" not in sent, "it has its own"


def test_one_frame_where_more_were_asked_for_is_not_delivered(make: Make, tmp_path: Path) -> None:
    """All that came is kept, and the worker looks at all of it."""
    made = make(VIDEO, prompt="a single frame")
    with pytest.raises(Failure, match="1 instead of 9 frames") as raised:
        video(made, tmp_path)
    assert raised.value.error.code == "EngineFailed"


@pytest.mark.parametrize(("said", "told"), [({}, "48 x 64 instead of 64 x 48"), ({"sound": True}, "no sound")])
def test_another_size_or_no_sound_is_not_delivered(make: Make, tmp_path: Path, said: dict[str, Any], told: str) -> None:
    made = make({**VIDEO, **said}, prompt="a mute one" if said else "a small one")
    with pytest.raises(Failure, match=told):
        video(made, tmp_path)


@pytest.mark.parametrize("mode", ["t2i", "t2v"])
@pytest.mark.parametrize("prompt", ["broken", "nonsense"])
def test_what_is_no_medium_is_the_engines_fault(make: Make, mode: str, prompt: str) -> None:
    error = refused(make, {**VIDEO, "mode": mode, "num_frames": 1 if mode == "t2i" else 9}, prompt=prompt)
    assert error.code == "EngineFailed"


@pytest.mark.parametrize("mode", ["t2i", "t2v"])
def test_what_guardrails_block_is_said_without_the_prompt(make: Make, mode: str) -> None:
    error = refused(make, {**SMALL, "mode": mode}, prompt="block this secret")
    assert error.code == "Blocked" and "refused the prompt" in error.message
    assert "secret" not in error.model_dump_json()


@pytest.mark.parametrize(
    ("prompt", "told", "retryable"),
    [
        ("fail", "HTTP 500", True),
        ("refuse", "HTTP 400", False),
        ("memory", "Memory ran out", True),
        ("gone", "HTTP 422", False),
    ],
)
def test_a_fault_is_one_jobs_alone(
    make: Make, asked: Callable[[], Any], prompt: str, told: str, retryable: bool
) -> None:
    error = refused(make, VIDEO, prompt=prompt)
    assert error.code == "EngineFailed" and told in error.message and error.retryable == retryable
    assert asked()[-1]["deleted"]
    make(VIDEO)


def test_a_death_is_told_and_the_next_is_made(make: Make, tmp_path: Path) -> None:
    with pytest.raises(EngineDied, match="was killed by SIGKILL") as died:
        make(VIDEO, prompt="die")
    assert not died.value.for_good
    assert video(make(VIDEO), tmp_path)


def test_one_that_dies_again_and_again_is_given_up(make: Make) -> None:
    for count in range(1, DEATHS_IN_A_ROW + 1):
        with pytest.raises(EngineDied) as died:
            make(VIDEO, prompt="die")
        assert died.value.for_good == (count == DEATHS_IN_A_ROW)


def test_one_that_is_silent_is_a_dead_one(
    asked: Any, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hang, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(hang, "LOOKS", 5)
    monkeypatch.setattr(served_model, "_HEALTH_SECONDS", 0.5)
    engine = VllmOmniEngine()
    engine.load(checkpoint)
    with pytest.raises(EngineDied, match="hung for"):
        asyncio.run(engine.generate(generation(VIDEO, prompt="stuck"), GenerationFiles(None, {}), folder(tmp_path)))
    engine.close()


def test_cancelling_has_the_server_drop_it(
    engine: VllmOmniEngine, asked: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    async def cancel() -> None:
        job = asyncio.ensure_future(
            engine.generate(generation(VIDEO, prompt="stuck"), GenerationFiles(None, {}), folder(tmp_path))
        )
        while not (tmp_path / "asked").exists():
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        await engine.generate(generation(VIDEO), GenerationFiles(None, {}), folder(tmp_path))

    asyncio.run(cancel())
    first, dropped, second, forgotten = asked()
    assert dropped == {"path": "/v1/videos/video_gen_0", "deleted": True} and first["prompt"] == "stuck"
    assert second["prompt"] == PROMPT and forgotten["deleted"]


def test_one_is_made_while_the_next_is_prepared(
    engine: VllmOmniEngine, asked: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    async def both() -> list[Made]:
        (tmp_path / "other").mkdir()
        runs = [
            engine.generate(generation(VIDEO, prompt=f"slow {name}"), GenerationFiles(None, {}), tmp_path / name)
            for name in ("out", "other")
        ]
        return await asyncio.gather(*runs)

    folder(tmp_path)
    assert len(asyncio.run(both())) == 2
    assert [one.get("deleted", False) for one in asked()] == [False, True, False, True], "one at a time"


def test_steps_are_those_that_the_server_prints(engine: VllmOmniEngine, tmp_path: Path) -> None:
    async def watched() -> list[tuple[int, int] | None]:
        making = asyncio.ensure_future(
            engine.generate(generation(VIDEO, prompt="slow"), GenerationFiles(None, {}), folder(tmp_path), "job")
        )
        seen: list[tuple[int, int] | None] = []
        while not making.done():
            seen.append(engine.steps("job"))
            assert engine.steps("another") is None
            await asyncio.sleep(0.02)
        return seen

    seen = asyncio.run(watched())
    assert isinstance(engine, Stepping) and seen[0] is None and seen[-1] == (0, 2)
    bars = ["  0%|  | 0/35 [00:00<?, ?it/s]", " 49%|##| 17/35 [00:01<00:01, 9.00it/s]", "INFO Decoding video..."]
    assert steps_in(bars) == (17, 35) and steps_in(["INFO 1/2"]) is None


def test_no_prompt_is_cut(make: Make, asked: Callable[[], list[dict[str, Any]]]) -> None:
    made = make(VIDEO, prompt="A cube. " * 600)
    length = made.generation.max_sequence_length
    assert length is not None and length > 1200
    assert json.loads(asked()[0]["extra_params"])["max_sequence_length"] == length
    error = refused(make, {**VIDEO, "max_sequence_length": 600}, prompt="A cube. " * 600)
    assert error.code == "InvalidInput" and "would be cut" in error.message


@pytest.mark.parametrize(
    ("said", "told"), [({**VIDEO, "sound": True}, "sound"), ({"mode": "policy", **ACTIONS}, "policy")]
)
def test_what_a_checkpoint_lacks_is_refused_before_it_works(
    asked: Any, checkpoint: Path, tmp_path: Path, clip: Path, said: dict[str, Any], told: str
) -> None:
    lacking = tmp_path / "lacking"
    lacking.symlink_to(checkpoint)
    engine = VllmOmniEngine()
    engine.load(lacking)
    engine._transformer = {"sound_gen": False}
    medium = clip if told == "policy" else None
    with pytest.raises(Failure, match=told) as raised:
        asyncio.run(engine.generate(generation(said, medium), GenerationFiles(medium, {}), folder(tmp_path)))
    assert raised.value.error.code == "InvalidInput" and not (tmp_path / "asked").exists()
    engine.close()


@pytest.mark.parametrize("part", ["model_index.json", "transformer/config.json", "text_tokenizer/tokenizer.json"])
def test_a_folder_that_is_no_checkpoint_is_refused(asked: Any, checkpoint: Path, tmp_path: Path, part: str) -> None:
    import shutil

    broken = shutil.copytree(checkpoint, tmp_path / "broken")
    (broken / part).unlink()
    with pytest.raises(Failure, match=part) as raised:
        VllmOmniEngine().load(broken)
    assert raised.value.error.code == "ModelUnavailable"


def test_one_that_cannot_start_and_does_not_end_is_ended(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a plan that its workers refuse: the reason is told, and no process of it is left."""
    child = tmp_path / "child"
    script = (
        "import subprocess, sys, time\n"
        f"open({str(child)!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))\n"
        "print('(Worker pid=1) AssertionError: 128 is not divisible by 3')\n"
        "print('(APIServer pid=2) ERROR 11-21     raise EOFError')\n"
        "print('(APIServer pid=2) RuntimeError: Orchestrator initialization failed: ', flush=True)\n"
        "time.sleep(600)\n"
    )
    monkeypatch.setattr(OmniPlan, "command", lambda *_: [sys.executable, "-c", script])
    monkeypatch.setattr(vllm_omni, "version", lambda _: "0.30.0")
    monkeypatch.setattr(server_module, "DYING_SECONDS", 0.2)
    with pytest.raises(Failure, match=r"gave up and did not end\. AssertionError: 128 is not divisible by 3") as raised:
        VllmOmniEngine().load(checkpoint)
    assert raised.value.error.code == "EngineFailed"
    until(lambda: not lives(int(child.read_text())))


def told(plan: ParallelPlan, gpus: int = 8, guardrails: bool = True) -> list[str]:
    return OmniPlan(plan, gpus, guardrails).command(Path("/models/nano"), Path("/tmp/s/socket"))


def test_the_server_is_told_the_plan() -> None:
    command = told(ParallelPlan(tp=2, cfg=2, ulysses=2, offload=True))
    pairs = dict(pairwise(command))
    assert pairs["--tensor-parallel-size"] == pairs["--cfg-parallel-size"] == pairs["--ulysses-degree"] == "2"
    assert "--enable-layerwise-offload" in command and "--enforce-eager" not in command
    alone = told(ParallelPlan(), gpus=0)
    assert not {"--tensor-parallel-size", "--cfg-parallel-size", "--ulysses-degree"} & set(alone)
    assert "--enforce-eager" in alone and "--enable-layerwise-offload" not in alone
    assert pairs["--init-timeout"] == "1800" and pairs["--uds"] == "/tmp/s/socket"


def test_guardrails_are_loaded_or_not_and_only_they_ask_the_network() -> None:
    assert "--no-guardrails" not in told(ParallelPlan()) and "--no-guardrails" in told(ParallelPlan(), guardrails=False)
    for guardrails in (True, False):
        variables = OmniPlan(ParallelPlan(), 1, guardrails).environment(Path("/caches"), Path("/tmp/s/socket"))
        assert ("HF_HUB_OFFLINE" in variables) == (not guardrails)
        assert variables["VLLM_OMNI_SERVER_STORAGE__PATH"] == "/tmp/s/videos"
        assert variables["TRITON_CACHE_DIR"] == "/caches/triton"


def probe_upload(said: dict[str, Any], field: str) -> str:
    """The name of what was sent, which was not empty."""
    name, size = said["files"][field]
    assert size > 100 and set(said["files"]) == {field}
    return str(name)

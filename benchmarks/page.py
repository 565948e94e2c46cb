"""Write `docs/benchmarks.md` from the stored results."""

from pathlib import Path
from typing import Any

from benchmarks.generator import accelerations_page, modes_page
from benchmarks.paragraphs import filled, listed
from benchmarks.reasoner import cpu_page as reasoner_cpu_page
from benchmarks.reasoner import gpu_page as reasoner_gpu_page
from benchmarks.reasoner import preparing
from benchmarks.results import kept, stored, table
from benchmarks.runs import page as runs_page

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_PREPARING_COMMAND = "python -m benchmarks.reasoner.preparing --into FILE"


def text() -> str:
    """Return the page."""
    return f"""# Benchmarks

`make bench` writes this page. It repeats those measurements without a GPU that take minutes, and takes the others from
the stored results; their commands are on this page. The raw numbers are in
[`benchmarks/results/`](../benchmarks/results).

## One job, one worker

{table(kept("foundation"))}

[`latency.py`](../benchmarks/app/latency.py) uploads a file to the local cloud. Its moto server, Lambdas and worker
share the cores of the machine with the benchmark. [`throughput.py`](../benchmarks/app/throughput.py) runs one worker
with stand-ins for the engine and for AWS, which answer at once, so that only the worker is measured. In the last row
250 answers come at the same moment, as many do at the end of a queue, and each call to AWS takes 20 ms: six calls for
an answer, in 64 threads, take 0.47 s of the time. [`imports.py`](../benchmarks/app/imports.py) starts a fresh
interpreter for each import. The functions import boto3 at their first call, which adds about a quarter of a second to
that call.

## Sampling a camera's clip

{table(kept("decoding"))}

[`decoding.py`](../benchmarks/reasoner/decoding.py) samples ten seconds of video at 30 frames a second, 4 frames of each
second, as the reasoner's engines do. H.264 says of each frame whether another one refers to it; frames to which none
does, and which are not sampled, are not decoded. The sampled frames are the same to the last bit. How many such frames
a video has depends on its encoder and on what moves in it: with `medium`, x264 makes hardly any of this scene, and a
video without B-frames has none. The times of frames are read from a file's headers and packets; FFmpeg otherwise
decodes H.264 until it knows the format of its pixels.

[`scaling.py`](../benchmarks/reasoner/scaling.py) scales frames of the same clip by the code of the engines, and in one
step of FFmpeg's ([decision 056](decisions/056-scaled-frames-keep-their-colors.md)). The right values are computed in
floating-point numbers. The clip has a sensor's grain in all colors, which is hard to scale.

## Preparing requests

{table(kept("preparing"))}

{_preparing(stored(preparing.RESULT))}

## Writing a generated video

{table(kept("encoding"))}

[`encoding.py`](../benchmarks/generator/encoding.py) writes a drawn clip, of smooth pictures that move, with a little
grain. The decibels are the peak signal-to-noise ratio of brightness and colors, so more is better. `medium` at CRF 17
made the files until commit f7aa754f.

## Deploying

{table(kept("deployment"))}

[`deployment.py`](../benchmarks/app/deployment.py) deploys `examples/everything.json` to the local cloud, with its image
builds. On AWS, the stacks, the builds and EC2 take minutes; these figures do not include that.

## The console

{table(kept("console"))}

[`chromium.py`](../benchmarks/console/chromium.py) types `cosmos-batch view`, and opens the page in Chromium without a
window or a GPU: Chromium draws on the same cores on which the server reads the documents. Each has about a hundred
words, and twenty clips are what they are about. A search is timed in the page, from its request to its rows; the line
below is from the key to the screen. Tasks are those of the page's main thread in a trace, while a wheel turns down the
list and while the list jumps to places all over it. The large video is a sparse file; what the server reads includes
the page.

{runs_page.text()}
{reasoner_gpu_page.text()}{reasoner_cpu_page.text()}
{modes_page.text()}{accelerations_page.text()}"""


def _preparing(found: dict[str, Any]) -> str:
    """Say what the rows on preparing requests are of, and what more cores do."""
    many, few = (
        f"{_rates_of(found, cores, 'processes')} a second in {cores // 2} processes and "
        f"{_rates_of(found, cores, 'threads')} in as many threads"
        for cores in (16, 4)
    )
    return filled(
        "[`preparing.py`](../benchmarks/reasoner/preparing.py) prepares requests as a worker with vLLM does: it reads "
        "the headers of a clip, decodes and scales it, and writes the frames for the server. Threads share one lock "
        "of Python's; processes get a job and return a request as JSON ([decision "
        "057](decisions/057-requests-are-prepared-in-processes.md)). A lone process waits while the next job reaches "
        f"it. Two runs on {found['machine']} ({found['day']}, commit {found['commit']}, {found['clips']} requests, "
        f"`{_PREPARING_COMMAND}`): with 16 cores {many}; with four {few}.",
    )


def _rates_of(found: dict[str, Any], cores: int, way: str) -> str:
    """Return the requests a second of each run with so many cores."""
    rows = [one for run in found["runs"] for one in run if (one["cores"], one["way"]) == (cores, way)]
    return listed((one["perSecond"] for one in rows), 1)

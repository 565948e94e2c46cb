"""Sums up samples of stacks that py-spy wrote (`--format raw`): for how long each of some functions was at work.

    python -m benchmarks.stack_samples SAMPLES --hertz 50 [--below FUNCTION] [--without FUNCTION] [--at FUNCTION,...]

A function counts where a line of the stack contains its text, and so does what it called. `--below` and `--without`
leave out the samples in which a function was not, or was, on the stack. Prints seconds as JSON.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

_SAMPLE = re.compile(r"(?P<stack>.*) (?P<count>\d+)")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stack_samples", description=__doc__)
    parser.add_argument("samples", type=Path)
    parser.add_argument("--hertz", type=float, required=True, help="samples a second")
    parser.add_argument("--below", default="")
    parser.add_argument("--without")
    parser.add_argument("--at", type=lambda text: text.split(","), default=[])
    return parser.parse_args(arguments)


def seconds(
    lines: Iterable[str], hertz: float, functions: Sequence[str], below: str = "", without: str | None = None
) -> dict[str, float]:
    """Return the seconds of all samples, as `all`, and of those in which each function was at work."""
    counts = dict.fromkeys(["all", *functions], 0)
    for line in lines:
        sample = _SAMPLE.fullmatch(line.rstrip("\n"))
        if sample is None:  # py-spy puts commands with line breaks into some stacks
            continue
        stack, count = sample["stack"], int(sample["count"])
        if below not in stack or (without is not None and without in stack):
            continue
        counts["all"] += count
        for function in functions:
            counts[function] += count * (function in stack)
    return {name: round(count / hertz, 2) for name, count in counts.items()}


def main() -> None:
    """Print the seconds; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    with options.samples.open(encoding="utf-8", errors="replace") as lines:
        print(json.dumps(seconds(lines, options.hertz, options.at, options.below, options.without)))


if __name__ == "__main__":
    main()

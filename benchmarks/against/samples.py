"""Where the time of a collected step goes: samples of py-spy, native frames too, or cProfile where that is missing."""

import re
import shutil
import subprocess
import time
from collections import Counter

SECONDS = 20
SHOWN = 40
PYTHON = re.compile(r"(?<=\.py):\d+(?=\)$)")


def profile(process, scratch):
    """The text to print."""
    spy = shutil.which("py-spy")
    if not spy:
        return process.ask("profile")["text"]
    raw = scratch / "samples.txt"
    command = [spy, "record", "--native", "--format", "raw", "--rate", "200", "--duration", str(SECONDS)]
    with subprocess.Popen(
        [*command, "--output", str(raw), "--pid", str(process.pid)], stdout=subprocess.DEVNULL
    ) as run:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            process.ask("collect")
            process.ask("empty")
        run.wait()
    return _summary(raw.read_text().splitlines())


def _summary(lines):
    """Of the samples in collected steps: what is at the top, which line of Python called it, and whole functions."""
    tops, callers, functions, total = Counter(), Counter(), Counter(), 0
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if not any("collect (" in frame and "worker.py" in frame for frame in frames):
            continue
        total += int(count)
        tops[frames[-1]] += int(count)
        python = [frame for frame in frames if PYTHON.search(frame)]
        callers[python[-1]] += int(count)
        for frame in {PYTHON.sub("", frame) for frame in python}:
            functions[frame] += int(count)
    text = [f"{total} samples"]
    for title, counter in (
        ("at the top", tops),
        ("innermost line of Python", callers),
        ("functions, with what they call", functions),
    ):
        text += ["", title, *(f"{count / total:6.1%}  {frame}" for frame, count in counter.most_common(SHOWN))]
    return "\n".join(text)

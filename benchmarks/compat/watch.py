"""Run one command; print its exit code, seconds, CPU seconds and peak MB: `python watch.py COMMAND`.

All of it and all its children: CPU seconds are the sum, and memory is the most that they held at one time.

Peaks of single processes (`ru_maxrss`) say nothing about a command with worker processes, and their sum counts shared
pages once for each. So the whole tree's PSS is added up, which divides a shared page among its holders, as often as
that can be read without getting in the way. A short command may slip through between two looks, therefore the answer is
at least the largest process's own peak.
"""

import contextlib
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LOOK_EVERY = 0.1
SHARE = 0.02  # of the time, at most, is spent on looking: a large process's pages are many


def tree(pid: int) -> Iterator[int]:
    """A process and all its descendants; one that ends meanwhile is left out."""
    yield pid
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in thread.read_text().split():
                yield from tree(int(child))


def held(pid: int) -> int:
    """KiB that a process holds, its share of what it shares included; 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def main() -> None:
    start, peak, pause = time.perf_counter(), 0, LOOK_EVERY
    process = subprocess.Popen(
        sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while True:
        try:
            process.wait(pause)
            break
        except subprocess.TimeoutExpired:
            look = time.process_time()
            peak = max(peak, sum(map(held, tree(process.pid))))
            pause = max(LOOK_EVERY, (time.process_time() - look) / SHARE)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(process.returncode, seconds, used.ru_utime + used.ru_stime, max(peak, used.ru_maxrss) / 1024)


if __name__ == "__main__":
    main()

"""How `msprobe compare` of many ranks gets faster with workers: `python benchmarks/cluster.py [--ranks 256]`.

Two folders of one step with so many ranks, each rank a dump of so many statistics rows, are compared to csv by whole
commands: on 1, 2 and 4 processes of this machine, and on a local Dask cluster (extra `cluster`) of 1, 2 and 4 workers,
which stands before the clock starts. Rounds are interleaved; a cell is the median of the rounds. Every run must give
the tables of the first one, byte for byte. The ranks are copies of one dump; they were just written, so they are read
from memory.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from statistics import median

from compare import write_dump

WORKERS = (1, 2, 4)

CLUSTER = """
import sys
from distributed import LocalCluster
with LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""


def write_step(folder: Path, ranks: int, rows: int, noise: float) -> Path:
    """The folder of a step: one dump, and copies of it for the other ranks."""
    first = write_dump(folder, rows, noise)
    for rank in range(1, ranks):
        shutil.copytree(first, first.with_name(f"rank{rank}"))
    return first.parent


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """The address of a Dask cluster with so many workers of one thread each."""
    command = [sys.executable, "-c", CLUSTER, str(workers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def seconds(target: Path, golden: Path, output: Path, *more: str) -> tuple[float, str]:
    """The time of one command, and a digest of its tables, which are thrown away."""
    command = [sys.executable, "-m", "msprobe", "compare", "-tp", str(target), "-gp", str(golden), "-o", str(output)]
    begun = time.perf_counter()
    done = subprocess.run([*command, "--format", "csv", *more], capture_output=True, text=True, check=False)
    took = time.perf_counter() - begun
    if done.returncode > 1:
        raise RuntimeError(f"msprobe compare {' '.join(more)} ended with {done.returncode}: {done.stderr}")
    # What stands before a table's time stamp tells its rank.
    tables = sorted((file.name.rpartition("_")[0], file) for file in output.rglob("*.csv"))
    digest = sha256(b"".join(sha256(name.encode() + file.read_bytes()).digest() for name, file in tables)).hexdigest()
    shutil.rmtree(output)
    return took, f"{len(tables)} tables, {digest}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--rows", type=int, default=2_000, help="statistics rows of each rank")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the dumps are generated; default: the folder for temporary files")
    args = parser.parse_args()
    times: dict[tuple[str, int], list[float]] = {(where, n): [] for n in WORKERS for where in ("processes", "Dask")}
    seen = set()
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        root = Path(scratch)
        target = write_step(root / "target", args.ranks, args.rows, 1e-3)
        golden = write_step(root / "golden", args.ranks, args.rows, 0)
        for _ in range(args.rounds):
            for n in WORKERS:
                took, tables = seconds(target, golden, root / "output", "--workers", str(n))
                times["processes", n].append(took)
                seen.add(tables)
                with cluster(n) as address:
                    took, tables = seconds(target, golden, root / "output", "--scheduler", address)
                times["Dask", n].append(took)
                seen.add(tables)
    if len(seen) != 1:
        raise RuntimeError(f"the tables differ between runs: {sorted(seen)}")
    cores = len(os.sched_getaffinity(0))
    print(f"{args.ranks} ranks of {args.rows:,} statistics rows on {cores} cores; {seen.pop()[:40]}\n")
    print("| workers | processes, s | gain | Dask, s | gain |\n|---|---|---|---|---|")
    for n in WORKERS:
        cells = []
        for where in ("processes", "Dask"):
            took, alone = median(times[where, n]), median(times[where, 1])
            cells.append(f"{took:.1f} | {alone / took:.2f}x")
        print(f"| {n} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

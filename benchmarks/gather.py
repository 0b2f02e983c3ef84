"""How fast `msprobe gather` turns the files of a kernel dump into a dump: `python benchmarks/gather.py [--quick]`.

The kernel dumps are generated: as many kernels with 3 inputs and 1 output each as give the wanted number of files, with
an execution order and a graph. Rounds are interleaved; a cell is the median of the rounds. The files were just written,
so they are read from memory, not from a disk. A row is one run of the command, with Python's own start.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

SHAPES = [
    ("10,000 files of 1 kB", 10_000, 224),
    ("1,000 files of 1 MB", 1_000, 1 << 18),
    ("50 files of 64 MB", 50, 1 << 24),
]
QUICK = [("1,000 files of 1 kB", 1_000, 224), ("100 files of 1 MB", 100, 1 << 18)]
WAYS = {
    "linked, all processors": (),
    "linked, 1 worker": ("--workers", "1"),
    "statistics only": ("--task", "statistics"),
}

FRAMES = "".join(
    f"      # In file /home/user/train/net.py:{n}, 8~20/        x = self.layer{n}(x)/\n" for n in range(10)
)


def write_raw(folder: Path, files: int, elements: int) -> None:
    """A kernel dump of one iteration: `files` tensors of float32 noise."""
    rank = folder / "rank_0"
    kernels = rank / "Net" / "0" / "0"
    for path in (kernels, rank / "execution_order", rank / "graphs"):
        path.mkdir(parents=True)
    array = np.random.default_rng(0).standard_normal(elements).astype(np.float32)
    names, nodes = [], []
    for at in range(files // 4):
        name = f"Default/network-Net/layers-CellList/{at}-Block/fc-Dense/MatMul-op0"
        names.append(name)
        nodes.append(f"  %{at}(x) = PrimFunc_MatMul({', '.join(f'%{max(at - n, 0)}' for n in (1, 2, 3))})\n")
        nodes.append(f"      # Fullname with scope: ({name})\n{FRAMES}")
        for n, slot in enumerate(("input.0", "input.1", "input.2", "output.0")):
            file = f"MatMul.{name.replace('/', '_')}.0.0.{1000 + 4 * at + n}.{slot}.DefaultFormat.Float32.npy"
            np.save(kernels / file, array)
    order = "NodeExecutionOrder-FullNameWithScope\n" + "\n".join(names) + "\n"
    (rank / "execution_order" / "ms_execution_order_graph_0.csv").write_text(order)
    (rank / "graphs" / "ms_output_trace_code_graph_0.ir").write_text("subgraph @g() {\n" + "".join(nodes) + "}\n")


def seconds(raw: Path, output: Path, more: tuple[str, ...]) -> float:
    """The time of one command, whose output is thrown away."""
    command = [sys.executable, "-m", "msprobe", "gather", str(raw), "-o", str(output), *more]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    took = time.perf_counter() - start
    shutil.rmtree(output)
    return took


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small dumps, three rounds")
    parser.add_argument("--folder", help="where the dumps are generated; default: the folder for temporary files")
    args = parser.parse_args()
    print("| dump | | seconds | files/s | MB/s |\n|---|---|---|---|---|")
    for label, files, elements in QUICK if args.quick else SHAPES:
        with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
            raw = Path(scratch) / "raw"
            write_raw(raw, files, elements)
            count = files // 4 * 4
            times: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(3 if args.quick else 5):
                for way, more in WAYS.items():
                    times[way].append(seconds(raw, Path(scratch) / "out", more))
            for way, took in times.items():
                t = median(took)
                print(
                    f"| {label} | {way} | {t:.2f} | {count / t:,.0f} | {count * elements * 4 / t / 1e6:,.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

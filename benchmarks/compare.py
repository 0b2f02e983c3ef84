"""How long `msprobe compare` takes: whole commands on generated dumps, as a markdown table.

    python benchmarks/compare.py [--rows 20000 200000] [--across 100000] [--equal 0.5] [--tensors 200]
        [--keep DIR]

Each command runs in a process of its own; the time is from its start to its end, with Python's own start, and the
memory is that process's peak. CPU seconds include those of its workers; where others use the machine meanwhile, they
say more. The two dumps agree in the first half and differ a little in the second, as two real runs do; `--equal` is
another share, 0 for dumps whose every record differs. `--across`: rows of a dump of MindSpore that is compared with one
of PyTorch, whose names and arguments differ.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RECORDS_IN_A_CALL = 4

FRAMEWORKS = {
    "mindspore": ("Cell", "mindspore.Tensor", "Float32", ("Functional.matmul", "Functional.add", "Functional.relu")),
    "across": ("Cell", "mindspore.Tensor", "Float32", ("Mint.addcmul", "Mint.addcdiv", "Mint.baddbmm")),
    "pytorch": ("Module", "torch.Tensor", "torch.float32", ("Torch.addcmul", "Torch.addcdiv", "Torch.baddbmm")),
}
"""What the calls of a dump are called; of two frameworks, functions of three tensors that both have."""

# A process's peak includes what its parent held when it was forked, so a small one stands in between.
LAUNCHER = """
import resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def write_dump(folder: Path, rows: int, noise: float, names: str = "mindspore", equal: float = 0.5) -> Path:
    """Write a dump of `rows` statistics records: layers of cells with three API calls each, of one of `FRAMEWORKS`.
    After the share `equal` of the calls, records differ by `noise`, relative."""
    prefix, kind, dtype, functions = FRAMEWORKS[names]
    step = folder / "step0" / "rank0"
    step.mkdir(parents=True)
    draw, shake = random.Random(1), random.Random(2)
    data, construct, groups = {}, {}, {}
    calls = rows // RECORDS_IN_A_CALL
    for at in range(calls):
        layer = at // RECORDS_IN_A_CALL
        cell = f"{prefix}.model.layers.{layer}.attention.Attention.forward.0"
        inner = at % RECORDS_IN_A_CALL < 3
        name = f"{functions[at % RECORDS_IN_A_CALL]}.{layer}.forward" if inner else cell
        records = []
        for _ in range(RECORDS_IN_A_CALL):
            numbers = [draw.gauss(0, 1) for _ in range(4)]
            if at >= calls * equal and noise:
                numbers = [n * (1 + noise * shake.random()) for n in numbers]
            top, low, mean, norm = numbers
            statistics = {"Max": abs(top), "Min": -abs(low), "Mean": mean, "Norm": abs(norm) * 32}
            records.append({"type": kind, "dtype": dtype, "shape": [32, 128], **statistics})
        data[name] = {"input_args": records[:3], "input_kwargs": {}, "output": records[3:]}
        construct[name] = cell if inner else None
        groups.setdefault(at % 50, []).append(name)
    frames = [f"File /home/user/net/layer{n}.py, line {n}, in construct, \n y = self.layer{n}(x)" for n in range(15)]
    framework = "pytorch" if names == "pytorch" else "mindspore"
    head = {"task": "statistics", "level": "mix", "framework": framework, "dump_data_dir": None, "data": data}
    (step / "dump.json").write_text(json.dumps(head, indent=1))
    (step / "construct.json").write_text(json.dumps(construct, indent=1))
    (step / "stack.json").write_text(json.dumps({n: [names, frames] for n, names in groups.items()}, indent=1))
    return step


def write_tensor_dump(folder: Path, tensors: int, noise: float) -> Path:
    """Write a dump of `tensors` float32 tensors of 4 MB."""
    step = folder / "step0" / "rank0"
    (step / "dump_tensor_data").mkdir(parents=True)
    draw, shake = np.random.default_rng(1), np.random.default_rng(2)
    data = {}
    for at in range(tensors):
        name = f"Functional.relu.{at}.forward"
        array = draw.standard_normal((1024, 1024), np.float32)
        if noise and at > tensors // 2:
            array += np.float32(noise) * shake.standard_normal((1024, 1024), np.float32)
        file = f"{name}.output.0.npy"
        np.save(step / "dump_tensor_data" / file, array)
        record = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [1024, 1024], "data_name": file}
        record |= {"Max": float(array.max()), "Min": float(array.min()), "Mean": float(array.mean()), "Norm": 1024.0}
        data[name] = {"input_args": [], "input_kwargs": {}, "output": [record]}
    head = {"task": "tensor", "level": "L1", "framework": "mindspore", "dump_data_dir": None, "data": data}
    (step / "dump.json").write_text(json.dumps(head, indent=1))
    return step


def measure(target: Path, golden: Path, output: Path, *more: str) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak megabytes of one whole command."""
    command = [
        sys.executable,
        "-m",
        "msprobe",
        "compare",
        "-tp",
        str(target),
        "-gp",
        str(golden),
        "-o",
        str(output),
        *more,
    ]
    launch = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    done = subprocess.run(launch, capture_output=True, text=True, check=True)
    code, seconds, used, peak = done.stdout.split()
    if int(code) > 1:
        raise RuntimeError(f"{' '.join(command)} ended with {code}")
    return float(seconds), float(used), float(peak)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[20_000, 200_000])
    parser.add_argument("--across", type=int, nargs="*", default=[])
    parser.add_argument("--equal", type=float, default=0.5)
    parser.add_argument("--tensors", type=int, default=100)
    parser.add_argument("--keep", help="write the dumps here and leave them")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(args.keep or scratch)
        print("| dumps | command | seconds | CPU s | peak MB |\n|---|---|---|---|---|")

        def report(dumps: str, target: Path, golden: Path, *more: str) -> None:
            seconds, used, peak = measure(target, golden, root / "output", *more)
            print(f"| {dumps} | `{' '.join(more)}` | {seconds:.2f} | {used:.2f} | {peak:.0f} |", flush=True)

        for rows in args.rows:
            target = write_dump(root / f"target{rows}", rows, 1e-3, equal=args.equal)
            golden = write_dump(root / f"golden{rows}", rows, 0)
            for more in (("--format", "csv"), ("--format", "json"), ("--format", "xlsx"), ("--format", "xlsx", "-s")):
                report(f"{rows:,} statistics rows", target, golden, *more)
        for rows in args.across:
            target = write_dump(root / f"across{rows}", rows, 1e-3, "across", args.equal)
            golden = write_dump(root / f"pytorch{rows}", rows, 0, "pytorch")
            report(f"{rows:,} statistics rows against PyTorch", target, golden, "--format", "csv")
        if args.tensors:
            target = write_tensor_dump(root / "target_tensors", args.tensors, 1e-3)
            golden = write_tensor_dump(root / "golden_tensors", args.tensors, 0)
            report(f"{args.tensors} tensors of 4 MB", target, golden, "--format", "csv")


if __name__ == "__main__":
    main()

"""Calls checked per second: a transformer of mint functions, task tensor, forward and backward.

    python speed.py WORK [--layers 40] [--reference BIN]

Prints wall time and processor time of `msprobe acc-check`, and of the reference's `run_ut` on the same dump where BIN
is the `msprobe` of an environment that has it. Processor time is what counts on a machine that others use.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

RECORD = """
import json, sys
import mindspore, numpy as np
from mindspore import Tensor, mint
from msprobe.mindspore import PrecisionDebugger

folder, layers = sys.argv[1], int(sys.argv[2])
mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
rng = np.random.default_rng(1)
weights = [[Tensor((rng.standard_normal(s) / s[0] ** 0.5).astype(np.float32)) for s in ((64, 64),) * 4 + ((64, 128),
            (64, 128), (128, 64))] for _ in range(layers)]
x = Tensor(rng.standard_normal((2, 32, 64)).astype(np.float32))


def net(x, *flat):
    for at in range(0, len(flat), 7):
        q, k, v, o, up, gate, down = flat[at : at + 7]
        h = mint.mul(x, mint.rsqrt(mint.add(mint.mean(mint.square(x), -1, True), 1e-6)))
        scores = mint.div(mint.matmul(mint.matmul(h, q), mint.transpose(mint.matmul(h, k), 1, 2)), 8.0)
        x = mint.add(x, mint.matmul(mint.matmul(mint.nn.functional.softmax(scores, -1), mint.matmul(h, v)), o))
        h = mint.mul(x, mint.rsqrt(mint.add(mint.mean(mint.square(x), -1, True), 1e-6)))
        h = mint.mul(mint.nn.functional.silu(mint.matmul(h, gate)), mint.matmul(h, up))
        x = mint.add(x, mint.matmul(h, down))
    return mint.mean(mint.square(x))


flat = [w for layer in weights for w in layer]
debugger = PrecisionDebugger(config_path=f"{folder}/config.json")
debugger.start()
mindspore.value_and_grad(net, tuple(range(1 + len(flat))))(x, *flat)
debugger.stop()
debugger.step()
"""


def timed(command, cwd):
    """Seconds of the clock and of the processor, and the exit code."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--layers", type=int, default=40)
    parser.add_argument("--reference", type=Path)
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if not (work / "dump").exists():
        settings = {"task": "tensor", "dump_path": str(work / "dump"), "level": "L1", "tensor": {}}
        (work / "config.json").write_text(json.dumps(settings))
        subprocess.run([sys.executable, "-c", RECORD, str(work), str(args.layers)], check=True, capture_output=True)
    [dump] = work.glob("dump/step0/**/dump.json")
    data = json.loads(dump.read_text())["data"]
    calls = sum(name.startswith(("Mint.", "MintFunctional.")) for name in data)
    print(f"{calls} calls of mint")
    ours = [str(Path(sys.executable).parent / "msprobe"), "acc_check", "-api_info", str(dump), "-o", str(work / "ours")]
    commands = {"msprobe acc-check": [*ours, "--workers", "2"]}
    if args.reference:
        commands["reference run_ut"] = [
            *(str(args.reference), "-f", "mindspore", "run_ut", "-api_info", str(dump), "-o", str(work / "theirs"))
        ]
    print("| | wall s | processor s | calls a second of one processor |\n|---|---|---|---|")
    for name, command in commands.items():
        shutil.rmtree(command[command.index("-o") + 1], ignore_errors=True)
        Path(command[command.index("-o") + 1]).mkdir()
        wall, processor, done = timed(command, work)
        print(f"| {name} | {wall:.1f} | {processor:.1f} | {calls / processor:.1f} |", flush=True)
        if done.returncode not in (0, 1):
            print(done.stderr[-600:])
        print("   ", done.stdout.strip().splitlines()[-1:] or done.stderr.strip().splitlines()[-1:])


if __name__ == "__main__":
    main()

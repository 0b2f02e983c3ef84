"""What a columnar dump saves: `python benchmarks/columnar.py [--quick]` prints two tables. Needs torch and pyarrow.

Records: a step of a transformer is collected with statistics and digests, and repeated, with other layers and numbers
in each copy, to a million records. Tensors: a training step of one bfloat16 transformer block, collected in both
formats in turn; a cell is the median of the rounds. CPU seconds are those of all threads of the process.
"""

import argparse
import json
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

from msprobe.pytorch import PrecisionDebugger
from msprobe.store.columnar.records import journal_of, read_records, write_records
from msprobe.store.conversion import to_columnar
from msprobe.store.journal import Journal, assemble
from msprobe.store.reader import read_file

LAYERS = 4
APIS = 100  # more than a step has calls of one function
_STATISTICS = re.compile(r'"Max":([^,]+),"Min":([^,]+),"Mean":([^,]+),"Norm":([^,}]+)')
_DIGEST = re.compile(r'"md5":"[0-9a-f]{8}"')
_CALL = re.compile(r"\b(\w+\.\w+)\.(\d+)\.(forward|backward)\b")
_LAYER = re.compile(r"\blayers\.(\d+)\.")


def network(width: int, layers: int, dtype: torch.dtype) -> torch.nn.Module:
    """A transformer's encoder."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(dtype)


def collect(net: torch.nn.Module, x: torch.Tensor, root: Path, task: str, form: str) -> tuple[float, float, Path]:
    """Seconds by the clock and of the processor for a training step that is collected, and the folder of its dump."""
    config = root / f"{form}.json"
    config.write_text(json.dumps({"task": task, "level": "mix", "format": form, task: {"summary_mode": "md5"}}))
    dump = Path(tempfile.mkdtemp(dir=root))
    debugger = PrecisionDebugger(str(config), dump_path=str(dump))
    net.zero_grad()
    clock, cpu = time.perf_counter(), time.process_time()
    debugger.start(net)
    net(x).float().square().mean().backward()
    debugger.stop()
    debugger.step()
    return time.perf_counter() - clock, time.process_time() - cpu, dump / "step0" / "rank"


def repeated(one: Journal, copies: int) -> Journal:
    """A journal of many layers: each copy has layers, numbers of calls, statistics and digests of its own."""
    made = Journal(header=one.header, stacks=one.stacks)
    dice = random.Random(0)
    for copy in range(copies):
        known: dict[str, str] = {}

        def renamed(text: str, copy: int = copy) -> str:
            text = _LAYER.sub(lambda m: f"layers.{int(m[1]) + LAYERS * copy}.", text)
            return _CALL.sub(lambda m: f"{m[1]}.{int(m[2]) + APIS * copy}.{m[3]}", text)

        def numbers(found: re.Match[str], known: dict[str, str] = known) -> str:
            if found[0] not in known:
                factor = dice.random()
                high, low = (float(np.float32(float(found[at]) * factor)) for at in (1, 2))
                mean, norm = (float(found[at]) * factor for at in (3, 4))
                known[found[0]] = f'"Max":{high!r},"Min":{low!r},"Mean":{mean!r},"Norm":{norm!r}'
            return known[found[0]]

        def digest(found: re.Match[str], known: dict[str, str] = known) -> str:
            return known.setdefault(found[0], f'"md5":"{dice.getrandbits(32):08x}"')

        for name, texts in one.entries.items():
            made.entries[renamed(name)] = [renamed(_DIGEST.sub(digest, _STATISTICS.sub(numbers, texts[0])))]
        made.parents.update((renamed(name), parent and renamed(parent)) for name, parent in one.parents.items())
        made.stack_of.update((renamed(name), stack) for name, stack in one.stack_of.items())
    return made


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    clock, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - clock, time.process_time() - cpu


def written(journal: Journal, folder: Path) -> dict[str, tuple[float, float]]:
    """Seconds for the files of both formats."""
    return {
        "json": timed(lambda: assemble(folder, journal)),
        "columnar": timed(lambda: write_records(folder, journal)),
    }


def records(root: Path, wanted: int, rounds: int) -> None:
    """The table of records."""
    net = network(64, LAYERS, torch.float32)
    _, _, folder = collect(net, torch.randn(2, 8, 64), root, "statistics", "json")
    to_columnar(folder / "dump.json", root / "one")
    one = journal_of(read_records(root / "one" / "dump.parquet"))
    count = len(read_file(folder / "dump.json").columns)
    many = root / "many"
    many.mkdir()
    write = written(repeated(one, -(-wanted // count)), many)
    files = {"json": many / "dump.json", "columnar": many / "dump.parquet"}
    load: dict[str, list[tuple[float, float]]] = {form: [] for form in files}
    rows = 0
    for _ in range(rounds):
        for form, file in files.items():
            load[form].append(timed(lambda file=file: read_file(file)))
    rows = len(read_file(files["columnar"]).columns)
    sizes = {
        "json": sum((many / name).stat().st_size for name in ("dump.json", "stack.json", "construct.json")),
        "columnar": files["columnar"].stat().st_size,
    }
    print(f"| {rows:,} records | MB | of JSON | load, s | load, CPU s | write, CPU s |\n|---|---|---|---|---|---|")
    for form in files:
        clock, cpu = (median(each[at] for each in load[form]) for at in (0, 1))
        share = sizes[form] / sizes["json"]
        print(f"| {form} | {sizes[form] / 1e6:.1f} | {share:.1%} | {clock:.1f} | {cpu:.1f} | {write[form][1]:.1f} |")


def tensors(root: Path, width: int, rounds: int) -> None:
    """The table of tensors."""
    net = network(width, 1, torch.bfloat16)
    x = torch.randn(2, 256, width, dtype=torch.bfloat16)
    times: dict[str, list[tuple[float, float]]] = {"json": [], "columnar": []}
    sizes = {}
    for number in range(rounds + 1):
        for form in times:
            clock, cpu, folder = collect(net, x, root, "tensor", form)
            if number:  # the first round imports, and warms up
                times[form].append((clock, cpu))
            sizes[form] = sum(file.stat().st_size for file in (folder / "dump_tensor_data").iterdir())
            shutil.rmtree(folder)
    print(f"\n| bfloat16 block of width {width} | MB | of npy | step, s | step, CPU s |\n|---|---|---|---|---|")
    for form, found in times.items():
        clock, cpu = (median(each[at] for each in found) for at in (0, 1))
        print(f"| {form} | {sizes[form] / 1e6:.1f} | {sizes[form] / sizes['json']:.1%} | {clock:.2f} | {cpu:.2f} |")
    ratios = [
        median(ours[at] / theirs[at] for ours, theirs in zip(times["columnar"], times["json"], strict=True))
        for at in (0, 1)
    ]
    print(f"\ncolumnar over json, medians of {rounds} rounds: {ratios[0]:.2f} by the clock, {ratios[1]:.2f} of CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, a smaller block, fewer rounds")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        tensors(Path(folder), 256 if quick else 512, 3 if quick else 9)
        records(Path(folder), 100_000 if quick else 1_000_000, 1 if quick else 3)


if __name__ == "__main__":
    main()

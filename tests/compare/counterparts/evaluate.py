"""How many of the hand-written pairs of the twins are found, and how many wrong ones: a line per pair of dumps.

    python tests/compare/counterparts/evaluate.py FOLDER [NET ...]

FOLDER holds the dumps as FOLDER/NET/{mindspore,pytorch}[-VARIANT or -LEVEL or -TASK]/step0/rank, as tests/twins makes
them. Exit code 1 where a pair is wrong, or too few were found (98 % of the leaf modules, 95 % of the calls of APIs).
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "twins"))

import truth  # the path to it is set above

from msprobe.compare.counterparts.search import find_counterparts
from msprobe.store.reader import read

LEAST = {"leaf": 0.98, "api": 0.95}


@dataclass(frozen=True)
class Result:
    """What was found of one pair of dumps."""

    net: str
    label: str
    leaf: tuple[int, int]
    container: tuple[int, int]
    api: tuple[int, int]
    wrong: tuple[str, ...]
    seconds: float
    lost: tuple[str, ...]

    def __bool__(self):
        enough = all(found >= LEAST[kind] * of for kind, (found, of) in (("leaf", self.leaf), ("api", self.api)))
        return not self.wrong and enough


def evaluate(net, label, target, golden, variant=None):
    """Hold what is found between two dumps against the truth."""
    written = truth.load(net, variant)
    mine, theirs = read(target), read(golden)
    begin = time.perf_counter()
    found = find_counterparts(mine, theirs)
    seconds = time.perf_counter() - begin
    names = mine.columns.names, theirs.columns.names
    pairs = {(names[0][c.target], names[1][c.golden]) for c in found.calls}
    required = {p: need for p, need in written.pairs().items() if p[0] in set(names[0]) and p[1] in set(names[1])}
    leaves = written.leaves()
    leaves |= {truth.backward(name) for name in leaves}
    wanted = {pair for pair, need in required.items() if need}
    kinds = {"leaf": set(), "container": set(), "api": set()}
    for pair in wanted:
        is_cell = pair[0].startswith("Cell.")
        kinds["leaf" if pair[0] in leaves else "container" if is_cell else "api"].add(pair)
    counts = {kind: (len(of & pairs), len(of)) for kind, of in kinds.items()}
    wrong = sorted(f"{a} -> {b}" for a, b in pairs - required.keys() if "parameters_grad" not in a)
    lost = sorted(f"{a} -> {b}" for a, b in wanted - pairs)
    return Result(net, label, counts["leaf"], counts["container"], counts["api"], tuple(wrong), seconds, tuple(lost))


def cases(folder, net):
    """The pairs of dumps in a folder: label, target, golden and the truth's variant."""
    for target in sorted((folder / net).glob("mindspore*")):
        label = target.name.removeprefix("mindspore").removeprefix("-")
        golden = folder / net / f"pytorch-{label}"
        variant = label if label in truth.VARIANTS else None
        if not golden.exists():
            if label == "equal_weights" or (variant and truth.load(net, variant).patches["pt"]):
                continue  # the plain dump of PyTorch is of another program
            golden = folder / net / "pytorch"
        for step in sorted(target.glob("step*")):
            there = golden / step.name
            if there.exists() and list(step.glob("rank*")):
                yield f"{label or 'plain'}", step, there, variant


def line(result):
    """One line of the table."""
    shown = [f"{f}/{of} {100 * f / of if of else 100:5.1f}%" for f, of in (result.leaf, result.container, result.api)]
    begin, end = f"{result.net:8} {result.label:18}", f"{len(result.wrong):6} {result.seconds:7.2f}"
    return f"{begin} {shown[0]:>16} {shown[1]:>16} {shown[2]:>16} {end}"


def main(folder, nets, verbose):
    """Print the table."""
    print(f"{'net':8} {'dumps':18} {'leaf modules':>16} {'containers':>16} {'calls of APIs':>16} {'wrong':>6} {'s':>7}")
    good = True
    for net in nets or truth.nets():
        for label, target, golden, variant in cases(Path(folder), net):
            result = evaluate(net, label, target, golden, variant)
            good &= bool(result)
            print(line(result), flush=True)
            for text in result.wrong[: 8 if not verbose else None]:
                print("    wrong:", text)
            for text in result.lost if verbose else ():
                print("    lost: ", text)
    return 0 if good else 1


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "-v"]
    sys.exit(main(arguments[0], arguments[1:], "-v" in sys.argv))

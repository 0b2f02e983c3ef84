"""Train, plant faults, compare the monitors, and count how often stage, layer, step and rank are named.

    python benchmarks/monitor_faults/run.py [--seeds 1,2] [--nets transformer] [--steps 200] [--only clean] [--work D]

Needs MindSpore and msprobe. A training that is in D already is not run again; about 4 minutes for a net and a seed
on two idle cores.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import mindspore
import numpy as np
from nets import NETS
from train import STATISTICS, Fault, Run, Variant

from msprobe.compare.monitor.band import plain
from msprobe.compare.monitor.compare import compare_outputs
from msprobe.compare.monitor.finding import MonitorDivergence
from msprobe.findings.catalogue import monitor as stages
from msprobe.store.monitor.layout import OWN_STATISTICS
from msprobe.store.monitor.reader import read_output

ALONE = ("rate", "decay", "backward", "moments", "eps", "batch", "loss_scale")
OF_RANKS = ("clip", "all_reduce")
STAGES = {
    **dict.fromkeys(("rate", "decay", "eps"), (stages.AFTER_UPDATE,)),
    **dict.fromkeys(OF_RANKS, (stages.REDUCED,)),
    "moments": (stages.MOMENT,),
    "batch": (stages.ACTIVATION,),
    "loss_scale": (stages.ACTIVATION_GRADIENT,),
    "backward": (stages.ACTIVATION_GRADIENT, stages.UNREDUCED),
}
OWN_PROCESS = "MONITOR_FAULTS_CASE"  # names the one case that a process of its own trains
NEAR = 2  # steps
AFTER = 40  # steps of a training with a fault after it began: an answer so late is wrong in any case
ANOTHER_ORDER = 3  # seed of the permutations on the side that has the fault


@dataclass(frozen=True)
class Case:
    """One training beside its golden one."""

    net: str
    seed: int
    ranks: int
    fault: Fault | None = None
    variant: Variant = field(default_factory=Variant)

    @property
    def name(self):
        fault = self.fault
        what = f"{fault.name}-{fault.step}-{fault.where}-{fault.rank}" if fault else "clean"
        variant = self.variant
        how = f"order{variant.permuted}" + ("-half" if variant.half else "")
        how += f"-process{variant.process}-threads{variant.threads}" if variant.process else ""
        return f"{self.net}-{self.seed}-{self.ranks}-{what}-{how}"

    @property
    def golden(self):
        return Case(self.net, self.seed, self.ranks)


def faults(net, seed, steps):
    """Each fault by the same arithmetic and by another order of sums."""
    rng = np.random.default_rng([seed, list(NETS).index(net)])
    for ranks, names in ((1, ALONE), (2, OF_RANKS)):
        for name in names:
            for order in (0, ANOTHER_ORDER):
                step, where, rank = int(rng.integers(30, steps - 10)), int(rng.integers(60)), int(rng.integers(ranks))
                yield Case(net, seed, ranks, Fault(name, step, where, rank), Variant(permuted=order))


def clean(net, seed):
    """Correct trainings that differ in their arithmetic, or in their process alone."""
    for ranks in (1, 2):
        for order in range(1, 3):
            yield Case(net, seed, ranks, None, Variant(permuted=order))
    yield Case(net, seed, 1, None, Variant(half=True))
    yield Case(net, seed, 1, None, Variant(half=True, permuted=1))
    for process, threads in enumerate((0, 1, 4), 1):
        yield Case(net, seed, 1, None, Variant(process=process, threads=threads))


class Trainings:
    """Trainings as files of TrainerMon, run once."""

    def __init__(self, work, steps):
        self.work, self.steps, self._compiled, self._bases = work, steps, {}, {}

    def forget(self):
        """Another net or seed: the trainings without faults are not gone on with."""
        self._bases.clear()

    def folder(self, case):
        folder = self.work / case.name
        if (folder / "done").exists():
            return folder
        if case.variant.process and os.environ.get(OWN_PROCESS) != case.name:
            self._in_own_process(case)
        else:
            key = (case.net, case.ranks, case.variant.half)
            if key not in self._compiled:
                self._compiled[key] = Run(*key)
            run = self._compiled[key].seeded(case.seed)
            base = replace(case, fault=None)
            if base not in self._bases:
                cases = faults(case.net, case.seed, self.steps)
                kept = {each.fault.step for each in cases if replace(each, fault=None) == base}
                self._bases[base] = run.train(self.steps, None, case.variant, kept=kept)
            trained = self._bases[base]
            if case.fault is not None:
                last = min(self.steps, case.fault.step + AFTER)
                trained = run.train(last, case.fault, case.variant, trained)
            for rank, kinds in enumerate(trained.found):
                write(kinds, folder / f"Jan01_00-00-00-rank{rank}-0000000{rank}")
            (folder / "done").touch()
        return folder

    def _in_own_process(self, case):
        environment = {**os.environ, OWN_PROCESS: case.name}
        if case.variant.threads:
            environment["OMP_NUM_THREADS"] = str(case.variant.threads)
        words = ["--seeds", str(case.seed), "--nets", case.net, "--steps", str(self.steps), "--work", str(self.work)]
        subprocess.run([sys.executable, __file__, *words], env=environment, check=True, stdout=subprocess.DEVNULL)


def write(kinds, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, (names, values) in kinds.items():
        own = OWN_STATISTICS.get(kind)
        columns = own or (*STATISTICS, "shape", "dtype")
        micro = ["micro_step"] if kind in ("actv", "actv_grad", "local") else []
        with (folder / f"{kind}_0-{len(values) - 1}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["vpp_stage", "name", "step", *micro, *columns])
            for step, rows in enumerate(values):
                for name, row in zip(names, rows, strict=True):
                    texts = [] if own else ["()", "Float32"]
                    writer.writerow([0, name, step, *(0 for _ in micro), *map(digits, row), *texts])


def digits(value):
    """Six decimals, of numbers below 1 six significant digits."""
    return round(value, 6) if abs(value) >= 1 else float(f"{value:.6g}")


def is_right(case: Case, found: MonitorDivergence | None, names: list[str]):
    """Whether a finding names stage, layer, step and rank of the fault."""
    fault = case.fault
    if found is None or abs(found.step - fault.step) > NEAR or found.stage not in STAGES[fault.name]:
        return False
    layers = NETS[case.net].layers
    if fault.name == "backward":
        layer = layers[fault.where % len(layers)]
        return layer in (plain(found.agreeing), plain(found.target), found.target.rpartition(".")[0]) or (
            found.target.startswith(f"{layer}.")
        )
    if fault.name in ("batch", "loss_scale"):
        return plain(found.target) == (layers[0] if fault.name == "batch" else layers[-1])
    if fault.name == "decay":
        return found.target.rpartition(".")[2] in ("bias", "gamma", "beta")
    if fault.name == "clip":
        return found.ranks == (fault.rank,)
    if fault.name == "all_reduce":
        is_one = fault.where % 2 == 0
        return found.ranks == (0, 1) and (not is_one or found.target == names[fault.where // 2 % len(names)])
    return True


def how_it_differs(variant):
    """A row of the table of results."""
    if variant.half:
        return "bfloat16"
    if variant.process:
        return f"{variant.threads} threads" if variant.threads else "plain rerun"
    return "other order" if variant.permuted else "same arithmetic"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", choices=("faults", "clean"))
    parser.add_argument("--work", type=Path)
    args = parser.parse_args()
    work = args.work or Path(tempfile.mkdtemp(prefix="monitor-faults-"))
    trainings = Trainings(work, args.steps)
    if OWN_PROCESS in os.environ:
        (case,) = (c for c in clean(args.nets, int(args.seeds)) if c.name == os.environ[OWN_PROCESS])
        if case.variant.threads:
            mindspore.set_context(runtime_num_threads=case.variant.threads)
        trainings.folder(case)
        return
    count = {}
    for seed in map(int, args.seeds.split(",")):
        for net in args.nets.split(","):
            trainings.forget()
            of_faults = faults(net, seed, args.steps) if args.only != "clean" else ()
            for case in (*of_faults, *(clean(net, seed) if args.only != "faults" else ())):
                a, b = (read_output(trainings.folder(each)) for each in (case, case.golden))
                result = compare_outputs(a, b)
                found = result.finding
                names = [target.name for target in b.ranks[0].tables["param_origin"].targets]
                good = found is None if case.fault is None else is_right(case, found, names)
                how = how_it_differs(case.variant)
                row = count.setdefault((case.fault.name if case.fault else "clean", how), [0, 0])
                row[0] += good
                row[1] += 1
                answer = "" if found is None else f"{found.stage.name} of {found.target} at {found.step} {found.ranks}"
                passed = f"  passed {result.passed}" if result.passed else ""
                print(f"{'right' if good else 'WRONG'}  {case.name}  {result.basis.name}  {answer}{passed}", flush=True)
    for (name, how), (good, of) in count.items():
        print(f"| {name} | {how} | {good} of {of} |")


if __name__ == "__main__":
    main()

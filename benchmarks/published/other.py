"""Train the cases with mindstudio-probe and score its answers: `python benchmarks/published/other.py -h`.

The tool is a black box: it is used by its documented names and commands only.

The file runs twice: in a Python with msprobe-ms, which makes an environment of the other tool, and then in the Python
of that environment, where `import msprobe` is the other tool.
"""

import argparse
import csv
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import case as cases
import run as bench

VERSION = "26.2.0"
NEEDS = ("mindspore", "torch==2.13.0", "numpy<2")  # MindSpore 2.10 trains with numpy 1 only
INSIDE = "PUBLISHED_OTHER"
HERE = Path(__file__).parent
TASK = "tensor"
VARIANTS = ("fixed", "buggy", "twin")
CONFIG = {"mindspore": {"precision": "high"}, "pytorch": {}}
"""Statistics: CPUs have no kernels for those of bfloat16 in MindSpore; "high" has no means and norms in PyTorch."""
READINGS = {"compare": (), "first": ("-da",)}
"""folder: options of its command `compare`"""
MARKS = ("error", "warning")
CALL = re.compile(r"(.+?\.(?:parameters_grad|(?:forward|backward)(?:\.\d+)?))(?:\.|$)")
CELL = re.compile(r"(?:Module|Cell)\.(.+)\.\w+\.(?:forward|backward|parameters_grad)")
PARAMETER = re.compile(r"\.(?:parameters|parameters_grad(?:\.\d+)?)\.(\w+)$")
OTHER_NAME = ("Tensor.__rtruediv__.", "Tensor.__mul__.")
"""It records `number / tensor` as a reciprocal and this product."""
NOTHING_FOUND = "Cannot find any diff node"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scores", type=Path, metavar="FILE", help="write the scores, as JSON, for run.py --other")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases whose name has this text")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep dumps and tables, and use existing ones")
    parser.add_argument("--environments", type=Path, metavar="DIR", help="where the other tool is installed")
    args = parser.parse_args()
    if INSIDE not in os.environ:
        run_in_its_environment(args.environments)
    chosen = [each for each in cases.load_all() if not args.only or any(text in each.name for text in args.only)]
    work = (args.keep or Path(tempfile.mkdtemp(prefix="published-other-"))).absolute()
    signal.signal(signal.SIGTERM, bench.end_children)
    for framework in cases.PLANNED:
        wanted = [each for each in chosen if each.framework == framework]
        if wanted:
            bench.in_fork(lambda wanted=wanted, framework=framework: all_of(framework, wanted, work), limit=0)
    scores = {each.name: score(each, work / each.name) for each in chosen}
    args.scores.write_text(json.dumps(scores, indent=1))
    for name, found in scores.items():
        answers = (f"{reading}: {each['outcome']}, twin {each['twin']}" for reading, each in found.items())
        print(f"{name}: {'; '.join(answers)}")
    if not args.keep:
        shutil.rmtree(work)


def run_in_its_environment(environments):
    """Replace this process by the Python of the other tool's environment, which is made if it is not there."""
    sys.path.append(str(HERE.parent))
    from compat.other_tool import ENVIRONMENTS, clean_environment, install

    tool = install(VERSION, environments or ENVIRONMENTS / "published", NEEDS)
    python = str(tool.folder / "bin" / "python")
    os.execve(python, [python, *sys.argv], {**clean_environment(), INSIDE: "1"})


def all_of(framework, chosen, work):
    """Import a framework and the tool once, collect the cases and compare their runs."""
    backend = __import__(f"on_{framework}")
    __import__("msprobe.msprobe")  # the command; here once, otherwise each forked process imports it
    if framework == "mindspore":
        backend.ms.mint.norm = norm
    base = backend.TorchRun if framework == "pytorch" else backend.MindSporeRun
    run_class = type("OtherRun", (OtherRun, base), {"config": CONFIG[framework]})
    for case in chosen:
        folder, started = work / case.name, time.monotonic()
        for variant in VARIANTS:
            here = folder / variant
            if not (here / "done").exists():
                shutil.rmtree(here, ignore_errors=True)
                here.mkdir(parents=True)
                buggy, noise = bench.VARIANTS[variant]
                if bench.train(EarlyCase(**vars(case)), backend, run_class, here, buggy, noise, TASK):
                    (here / "done").touch()
        for variant in VARIANTS[1:]:
            for step in steps_of(folder / variant):
                for reading, options in READINGS.items():
                    output = folder / f"{reading}_{variant}" / step.name
                    compare(step, folder / "fixed" / "dump" / step.name, output, options)
        print(f"{case.name}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)


class OtherRun:
    """A run with the other tool's debugger. A file configures it, because its argument `task` does not set the task."""

    def construct(self):
        """Construct the debugger, before the network, as the tool asks."""
        file = self.folder / f"config{self.rank}.json"
        common = {"task": self.task, "level": "mix", "dump_path": str(self.folder / "dump"), "rank": [], "step": []}
        file.write_text(json.dumps({**common, **self.config, self.task: {}}))
        self.constructed = self.debugger_class(config_path=str(file))

    def _debugger(self, steps):
        return StartedIn(self.constructed, steps, self.rank)


class StartedIn:
    """A debugger that is started in some steps only; with the number of the rank, without which `-da` fails."""

    def __init__(self, debugger, steps, rank):
        self.debugger, self.steps, self.rank, self.now = debugger, steps, rank, 0

    def start(self, net):
        if self.now in self.steps:
            self.debugger.start(net, rank_id=self.rank)

    def stop(self):
        if self.now in self.steps:
            self.debugger.stop()

    def step(self):
        self.debugger.step()
        self.now += 1


class EarlyCase(cases.Case):
    """A case whose debugger is constructed before its network."""

    def train(self, run):
        run.construct()
        super().train(run)


def norm(tensor, *args, **kwargs):
    """Stand in for `mindspore.mint.norm`, which has no CPU kernel, and which the tool's statistics need."""
    import mindspore
    import numpy as np

    return mindspore.Tensor(np.float32(np.linalg.norm(tensor.float().asnumpy().reshape(-1))))


def compare(target, golden, output, options):
    """Run the command on a step, unless it was run; it compares all ranks of the step."""
    if output.exists():
        return
    output.mkdir(parents=True)

    def command():
        from msprobe.msprobe import main as msprobe

        sys.argv = ["msprobe", "compare", "-tp", str(target), "-gp", str(golden), "-o", str(output), *options]
        msprobe()

    bench.in_fork(command, output.with_suffix(".log"))


def steps_of(variant):
    """Return the folders of the steps that a run recorded, in their order."""
    return sorted((variant / "dump").glob("step*"), key=lambda step: int(step.name[4:]))


def score(case, folder):
    """Return what a user is told about the buggy variant and the twin, by the table and by the option `-da`.

    An outcome is "named" (the first mark is at an accepted call, or in a cell that has accepted ones), "other call",
    "green" or "failed". `strict` says whether it is named by its own name, `anywhere` whether any marked row of that
    step is accepted.
    """
    found = {}
    for name, reading in {"table": first_mark, "diff_analyze": first_node}.items():
        buggy, twin = (read(case, folder, variant, reading) for variant in VARIANTS[1:])
        color = twin["outcome"] if twin["outcome"] in ("green", "failed") else "red"
        found[name] = {**buggy, "twin": color, "twin_answer": twin}
    return found


def read(case, folder, variant, reading):
    """Return the answer of a reading: of the first step that has one."""
    for each in ("fixed", variant):
        if not (folder / each / "done").exists():
            return {"outcome": "failed", "reason": f"{each}: {reason(folder / each)}"}
    for step in steps_of(folder / variant):
        found = reading(case, folder, variant, step)
        if found:
            return found
    return {"outcome": "green"}


def first_mark(case, folder, variant, step):
    """Return the first marked row of the tables of a step: the tables of its ranks are read side by side."""
    output, found = folder / f"compare_{variant}" / step.name, []
    tables = sorted(output.glob("compare_result_rank*.csv"))
    if len(tables) < case.ranks:
        return {"outcome": "failed", "reason": f"{variant}: {reason(output.with_suffix('.log'))}"}
    for table in tables:
        rank = int(table.name.split("_")[2].removeprefix("rank"))
        with table.open(encoding="utf-8-sig", newline="") as opened:
            rows = list(csv.DictReader(opened))
        found += [(line, rank, row) for line, row in enumerate(rows) if row["Result"].lower() in MARKS]
    if not found:
        return None
    golden = folder / "fixed" / "dump" / step.name
    line, rank, row = min(found, key=lambda each: each[:2])
    told = {"row": row["NPU Name"], "line": line, "result": row["Result"], "says": row["Err_message"]}
    anywhere = any(judged(case, step, golden, each, [row["NPU Name"]])["outcome"] == "named" for _, each, row in found)
    return {**judged(case, step, golden, rank, [row["NPU Name"]]), **told, "marked": len(found), "anywhere": anywhere}


def first_node(case, folder, variant, step):
    """Return what the option `-da` finds in a step: nodes of one depth, of any rank; one that is accepted suffices."""
    output = folder / f"first_{variant}" / step.name
    files, log = sorted(output.glob("diff_analyze_*.json")), output.with_suffix(".log")
    if not files:
        is_green = log.exists() and NOTHING_FOUND in log.read_text(errors="replace")
        return None if is_green else {"outcome": "failed", "reason": f"{variant}: {reason(log)}"}
    answers = []
    for rank, nodes in json.loads(files[0].read_text()).items():
        if nodes:
            names = [node["op_name"] for node in nodes]
            answers.append(judged(case, step, folder / "fixed" / "dump" / step.name, int(rank.split("_")[1]), names))
    return max(answers, key=lambda each: (each["outcome"] == "named", each["strict"]), default=None)


def judged(case, target, golden, rank, rows):
    """Return whether one of some rows or calls is accepted, with step and rank, as an answer of our tool would be.

    A call also counts as naming the parameters of its cell, and the record of a cell as naming the calls that the cell
    itself makes on either side; `strict`: without that.
    """
    cells = cells_of(golden / f"rank{rank}") | cells_of(target / f"rank{rank}")
    owned = parameters(json.loads((target / f"rank{rank}" / "dump.json").read_text())["data"])
    answers = []
    for row in rows:
        call, parameter = CALL.match(row)[1], PARAMETER.search(row)
        cell, own = cells.get(call), CELL.match(call)
        own = own and own[1]
        place = {"step": int(target.name[4:]), "rank": rank, "name": call, "cell": cell}
        inside = [{**place, "name": name, "cell": own} for name, outer in cells.items() if own and outer == own]
        strict = accepts(case.truth, place, f"{own}.{parameter[1]}" if own and parameter else "")
        is_named = strict or accepts(case.truth, place, " ".join(owned.get(own or cell, ())))
        is_named = is_named or any(accepts(case.truth, each, "") for each in inside)
        answers.append({"outcome": "named" if is_named else "other call", "strict": strict, **place})
    return max(answers, key=lambda each: (each["outcome"] == "named", each["strict"]))


def accepts(truth, place, text):
    """Return whether a call is accepted, in its cell or one around it, or a parameter in the text.

    A cell around it, because a call that is recomputed in backward is put into the layer that is in backward then.
    """
    truth = replace(truth, calls=(*truth.calls, *(each.replace(*OTHER_NAME) for each in truth.calls)))
    parts = (place["cell"] or "").split(".")
    cells = (place["cell"], *(".".join(parts[:end]) for end in range(1, len(parts))))
    return any(truth.accepts_place({"place": {**place, "cell": cell}, "message": text, "fields": ""}) for cell in cells)


def cells_of(folder):
    """Return the cell of each call of a rank, None outside all recorded cells."""
    parents = json.loads((folder / "construct.json").read_text())
    parents = {name: parent[0] if isinstance(parent, list) else parent for name, parent in parents.items()}
    found = {name: CELL.match(parent or "") for name, parent in parents.items()}
    return {name: cell and cell[1] for name, cell in found.items()}


def parameters(data):
    """Return the names of the parameters that each cell has itself."""
    owned = {}
    for call, record in data.items():
        cell = CELL.match(call)
        if cell:
            owned.setdefault(cell[1], set()).update(f"{cell[1]}.{name}" for name in record.get("parameters") or ())
    return owned


def reason(path):
    """Return the last line of a log, or of those of the ranks in a folder, that is an exception or an error."""
    lines = []
    for file in sorted(path.glob("rank*.log")) if path.is_dir() else [path]:
        text = file.read_text(errors="replace").splitlines() if file.exists() else []
        lines += [line for line in text if re.match(r"[\w.]*(Error|Exception)\b", line)] or text[-1:]
    return re.sub(r"/\S+/", "", lines[-1])[:300] if lines else "no answer"


if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", GLOG_v="3")
    main()

"""What trainings of both frameworks have in common: the debugger's calls around a step, and what a dump holds."""

import csv
import json
import os
import re
import shutil

from msprobe.store.reader import read

INTERRUPTED = "interrupted"


class Training:
    """One training under one configuration. A framework's subclass has the network and its update.

    `at` says how far the step has come.
    """

    replaces_errors = leaves_sigint = False
    is_watched_for_good = False
    leftovers = frozenset()
    """Functions of msprobe that a framework may go on to call after an interrupt; they do nothing."""

    def __init__(self, root, name, settings, makes=""):
        self.name, self.settings, self._makes = name, settings, makes
        self.folder = root / re.sub(r"\W+", "_", name)
        self.at, self._step, self._opened = "over", 0, 0
        self.debugger = None

    def open(self):
        self._opened += 1
        config = self.folder / f"config{self._opened}.json"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(json.dumps(self.settings))
        self.dump = self.folder / f"dump{self._opened}"
        self.debugger = self.debugger_class(config_path=str(config), dump_path=str(self.dump))
        self._step = 0
        self.attach()

    def attach(self):
        """Have the debugger watch what a step of it alone does not tell."""

    def begin_anew(self):
        """After a promise that did not hold the next interrupt has a debugger of its own."""
        self.close()
        self.reset()
        self.open()
        self.step()
        self.step()
        self.close_step()

    def close(self):
        if self.debugger is not None:
            self.debugger._retire()
        self.debugger = None

    def step(self):
        """One collected step of the training."""
        self.at, debugger = "start", self.debugger
        debugger.start(self.net)
        self.at = "forward"
        loss = self.forward(debugger)
        self.at = "backward"
        self.backward(loss)
        self.at = "stop"
        debugger.stop()
        self.at = "update"
        self.update()
        self.at = "step"
        debugger.step()
        self.at = "over"

    def plain_step(self):
        loss = self.forward(None)
        self.backward(loss)
        self.update()

    def end(self, ending):
        if ending == "stop and step":
            self.debugger.stop()
        if ending != "nothing":
            self.debugger.step()

    def next_number(self):
        """Steps are numbered from here on, as of a training that begins again from a checkpoint."""
        self._step += 1000
        self.debugger.set_init_step(self._step)

    @property
    def _number(self):
        return self.debugger._step - 1

    def collected(self):
        """What the step that has just ended left, in a form that is equal for equal steps."""
        folder = self.dump / f"step{self._number}" / "rank"
        return contents(folder, self._number) if folder.is_dir() else None

    def ended_by(self, at, ending):
        """The interrupted step's dump is readable, and says that it was interrupted."""
        from recovering import check

        for folder in sorted(self.dump.glob("step*/rank")):
            if not any(folder.iterdir()):
                continue
            dump = read(folder, structure=True)
            text = json.dumps(dump.missing, default=str)
            # Where the program calls nothing, only the next start can tell that a step was left before its stop.
            is_seen = ending != "nothing" or (at != "update" and self.settings["level"] != "debug")
            if at not in ("step", "over", "start") and is_seen:
                check(INTERRUPTED in text, f"the dump says that it was interrupted: {text[:500]}")
        runs = [path for path in self.dump.iterdir() if path.is_dir() and not path.name.startswith("step")]
        check(not runs, f"the step stays where it was: {runs}")

    def close_step(self):
        for folder in self.dump.glob("step*"):
            shutil.rmtree(folder)


def contents(folder, step):
    """Every file of a folder by its name, without what names the step."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        name = str(path.relative_to(folder))
        if path.suffix == ".parquet":
            dump = read(folder)
            found[name] = {call.name: re.sub(rf"step{step}\b", "stepN", repr(call.records)) for call in dump.calls}
            found["construct"] = dict(dump.construct)
        elif path.suffix in (".npy", ".pack", ".pt") or "pack" in name:
            found[name] = path.read_bytes()
        else:
            found[name] = parsed(path.read_text(), step)
    return found


def parsed(text, step):
    text = re.sub(rf"dump\d+/step{step}\b", "stepN", text)
    try:
        made = json.loads(text)
    except ValueError:
        return [line for line in text.splitlines() if '"run"' not in line]
    if isinstance(made, dict):
        for finding in made.get("findings", ()):
            finding.pop("traceback", None)  # which has lines of the test
        made.pop("run", None)
        if "0" in made and isinstance(made["0"], list):  # stacks, whose outer frames are those of the test
            made = {
                key: [names, [one for one in frames if "recovering.py" not in one]]
                for key, (names, frames) in made.items()
            }
        if isinstance(data := made.pop("data", None), dict):
            # what an operation finds in memory that it only writes to differs from run to run
            made |= {
                name: entry if not name.startswith(("Aten.", "Dispatch.")) else None for name, entry in data.items()
            }
    return made


class Unobserved:
    """Nothing is observed."""

    def open(self):
        """There is no debugger."""

    def step(self):
        self.at = "forward"
        self.plain_step()
        self.at = "over"

    def end(self, ending):
        """There is no debugger."""

    next_number = ended_by = close_step = begin_anew = close = lambda self, *_: None

    def collected(self):
        return {}


class Probing:
    """Task grad_probe: an optimizer is watched, whose calls are the steps."""

    is_watched_for_good = True

    def attach(self):
        self.debugger.monitor(self.optimizer)

    def reset(self):
        super().reset()
        self._tables = self._found()

    def _found(self):
        return set(self.dump.rglob("grad_summary_*.csv")) if self.debugger is not None else set()

    def collected(self):
        """The table and the signs of the last update."""
        found = self._found() - self._tables
        if len(found) != 1:
            return {"tables": sorted(map(str, found))}
        [table] = found
        step = int(table.stem.rpartition("_")[2])
        signs = {path.name: path.read_bytes() for path in sorted(table.parent.glob(f"step{step}/*.npy"))}
        return {"table": table.read_text(), **signs} if signs else None

    def ended_by(self, at, ending):
        for table in self._found():
            assert table.read_text().startswith("\ufeffparam_name")

    def close_step(self):
        for table in self._found():
            table.unlink()
        for folder in self.dump.glob("**/step*"):
            shutil.rmtree(folder)

    def begin_anew(self):
        self.optimizer = self.made_optimizer()
        super().begin_anew()


class Checking:
    """Task acc_check: the calls that were checked are in tables of the run."""

    def collected(self):
        [results] = self.dump.glob("accuracy_checking_result_rank_*.csv")
        with results.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        names = {row["API Name"].rpartition(".")[0] for row in rows}
        failed = [row for row in rows if "error" in (row["Forward Test Success"], row["Backward Test Success"])]
        # What the program computes between an interrupt and the next start is of the interrupted step.
        return {"checked": sorted(names - {"Tensor.detach", "Tensor.copy_", "Functional.assign"}), "failed": failed}

    def ended_by(self, at, ending):
        """What an interrupted step has checked is in the same tables."""


class Perturbing:
    """Task free_benchmark: calls are run a second time, and counted."""

    def reset(self):
        super().reset()
        self._counts = self._counted()

    def _counted(self):
        return 0 if self.debugger is None else self.debugger._collectors._session._counts["compared"]

    def collected(self):
        return {"compared": self._counted() - self._counts, "summaries": len(list(self.dump.glob("*.json")))}

    def ended_by(self, at, ending):
        for summary in self.dump.glob("*.json"):
            json.loads(summary.read_text())

    def close_step(self):
        """Nothing is written by step."""


TRAINER_MON = {
    "ops": ["norm", "min", "max", "mean"],
    "wg_distribution": True,
    "mv_distribution": True,
    "param_distribution": True,
    "xy_distribution": True,
    "ur_distribution": True,
}
_SECTION = {"enabled": True, "ops": ["min", "max", "mean", "norm"]}
SECTIONED = {"monitors": {kind: _SECTION for kind in ("module", "weight_grad", "param")}}


class Monitoring:
    """A monitor from its start to its stop, with a step in between; after an interrupt the same monitor goes on."""

    def open(self):
        self._opened += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        self.monitor, self._runs = None, 0

    def step(self):
        resumes = self.monitor is not None
        if not resumes:
            self.at = "start"
            self._runs += 1
            self.dump = self.folder / f"out{self._opened}-{self._runs}"
            self._start()
        for _ in range(2 if resumes else 1):  # the first update ends the step that was interrupted
            self.reset()
            self.at = "forward"
            loss = self.forward(None)
            self.at = "backward"
            self.backward(loss)
            self.at = "update"
            self.update()
        self.at = "stop"
        self.monitor.stop()
        self.monitor = None
        self.at = "over"
        self._resumed = resumes

    def _start(self):
        config = self.folder / "monitor.json"
        if "monitors" in self.settings:
            from msprobe.core.monitor_v2.trainer import TrainerMonitorV2

            config.write_text(json.dumps({**self.settings, "output_dir": str(self.dump)}))
            monitor = TrainerMonitorV2(config)
            monitor.start(self.net, self.optimizer)
        else:
            from msprobe.monitor.trainer import TrainerMon

            config.write_text(json.dumps(self.settings))
            os.environ["MONITOR_OUTPUT_DIR"] = str(self.dump)
            monitor = TrainerMon(config)
            monitor.set_monitor(self.net, self.optimizer)
        self.monitor = monitor

    def end(self, ending):
        if ending != "nothing" and self.monitor is not None:
            self.monitor.stop()
            self.monitor = None

    def next_number(self):
        """A monitor counts its own steps."""

    def collected(self, last=0):
        """The rows of a step by their files."""
        found = {}
        for path in sorted(self.dump.rglob("*.csv")):
            with path.open(newline="") as file:
                rows = list(csv.DictReader(file))
            steps = [int(row["step"]) if "step" in row else int(path.stem.rpartition("-")[2]) for row in rows]
            kept = [row for row, step in zip(rows, steps, strict=True) if step == max(steps)]
            for row in kept:
                row.pop("step", None)
            found[re.sub(r"_?step\d+-\d+|_\d+-\d+", "", path.stem)] = kept
        return found or None

    def ended_by(self, at, ending):
        from recovering import check

        if ending == "nothing" and self._resumed:
            found = self.collected()
            check(found == self.known, f"the next step of the same monitor is whole: {found} for {self.known}")

    def close_step(self):
        if self.monitor is not None:
            self.monitor.stop()
            self.monitor = None
        for folder in self.folder.glob("out*"):
            shutil.rmtree(folder)

    def begin_anew(self):
        self.open()

    def close(self):
        """Each step stops its monitor."""

"""Prove the cause of a difference: run the training again with values of the golden run in place of single results.

  msprobe graft TARGET GOLDEN -- python train.py

TARGET and GOLDEN are dumps of task tensor; the command is the training of the target, whose PrecisionDebugger collected
it. Its settings are replaced through the environment, so that the script does not have to be edited. Each run replaces
the results of one finding of the comparison, and measures how much of the gap between the runs closes. The last line
has the proven causes. With --offline, no training is run: the calls that depend on a replaced value are executed again,
and the answer is an estimate. Exit code: 0 nothing to prove, 1 a cause was proven or a gap remains, 2 the command was
wrong or the training failed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import logger
from msprobe.options.declaration import EXECUTION, command_of, option, positional
from msprobe.options.groups import JsonAnswer, output_option
from msprobe.options.kinds import FLAG, PATH, REST, several, whole
from msprobe.training_command import run_training, without_separator

if TYPE_CHECKING:
    from msprobe.store.graft_plan import GraftPlan

    from .gap import RunGap
    from .hypotheses import Hypothesis
    from .proof import Proof
    from .runs import Study


RUNS, ESTIMATES = 8, 32
"""Default budgets: an estimate costs seconds, a run of the training as much as a training."""


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    target: Path = positional(PATH, "TARGET", help="the dump of the run under suspicion", zh="待定位侧的 dump")
    golden: Path = positional(PATH, "GOLDEN", help="the dump of the trusted run", zh="标杆侧的 dump")
    command: tuple[str, ...] = positional(
        REST,
        "-- COMMAND",
        default=(),
        help="the training of the target, whose debugger collects; its settings are replaced",
        zh="待定位侧的训练命令；其中调试器的设置会被替换",
    )
    offline: bool = option(
        FLAG,
        "--offline",
        default=False,
        help="run no training: replay the calls that depend on a replaced value, and estimate the cause",
        zh="不运行训练：重放依赖被替换值的调用，并估计原因",
    )
    calls: tuple[str, ...] = option(
        several("CALL"),
        "--calls",
        default=(),
        help="test these calls of the target instead of the findings of the comparison",
        zh="只检验待定位侧的这些调用，而不检验比对的发现",
    )
    budget: int | None = option(
        whole(1),
        "--budget",
        metavar="N",
        role=EXECUTION,
        help="at most N runs of the training; default: 8, or twice as many as --calls if that is more; with --offline "
        "32 estimates",
        zh="最多运行训练 N 次；默认 8，或 --calls 数目的两倍（取较大者）；使用 --offline 时为 32 次估计",
    )
    noise: Path | None = option(
        PATH,
        "--noise",
        metavar="DIR",
        help="a repeated golden run, whose gap to the golden is noise",
        zh="标杆的重复运行；它与标杆的差距即噪声",
    )
    output: Path | None = output_option(
        help="keep the proof, and plans, settings and dumps of all runs, in this folder",
        zh="把证明，以及各次运行的计划、设置和 dump 保留在该文件夹",
    )
    html: Path | None = option(
        PATH,
        "--html",
        metavar="FILE",
        role=EXECUTION,
        help="also write a page that shows the proof",
        zh="另外写出展示证明的页面",
    )

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words of the command."""
        return without_separator(self.command)

    def check(self) -> None:
        """Raise UsageError without a command, and with one that would not be run."""
        if self.offline and self.words:
            raise UsageError(
                translated(
                    f"--offline: runs no training, but the command {self.words[0]!r} is given after --; leave one of "
                    "them out",
                    f"--offline：不运行训练，但 -- 之后给出了命令 {self.words[0]!r}；请去掉其中之一",
                )
            )
        if self.offline and self.output is not None:
            raise UsageError(
                translated(
                    "--offline: makes no runs that -o could keep; leave -o out, or give the command of the training "
                    "after -- instead of --offline",
                    "--offline：没有可由 -o 保留的运行；请去掉 -o，或去掉 --offline 并在 -- 之后给出训练命令",
                )
            )
        if not self.offline and not self.words:
            raise UsageError(
                translated(
                    "give the command of the training after --, or --offline for an estimate without it",
                    "请在 -- 之后给出训练命令，或使用 --offline 进行无需训练的估计",
                )
            )
        super().check()


def run(options: Options) -> int:
    """Prove, print, and return the exit code."""
    from msprobe.findings.document import as_object, printed, text_of
    from msprobe.findings.text import printed as printed_lines
    from msprobe.report.file import check_page

    from .gap import gap_of
    from .hypotheses import named_by_user
    from .offline import estimated
    from .page import page_of
    from .report import document, exit_code, lines
    from .runs import studied

    if options.html is not None:
        check_page()
    study = studied(options.target, options.golden)
    given = named_by_user(study, options.calls)
    noise = options.noise
    repeated = None if noise is None else lambda: gap_of(studied(noise, options.golden))
    files: dict[str, str] = {}
    if options.offline:
        proof = estimated(study, repeated, options.budget or ESTIMATES, given)
    else:
        proof, files = _proven(options, study, repeated, given)
    if options.html is not None:
        page_of(proof, join(command_of("graft", options))).write(options.html)
        logger.info("the page is in %s", options.html)
        files["page"] = str(options.html)
    made = document(proof, files)
    if "proof" in files:
        Path(files["proof"]).write_text(text_of(as_object(made)), encoding="utf-8", errors="surrogatepass")
    if options.is_json:
        printed(made)
    else:
        printed_lines(lines(proof))
    return exit_code(proof)


def _proven(
    options: Options,
    study: "Study",
    repeated: "Callable[[], RunGap] | None",
    given: "Sequence[Hypothesis]",
) -> "tuple[Proof, dict[str, str]]":
    """Return the proof by runs of the training, and the folder of these if the user wants to keep them."""
    from .gap import floor_of
    from .proof import prove
    from .runs import studied

    floor = floor_of(study, repeated)
    with _folder(options.output) as folder:
        training = _Training(options.words, study, folder)
        budget = options.budget or max(RUNS, 2 * len(given))
        proof = prove(study, floor, training.run, lambda run: studied(run, options.golden), budget, given)
        if options.output is None:
            return proof, {}
        runs = {"runs": str(folder)} if proof.runs else {}
        return proof, {**runs, "proof": str(folder / "proof.json")}


@contextmanager
def _folder(output: Path | None) -> Iterator[Path]:
    """Give the folder of the runs; it is removed afterwards unless the user gave it."""
    if output is None:
        with TemporaryDirectory(prefix="msprobe-graft-") as temporary:
            yield Path(temporary).resolve()
    else:
        output.mkdir(parents=True, exist_ok=True)
        yield output.resolve()


_SAME = ("level", "rank", "scope", "list")
"""Settings of the target's collection that a grafted run has too, so that both record the same calls."""


class _Training:
    """Runs of the command, numbered, each in a folder with its plan, settings and dump."""

    def __init__(self, words: tuple[str, ...], study: "Study", folder: Path) -> None:
        from msprobe.store.reader import find, read_head

        self._words, self._folder, self._number = words, folder, 0
        first = study.steps[0].comparison.target
        known = read_head(find(Path(first.where))).settings
        self._settings = {key: known[key] for key in _SAME if known.get(key)}
        self._settings["step"] = sorted({step.step for step in study.steps})

    def run(self, plan: "GraftPlan", what: str) -> Path:
        """Run the training with a plan, and return the folder of its dump."""
        from msprobe.store.graft_plan import write_plan

        self._number += 1
        folder = self._folder / f"run_{self._number}"
        dump, file = folder / "dump", folder / "plan.json"
        dump.mkdir(parents=True)
        write_plan(file, plan)
        values = ["forward", "backward", "inputs", "incoming"]
        values += ["parameters"] if any(step.parameters for step in plan.steps.values()) else []
        graft = {"golden": str(file), "calls": ["*"], "what": values, "record": "tensor"}
        settings = {**self._settings, "task": "graft", "dump_path": str(dump), "graft": graft}
        run_training(self._words, settings, folder / "settings.json", what)
        if not any(dump.iterdir()):
            raise UsageError(
                translated(
                    "the command collected nothing: it must call start(), stop() and step() of a PrecisionDebugger",
                    "该命令没有采集到任何内容：须调用 PrecisionDebugger 的 start()、stop() 和 step()",
                )
            )
        return dump

"""Record a golden file of a training, at most 1 MB, that later runs are checked against.

  msprobe gate record --golden FILE -- python train.py

The training uses PrecisionDebugger with start, stop and step; its settings are replaced through the environment, so
that the script does not have to be edited. Exit code: 0 written, 2 the command was wrong or the training failed, 3 the
training does not train: no gradients, nothing updated or a constant loss; then nothing is written.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import terminal_line
from msprobe.base.phrase import phrase
from msprobe.options.declaration import EXECUTION, option
from msprobe.options.groups import JsonAnswer
from msprobe.options.kinds import FLAG, NUMBERS, one_of, whole

from .options import GoldenFile, RunSource
from .recording import Collection


@dataclass(frozen=True, kw_only=True)
class Options(GoldenFile, RunSource, JsonAnswer):
    """The options of the command."""

    steps: tuple[int, ...] = option(
        NUMBERS, "--steps", default=(0, 1, 2), help="the steps; default: 0-2", zh="采集的 step；默认：0-2"
    )
    level: str = option(
        one_of("L0", "L1", "mix"),
        "--level",
        default="mix",
        help="record modules (L0), functions (L1), or both",
        zh="记录模块（L0）、函数（L1）或两者",
    )
    task: str = option(
        one_of("tensor", "statistics"),
        "--task",
        default="tensor",
        help="statistics: without samples of tensors, with less time and space",
        zh="statistics：不含张量抽样，省时省空间",
    )
    runs: int = option(whole(1), "--runs", default=1, help="calibrate the limits by N runs", zh="用 N 次运行标定限值")
    forward_only: bool = option(
        FLAG, "--forward-only", default=False, help="the run is not expected to train", zh="该运行不要求训练"
    )
    overwrite: bool = option(
        FLAG,
        "--overwrite",
        default=False,
        role=EXECUTION,
        help="replace an existing golden with its accepted changes",
        zh="替换已有的 golden 及其已接受的变更",
    )


def run(options: Options) -> int:
    """Record, print what was written, and return the exit code."""
    from .calibration import calibrated
    from .golden import Golden, Wanted, read_run, write
    from .report import printed_answer
    from .training import defects, facts_of, untrained_answer

    _check(options)
    collection = Collection(options.task, options.level, options.steps)
    wanted = Wanted(collection, options.words, options.forward_only, options.runs)
    with ExitStack() as held:
        several = options.runs > 1
        runs = [
            held.enter_context(options.run(collection, f"run {number} of {options.runs}: " if several else ""))
            for number in range(1, options.runs + 1)
        ]
        facts = facts_of(read_run(runs[0]))
        if not facts or (not options.forward_only and defects(facts)):
            return printed_answer("gate record", untrained_answer(facts), 3, is_json=options.is_json)
        if several:
            folder = Path(held.enter_context(TemporaryDirectory(prefix="msprobe-gate-")))
            first = write(folder / "first.golden", runs[0], wanted)
            wanted = replace(wanted, limits=calibrated(Golden.read(first.path), runs[1:]))
        made = write(options.golden, runs[0], wanted)
    calls = sum(each.calls for each in made.facts)
    line = phrase(
        "golden: {path}: {steps} steps, {calls} calls, at most {sampled} elements of each tensor, {size} bytes",
        path=terminal_line(str(made.path)),
        steps=len(made.facts),
        calls=calls,
        sampled=made.sampled,
        size=made.size,
    )
    from msprobe.findings.finding import Answer

    details = {"training": [each.as_row() for each in made.facts]}
    answer = Answer("shown", line)
    return printed_answer("gate record", answer, 0, {"golden": str(made.path)}, details, is_json=options.is_json)


def _check(options: Options) -> None:
    path = options.golden
    if not path.name.endswith(".golden"):
        raise UsageError(
            translated(f"--golden {path}: the name must end in .golden", f"--golden {path}：文件名必须以 .golden 结尾")
        )
    if path.exists() and not options.overwrite:
        raise UsageError(
            translated(
                f"{path}: already exists; accept a change with `msprobe gate accept`, or replace it with --overwrite",
                f"{path}：已存在；请用 `msprobe gate accept` 接受变更，或用 --overwrite 替换",
            )
        )
    if options.runs > 1 and options.target is not None:
        raise UsageError(
            translated(
                "--runs repeats a command, and --target is a single run; give the command after --",
                "--runs 会重复运行命令，而 --target 是单次运行；请在 -- 之后给出命令",
            )
        )
    from msprobe.store.arrow import require_pyarrow

    require_pyarrow(f"{path}: golden files are written with pyarrow", UsageError)

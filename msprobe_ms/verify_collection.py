"""Verify that collection leaves a training bitwise unchanged: run it twice without and once with the debugger.

  msprobe verify-collection [--steps N] SCRIPT [ARGUMENT ...]

SCRIPT is a training that already uses PrecisionDebugger. At every start() and step() and at the end, the parameters of
the networks that were passed to start() and the states of the random generators are compared. The training runs as
usual and writes its usual files, including the dump.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.files import user_path
from msprobe.base.log import join_names, logger
from msprobe.options.declaration import option, positional
from msprobe.options.groups import JsonAnswer
from msprobe.options.kinds import REST, TEXT, whole

CHILD = "msprobe.observed_run"
ADVICE = (
    "set all seeds before constructing the network: `from msprobe.mindspore import seed_all` (PyTorch: from "
    "msprobe.pytorch), then `seed_all(mode=True)`; shuffle data with a seeded generator"
)


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    script: str = positional(TEXT, "SCRIPT", help="the training, a Python script", zh="训练脚本（Python）")
    arguments: tuple[str, ...] = positional(
        REST, "ARGUMENT", default=(), help="arguments of the script", zh="脚本的参数"
    )
    steps: int = option(
        whole(0), "--steps", default=0, help="end the training after N calls of step()", zh="调用 step() N 次后结束训练"
    )


def run(options: Options) -> int:
    """Verify a training, and print the result; return 0 if equal, 1 if different."""
    found = verify_collection(options.script, *options.arguments, steps=options.steps)
    exit_code = 0 if found else 1
    if options.is_json:
        from msprobe.base.verdicts import Verdicts
        from msprobe.findings.catalogue.collecting import CHANGED
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer, Finding, Place

        finding = None if found else Finding(CHANGED, Place(options.script), found.message)
        answer = Answer("clean" if found else "differs", found.message, finding)
        printed(Document("verify-collection", answer, Verdicts(int(found.equal), int(not found.equal)), exit_code))
        return exit_code
    print(found.message)
    return exit_code


@dataclass(frozen=True)
class Verification:
    """Result of the verification: whether the runs are equal, and a message."""

    equal: bool
    message: str

    def __bool__(self) -> bool:
        return self.equal


def verify_collection(script: "str | PathLike[str]", *arguments: str, steps: int = 0) -> Verification:
    """Run a training three times in new processes, twice with an inert debugger, and compare its bits.

    script, arguments : the training, and its arguments.
    steps : number of step() calls after which each run is ended, 0 for all steps.

    Raises UsageError if nothing can be verified: the script does not exist, the training fails without collection,
    never calls start(), or is not reproducible, or PrecisionDebugger rejects its settings.
    """
    if steps < 0:
        raise UsageError(f"--steps is {steps}; give the number of steps, or omit it for all steps")
    script = user_path(script)
    if not script.is_file():
        raise UsageError(f"{fspath(script)}: no such script; give the path of the training's Python file")
    with tempfile.TemporaryDirectory(prefix="msprobe-") as folder:
        command = [str(steps), fspath(script), *arguments]
        bare, repeated = (
            _observed(Path(folder), "inert", command, f"{each} of 3, without collection") for each in (1, 2)
        )
        _check_baseline(bare, repeated)
        return compare_runs(bare, _observed(Path(folder), "collecting", command, "3 of 3, collecting"))


@dataclass(frozen=True)
class Moment:
    """A position in a training, and digests of its bits by name."""

    at: str
    step: int
    bits: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        places = {"start": f"at start() of step {self.step}", "step": f"at step() of step {self.step}"}
        return places.get(self.at, "at the end of the training")


@dataclass(frozen=True)
class Trace:
    """The moments of one run, in order.

    failure : how the run failed; empty if it did not.
    is_rejected : whether msprobe rejected its settings, so that the failure is not an error of the training.
    """

    moments: tuple[Moment, ...]
    failure: str = ""
    is_rejected: bool = False

    @property
    def steps(self) -> int:
        """Return the number of ended steps."""
        return sum(moment.at == "step" for moment in self.moments)

    @property
    def parameters(self) -> int:
        """Return the number of parameters in the last moment."""
        return sum(what.startswith("parameter ") for what in self.moments[-1].bits) if self.moments else 0


def compare_runs(bare: Trace, collecting: Trace) -> Verification:
    """Compare the bits of a bare run and a collecting run."""
    if collecting.is_rejected:
        raise UsageError(collecting.failure)
    if different := first_difference(bare, collecting):
        return Verification(False, f"first difference: {different}")
    if collecting.failure:
        return Verification(False, f"first difference: the training fails when it is collected: {collecting.failure}")
    compared = "the random generators"
    hint = "; parameters were not compared, since start() was called without a network: call start(network)"
    if bare.parameters:
        compared, hint = f"{bare.parameters} parameters and {compared}", ""
    return Verification(True, f"equal: {compared} are bitwise identical at all {bare.steps} steps{hint}")


def first_difference(first: Trace, second: Trace) -> str:
    """Return where and in what two runs differ; empty if they do not. A failed run is compared up to its failure."""
    for left, right in zip(first.moments, second.moments, strict=False):
        if (left.at, left.step) != (right.at, right.step):
            return f"the calls differ: one run is {left}, the other {right}"
        names = list(dict.fromkeys((*left.bits, *right.bits)))
        if differing := [name for name in names if left.bits.get(name) != right.bits.get(name)]:
            return f"{left}: {join_names(differing)}"
    if not (first.failure or second.failure) and len(first.moments) != len(second.moments):
        longer = max(first.moments, second.moments, key=len)
        return f"{longer[min(len(first.moments), len(second.moments))]}: one run does not reach this step"
    return ""


def _check_baseline(bare: Trace, repeated: Trace) -> None:
    """Raise UsageError if two bare runs cannot serve as a baseline."""
    if failure := bare.failure or repeated.failure:
        raise UsageError(f"the training fails without collection: {failure}; fix this first")
    if not any(moment.at in ("start", "step") for moment in bare.moments):
        raise UsageError(
            "the training never calls start() or step() of PrecisionDebugger, so nothing can be verified; add "
            "both to the training loop"
        )
    if different := first_difference(bare, repeated):
        raise UsageError(
            f"the training is not reproducible even without collection: two runs differ {different}; {ADVICE}"
        )


def _observed(folder: Path, mode: str, command: Sequence[str], which: str) -> Trace:
    """Run the training once; its output is redirected to standard error."""
    logger.info("run %s", which)
    file = folder / "trace.jsonl"
    file.unlink(missing_ok=True)
    with _same_input():
        done = subprocess.run(
            [sys.executable, "-m", CHILD, str(file), mode, *command], stdout=sys.stderr.fileno(), check=False
        )
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    failed = lines.pop() if lines and lines[-1]["at"] == "failure" else None
    moments = tuple(Moment(line["at"], line["step"], line["bits"]) for line in lines)
    if failed:
        return Trace(moments, failed["why"], failed["ours"])
    return Trace(moments, f"its process ends with code {done.returncode}" if done.returncode else "")


@contextmanager
def _same_input() -> Iterator[None]:
    """Restore the position of standard input for the next run, if it is a file."""
    try:
        at = os.lseek(0, 0, os.SEEK_CUR)
    except OSError:  # a pipe or a terminal
        at = None
    yield
    if at is not None:
        os.lseek(0, at, os.SEEK_SET)

"""Find the commit that changed what a training computes: `git bisect` in a separate worktree, with a gate as judge."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import logger
from msprobe.findings.finding import Finding
from msprobe.training_command import CommandFailedError

from .golden import Golden, Wanted, read_run, write
from .judge import State, Verdict, judged
from .recording import Collection, collected
from .training import facts_of

_MAX_ROUNDS = 200
"""Commits that are tried at most; git needs the logarithm of their number, plus those that are skipped."""


_FIRST = re.compile(r"^([0-9a-f]{40,64}) is the first bad commit$", re.MULTILINE)
_HASH = re.compile(r"^[0-9a-f]{40,64}$", re.MULTILINE)
_ONLY_SKIPPED = "We cannot bisect more!"
"""What git prints at the end, in the language of LC_ALL=C."""


@dataclass(frozen=True)
class Commit:
    """One commit: its hash, subject, author and date, and the files that it changed."""

    revision: str
    subject: str
    author: str
    date: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """One commit that was tried: its hash, and `good`, `bad` or `skip`."""

    revision: str
    outcome: str


@dataclass(frozen=True)
class Bisected:
    """Result of a bisection.

    commit : the first bad commit; None if only skipped ones are left.
    verdict : the verdict on it.
    candidates : the commits among which the first bad one is, if some were skipped.
    trials : the commits that were tried, in order.
    """

    commit: Commit | None
    verdict: Verdict | None
    candidates: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()

    @property
    def finding(self) -> Finding | None:
        """Return the first finding of the first bad commit."""
        return None if self.verdict is None else self.verdict.answer.first


def bisect(
    good: str, bad: str, command: Sequence[str], *, build: str = "", collection: Collection, limits: str = "auto"
) -> Bisected:
    """Find the first commit whose training differs from that of the good revision.

    `build` is a shell command that is run in each revision before the training; a revision whose build or training
    fails is skipped. UsageError if this is not a repository, the good revision cannot be recorded, or the bad one does
    not differ from it.
    """
    here = Path.cwd()
    root = Path(_git(here, "rev-parse", "--show-toplevel"))
    within = here.resolve().relative_to(root.resolve())
    first, last = (_git(here, "rev-parse", "--verify", f"{name}^{{commit}}") for name in (good, bad))
    if subprocess.run(["git", "merge-base", "--is-ancestor", first, last], cwd=here, check=False).returncode:
        raise UsageError(
            translated(
                f"--good {good} is not an ancestor of --bad {bad}; give an older revision that is correct",
                f"--good {good} 不是 --bad {bad} 的祖先；请给出一个更早的正确版本",
            )
        )
    with _worktree(root, first) as tree:
        trial = _Trials(tree, tree / within, command, build, collection, limits)
        trial.record()
        return _bisected(tree, first, last, trial)


class _Trials:
    """Runs the training in the revision that is checked out, and compares it with the good one."""

    def __init__(
        self, tree: Path, folder: Path, command: Sequence[str], build: str, collection: Collection, limits: str
    ) -> None:
        self._tree, self._folder, self._command, self._build = tree, folder, command, build
        self._collection, self._limits = collection, limits
        self._golden: Golden | None = None

    def record(self) -> None:
        """Record the golden of the good revision; UsageError if it cannot be built or run."""
        if not self._built():
            raise UsageError(translated("--build fails in the good revision", "--build 在正确版本中失败"))
        path = self._tree.parent / "good.golden"
        with collected(self._command, self._collection, "good revision: ", folder=self._folder) as run:
            if not facts_of(read_run(run)):
                raise UsageError(
                    translated(
                        "the good revision collects nothing: the command must call start(), stop() and step() of a "
                        "PrecisionDebugger",
                        "正确版本没有采集到任何内容：命令须调用 PrecisionDebugger 的 start()、stop() 和 step()",
                    )
                )
            write(path, run, Wanted(self._collection, tuple(self._command)), root=self._tree)
        self._golden = Golden.read(path)

    def __call__(self) -> Verdict | None:
        """Return the verdict on the revision that is checked out; None if it cannot be built or run."""
        assert self._golden is not None  # it was recorded
        if not self._built():
            return None
        try:
            with collected(self._command, self._collection, folder=self._folder) as run:
                return judged(run, self._golden, self._limits)
        except CommandFailedError as err:
            logger.warning("%s", err)
            return None

    def _built(self) -> bool:
        if not self._build:
            return True
        done = subprocess.run(["bash", "-c", self._build], cwd=self._folder, stdout=2, check=False)
        return done.returncode == 0


def _bisected(tree: Path, good: str, bad: str, trial: Callable[[], Verdict | None]) -> Bisected:
    trials: list[Trial] = []
    verdicts: dict[str, Verdict] = {}

    def tried(revision: str) -> str:
        verdict = trial()
        outcome = "skip" if verdict is None else "good" if verdict.state is State.GREEN else "bad"
        if verdict is not None:
            verdicts[revision] = verdict
        trials.append(Trial(revision, outcome))
        logger.info("%s: %s", _described(tree, revision), outcome)
        return outcome

    _git(tree, "checkout", "-q", "--detach", bad)
    if (outcome := tried(bad)) != "bad":
        why = "cannot be built or run" if outcome == "skip" else "does not differ from the good one"
        raise UsageError(
            translated(f"--bad {bad}: the revision {why}", f"--bad {bad}：该版本无法构建或运行，或与正确版本没有差异")
        )
    try:
        printed = _git(tree, "bisect", "start", bad, good)
        for _ in range(_MAX_ROUNDS):
            if first := _FIRST.search(printed):
                return Bisected(_commit(tree, first[1]), verdicts.get(first[1]), trials=tuple(trials))
            if _ONLY_SKIPPED in printed:
                return Bisected(None, None, tuple(_HASH.findall(printed)), tuple(trials))
            printed = _git(tree, "bisect", tried(_git(tree, "rev-parse", "HEAD")), fails=False)
    finally:
        _git(tree, "bisect", "reset", "-q", fails=False)
    raise UsageError("git bisect does not come to an end; run it by hand with `msprobe gate check` as judge")


@contextmanager
def _worktree(root: Path, revision: str) -> Iterator[Path]:
    """Give a worktree of a revision in a temporary folder, which is removed afterwards."""
    with TemporaryDirectory(prefix="msprobe-bisect-") as temporary:
        tree = Path(temporary).resolve() / "tree"
        _git(root, "worktree", "add", "-q", "--detach", str(tree), revision)
        try:
            yield tree
        finally:
            _git(root, "worktree", "remove", "--force", str(tree), fails=False)


def _described(tree: Path, revision: str) -> str:
    return _git(tree, "log", "-1", "--format=%h %s", revision)


def _commit(tree: Path, revision: str) -> Commit:
    subject, author, date = _git(tree, "log", "-1", "--format=%s%x00%an%x00%as", revision).split("\0")
    files = _git(tree, "diff-tree", "--no-commit-id", "--name-only", "-r", "--root", revision).splitlines()
    return Commit(revision, subject, author, date, tuple(files))


def _git(folder: Path, *words: str, fails: bool = True) -> str:
    """Return what git prints; UsageError if it fails, unless that is expected."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {"LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, errors="replace", env=environment, check=False
        )
    except OSError as err:
        raise UsageError(f"git cannot be started ({err.strerror or err}); install it") from err
    if done.returncode and fails:
        error = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise UsageError(f"git {shlex.join(words)}: {error}")
    return done.stdout.strip()

"""The command `msprobe`: a table of verbs. A verb's module is imported when the verb is chosen.

    msprobe [-f FRAMEWORK] VERB ...

Exit codes: `base/verdicts`, and `_EXIT_CODES` below.
"""

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import NoReturn, TextIO

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.log import visible
from msprobe.base.version import installed


@dataclass(frozen=True)
class Verb:
    """The module of a verb, and its line in the help. `runs_script`: what follows its first argument is a script's;
    `has_framework`: it reads `--framework` itself.
    """

    module: str
    summary: str
    runs_script: bool = False
    has_framework: bool = False


VERBS = {
    "acc_check": Verb("msprobe.precheck.verb", "check recorded API calls against float64"),
    "api_precision_compare": Verb("msprobe.precheck.devices_verb", "compare the errors of two devices, by acc_check"),
    "bundle": Verb("msprobe.bundle.verb", "pack two dumps and their comparison into one file, for a bug report"),
    "check": Verb("msprobe.checks.invariants.verb", "check a run without a golden one: what always holds"),
    "code_mapping": Verb("msprobe.graph_save.code_mapping.verb", "write the lines of source beside a kernel dump"),
    "compare": Verb("msprobe.compare.verb", "compare two dumps and name the first wrong call"),
    "config_check": Verb("msprobe.config_check.verb", "pack and compare configurations; compare two checkpoints"),
    "convert": Verb("msprobe.convert", "turn a dump of JSON and npy files into a columnar or packed one, and back"),
    "data2db": Verb("msprobe.monitor_convert.verb", "write what a monitor collected into a database"),
    "diagnose": Verb("msprobe.diagnose.verb", "find out where two runs part, and what to collect next"),
    "digest": Verb("msprobe.compare.digest_verb", "digest dumps where they lie, so that equal ranks need not be read"),
    "doctor": Verb(
        "msprobe.doctor", "examine what a training will need; mend a dump whose process died", has_framework=True
    ),
    "gather": Verb("msprobe.graph_save.gather.verb", "turn the files of MindSpore's kernel dump into a dump of ours"),
    "graph": Verb("msprobe.compare.graph_visualize.older_verb", "write a network as JSON for msprobe 8.1's page of it"),
    "graph_visualize": Verb("msprobe.compare.graph_visualize.verb", "write a network for the TensorBoard plugin"),
    "mapping": Verb("msprobe.compare.suggest.verb", "suggest which call of one framework is which of the other"),
    "merge_result": Verb("msprobe.compare.merge.verb", "put the comparison tables of several ranks side by side"),
    "monitor anomalies": Verb("msprobe.monitor.anomaly_verb", "list the earliest of what a training's alerts noticed"),
    "monitor compare": Verb("msprobe.compare.monitor.verb", "find out where two monitored trainings part"),
    "multi_acc_check": Verb("msprobe.precheck.verb", "the same as acc_check, on several devices"),
    "multi_run_ut": Verb("msprobe.precheck.verb", "the same as multi_acc_check, by its older name"),
    "nan_analyze": Verb("msprobe.checks.nonfinite.verb", "the same as overflow_check, by its older name"),
    "op_generate": Verb("msprobe.precheck.op_generate_verb", "write a script that runs one API of a dump"),
    "overflow_check": Verb("msprobe.checks.nonfinite.verb", "name the first call that made NaN or infinities"),
    "report": Verb("msprobe.report_verb.verb", "write one page that shows a comparison, a monitor or a dump"),
    "repro": Verb("msprobe.precheck.repro_verb", "write a script that reproduces one recorded call"),
    "rollout_check": Verb("msprobe.compare.rollout.verb", "compare log-probs of generation with those of training"),
    "run_ut": Verb("msprobe.precheck.verb", "the same as acc_check, by its older name"),
    "verify-collection": Verb(
        "msprobe.verify_collection", "show that collecting leaves a training as it is, bit by bit", runs_script=True
    ),
}

_EXIT_CODES = """exit code of every verb:
  0  everything that was asked for was judged and is fine
  1  something is wrong or could not be judged; the last line has the number
  2  nothing could be judged, or the command was wrong"""

FRAMEWORKS = ("mindspore", "pytorch")


class _Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {visible(message)} ({self.prog} -h shows the options)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; gives the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as on standard error: characters that it lacks are escaped
    prog = "msprobe"
    with _interrupts() as interrupts:
        try:
            try:
                verb, rest = _take_verb(words)
                if not verb:
                    return 0
                prog = f"msprobe {verb}"
                return _carry_out(prog, VERBS[verb], rest)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # at exit a failure could not be reported
        except (Exception, KeyboardInterrupt) as err:
            if interrupts or isinstance(err, KeyboardInterrupt):
                return _complain(prog, "stopped", 130)
            if isinstance(err, MsprobeError):
                return _complain(prog, str(err), 2)
            if isinstance(err, BrokenPipeError):
                # The reader of our answer has closed the pipe; nothing may be written at exit either.
                _silence(sys.stdout)
                return 1
            if isinstance(err, FileNotFoundError) and not _has_working_directory():
                message = "the working directory was deleted; change to one that is there, or give absolute paths"
                return _complain(prog, message, 2)
            if isinstance(err, OSError):  # a full disk, a file that is gone: no mistake of ours, so no traceback
                _silence(sys.stdout)
                where = "standard output" if err.filename is None else os.fsdecode(err.filename)
                return _complain(prog, f"{where}: {err.strerror or err}", 2)
            raise


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collects the interrupts from the keyboard, since one may arrive as another exception: an import of numpy makes an
    ImportError of it."""
    noticed: list[int] = []

    def notice(number: int, _: object) -> NoReturn:
        noticed.append(number)
        raise KeyboardInterrupt

    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield noticed
        return
    signal.signal(signal.SIGINT, notice)
    try:
        yield noticed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _carry_out(prog: str, verb: Verb, words: list[str]) -> int:
    module = import_module(verb.module)
    from msprobe.options.parser import parsed  # here: the help of `msprobe` itself needs no options

    if not verb.runs_script:
        _refuse_empty(words, _may_be_empty(module.Options))
    return int(module.run(parsed(prog, module.Options, words, module.__doc__ or "")))


def _may_be_empty(options: type) -> tuple[str, ...]:
    from msprobe.options.declaration import declared

    return tuple(flag for each in declared(options).values() if each.may_be_empty for flag in each.flags)


def _refuse_empty(words: Sequence[str], may_be_empty: Collection[str]) -> None:
    """Raise UsageError for an empty word, which would be the current folder, or an option without a value."""
    for at, word in enumerate(words):
        if (words[at - 1] if at and not word else word.rstrip("=")) in may_be_empty:
            continue
        if not word or (word.endswith("=") and word.startswith("--")):
            after = f" after {words[at - 1]}" if at and words[at - 1].startswith("-") else ""
            raise UsageError(
                f"argument {at + 1}{after} is empty, as a shell variable without a value is; give it, or leave it out"
            )


def _complain(prog: str, text: str, code: int) -> int:
    """One line on standard error, if there is one that takes it; gives the exit code."""
    try:
        print(f"{prog}: {visible(' '.join(text.split()))}", file=sys.stderr)
    except OSError:
        _silence(sys.stderr)
    return code


def _silence(stream: TextIO | None) -> None:
    """What is still to be written there, also at exit, goes nowhere."""
    if stream is not None:
        with suppress(OSError, ValueError):  # a stream that is no file, as in a test
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _take_verb(words: list[str]) -> tuple[str, list[str]]:
    """Split a command line into its verb and the verb's own arguments; no verb where help was asked for and given."""
    parser = _parser()
    head = words
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        if not word.startswith("-") and before not in ("-f", "--framework"):
            head, verb, rest = words[:at], word, words[at + 1 :]
            break
    else:
        parser.parse_args(head)
        parser.print_help()
        return "", []
    framework = parser.parse_args(head).framework
    if f"{verb} {rest[0] if rest else ''}" in VERBS:
        verb, rest = f"{verb} {rest[0]}", rest[1:]
    elif inner := [name for name in VERBS if name.startswith(f"{verb} ")]:
        if not {"-h", "--help"} & set(rest):
            raise UsageError(f"a word is missing behind {verb!r}, or not known; write one of: {', '.join(inner)}")
        print("\n".join(f"msprobe {name}: {VERBS[name].summary}" for name in inner))
        return "", []
    if verb not in VERBS:
        raise UsageError(_unknown(verb))
    if VERBS[verb].has_framework:
        return verb, [*(["--framework", framework] if framework else []), *rest]
    return verb, rest if VERBS[verb].runs_script else _without_framework(parser, rest)


def _unknown(verb: str) -> str:
    """There is no such command: what msprobe's command of that name is replaced by, or which one was meant."""
    from msprobe.base.checks import nearest
    from msprobe.base.not_built import COMMANDS

    near = nearest(verb, (*VERBS, *COMMANDS))
    if near in COMMANDS:
        which = f"{verb!r}" if near == verb else f"{verb!r}, nor {near!r}"
        return f"this version has no command {which}: {COMMANDS[near]} (this version has: {', '.join(VERBS)})"
    hint = f"did you mean {near}?" if near else f"this version has: {', '.join(VERBS)}"
    return f"there is no command {verb!r}; {hint}"


def _parser() -> _Parser:
    table = "\n".join(f"  {name:<{max(map(len, VERBS))}}  {verb.summary}" for name, verb in VERBS.items())
    parser = _Parser(
        prog="msprobe",
        usage="msprobe [-h] [--version] [-f FRAMEWORK] VERB ...",
        description="Numerical-precision debugger for training with MindSpore.",
        epilog=f"verbs:\n{table}\n\n{_EXIT_CODES}\n\n`msprobe VERB -h` shows the options of a verb.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument(
        "-f", "--framework", choices=FRAMEWORKS, help="accepted from msprobe 8.1; dumps say their framework themselves"
    )
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"msprobe-ms {installed() or '(not installed)'}")
        parser.exit()


def _without_framework(parser: _Parser, rest: list[str]) -> list[str]:
    """`--framework VALUE` may stand anywhere; behind the verb it is checked and taken out."""
    kept: list[str] = []
    words = iter(rest)
    for word in words:
        if word == "--framework":
            parser.parse_args([word, *islice(words, 1)])
        elif word.startswith("--framework="):
            parser.parse_args([word])
        else:
            kept.append(word)
    return kept

"""The command `msprobe`: a table of verbs. A verb's module is imported when the verb is chosen.

    msprobe [-f FRAMEWORK] VERB ...

Exit code: 0 done and nothing wrong, 1 done and something differs, 2 the command was wrong.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn

from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.visible import visible


@dataclass(frozen=True)
class Verb:
    """Where a verb is, and its one line in the help; with `hands_on` what follows its first argument is another's."""

    module: str
    says: str
    hands_on: bool = False


VERBS = {
    "code_mapping": Verb("msprobe.graph_save.code_mapping.verb", "write the lines of source beside a kernel dump"),
    "compare": Verb("msprobe.compare.verb", "compare two dumps and name the first wrong call"),
    "config_check": Verb("msprobe.compare.checkpoint.verb", "compare two checkpoints, parameter by parameter"),
    "doctor": Verb("msprobe.doctor", "say whether a dump is whole, and mend one whose process died"),
    "gather": Verb("msprobe.graph_save.gather.verb", "turn the files of MindSpore's kernel dump into a dump of ours"),
    "mapping": Verb("msprobe.compare.counterparts.verb", "suggest which call of one framework is which of the other"),
    "merge_result": Verb("msprobe.compare.merge.verb", "put the comparison tables of several ranks side by side"),
    "rollout_check": Verb("msprobe.compare.rollout.verb", "compare log-probs of generation with those of training"),
    "verify-collection": Verb(
        "msprobe.verify_collection", "show that collecting leaves a training as it is, bit by bit", hands_on=True
    ),
}

FRAMEWORKS = ("mindspore", "pytorch")


class _Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {visible(message)} ({self.prog} -h shows the options)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; gives the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    prog = "msprobe"
    if isinstance(
        sys.stdout, io.TextIOWrapper
    ):  # as standard error does: a name it has no characters for is spelled out
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        verb, rest = _take_verb(given)
        if not verb:
            return 0
        prog = f"msprobe {verb}"
        module = import_module(VERBS[verb].module)
        parser = _Parser(
            prog=prog,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add(parser)
        parse = parser.parse_args if VERBS[verb].hands_on else parser.parse_intermixed_args
        asked = parse(rest)
        if not VERBS[verb].hands_on:
            _expand(asked)
        return int(module.run(asked))
    except MsprobeError as err:
        print(f"{prog}: {visible(' '.join(str(err).split()))}", file=sys.stderr)
        return 2
    except FileNotFoundError:
        if _has_working_directory():
            raise
        print(f"{prog}: the working directory was deleted; change to one that is there, or give absolute paths", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read our answer has seen enough; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"{prog}: stopped", file=sys.stderr)
        return 130


def _expand(asked: argparse.Namespace) -> None:
    """Paths with `~`, which no shell has seen behind `--option=`; nothing else that is asked for begins like that."""
    for name, value in vars(asked).items():
        if isinstance(value, str):
            setattr(asked, name, os.path.expanduser(value))
        elif isinstance(value, list):
            setattr(asked, name, [os.path.expanduser(each) if isinstance(each, str) else each for each in value])


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _take_verb(given: list[str]) -> tuple[str, list[str]]:
    """Split a command line into its verb and the verb's own arguments; no verb where help was asked for and given."""
    parser = _parser()
    head = list(given)
    for at, word in enumerate(given):
        before = given[at - 1] if at else ""
        if not word.startswith("-") and before not in ("-f", "--framework"):
            head, verb, rest = given[:at], word, given[at + 1 :]
            break
    else:
        parser.parse_args(head)
        parser.print_help()
        return "", []
    parser.parse_args(head)
    if verb not in VERBS:
        near = get_close_matches(verb, VERBS, 1)
        hint = f"did you mean {near[0]}?" if near else f"this version has: {', '.join(VERBS)}"
        raise UsageError(f"there is no command {verb!r}; {hint}")
    return verb, rest if VERBS[verb].hands_on else _without_framework(parser, rest)


def _parser() -> _Parser:
    table = "\n".join(f"  {name:<{max(map(len, VERBS))}}  {verb.says}" for name, verb in VERBS.items())
    parser = _Parser(
        prog="msprobe",
        usage="msprobe [-h] [--version] [-f FRAMEWORK] VERB ...",
        description="Numerical-precision debugger for training with MindSpore.",
        epilog=f"verbs:\n{table}\n\n`msprobe VERB -h` shows the options of a verb.",
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
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("msprobe-ms")
        except PackageNotFoundError:
            number = "(not installed)"
        print(f"msprobe-ms {number}")
        parser.exit()


def _without_framework(parser: _Parser, rest: list[str]) -> list[str]:
    """`--framework VALUE` may stand anywhere; behind the verb it is checked and taken out."""
    kept: list[str] = []
    words = iter(rest)
    for word in words:
        if word == "--framework":
            parser.parse_args([word, *(value for value in (next(words, None),) if value is not None)])
        elif word.startswith("--framework="):
            parser.parse_args([word])
        else:
            kept.append(word)
    return kept

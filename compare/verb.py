"""Compare two dumps and name the first wrong call.

Give the dump under suspicion with -tp and the trusted one with -gp: a dump.json or debug.json, the folder of a rank, of
a step or of a whole run, a kernel dump, or a folder of npy files. Of folders every step and rank that both sides hold
is compared, by its number. Of two roots that MsProbe wrote, configurations, key data and the dumps of all stages are
compared in the order of the flow. Two paths without an option are -tp and -gp; a file that `msprobe bundle` wrote has
both sides, and the options. Tables go to the output folder, the answer to standard output: it names the first wrong
call, and a last line `Try:` follows where a known cause fits. Exit code: 0 all judged pairs pass, 1 something differs
or could not be judged, 2 the command was wrong or nothing could be judged.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.log import visible
from msprobe.base.scope import numbers_of
from msprobe.mapping.user_files import OPTIONS, user_mapping
from msprobe.store.detect import bundle_of

from .core.layouts import add_options, layouts_of
from .core.user_limits import add_options as add_user_limits
from .core.user_limits import limits_of_arguments
from .request import FORMATS, Request, check_workers, limits_named, read_compare_json

_NO_CONSISTENCY = (
    "the check of training against inference is not in this version: leave the flag out; `msprobe rollout_check` "
    "compares the log-probs of both"
)
NOT_BUILT = {"--consistent_check": _NO_CONSISTENCY, "--backend": _NO_CONSISTENCY}


class _Refused(argparse.Action):
    """A flag of msprobe 8.1 or 26 that is known and not there yet: says what to do instead."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: str | None = None) -> None:
        parser.error(f"{option}: {self.help_text}")

    def __init__(self, *args: Any, help_text: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help_text = help_text


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    sides = parser.add_argument_group("what is compared")
    sides.add_argument("-tp", "--target_path", metavar="PATH", help="the dump under suspicion")
    sides.add_argument("-gp", "--golden_path", metavar="PATH", help="the dump that is trusted")
    sides.add_argument("-i", "--input_path", metavar="FILE", help="compare.json with npu_path and bench_path, instead")
    sides.add_argument(
        "--rank", metavar="N,..", help="only these ranks of the folders that were given, as in 0-3 or 0,2,5-7"
    )
    sides.add_argument(
        "--step", metavar="N,..", help="only these steps of the folders that were given, in the same form"
    )
    how = parser.add_argument_group("how it is compared")
    how.add_argument(
        "-f",
        "-fm",
        "--fuzzy_match",
        action="store_true",
        help="also pair what is left over, in order, by name or operation",
    )
    how.add_argument(
        "--noise",
        metavar="MODE",
        help="up to where a difference of tensors is noise: auto (default), exact (nothing is), or the path of a "
        "noise.json",
    )
    how.add_argument(
        "--calibrate",
        metavar="CLEAN",
        help="another trusted run of the golden's training: what it differs by is noise; writes noise.json",
    )
    add_user_limits(how)
    names = parser.add_argument_group("which name is which, where that is not found by itself")
    file: dict[str, Any] = {"metavar": "FILE", "nargs": "?", "const": True}
    names.add_argument(
        "-am", "--api_mapping", **file, help="functions and their arguments; without FILE the built-in table"
    )
    names.add_argument("-cm", "--cell_mapping", **file, help="cells; without FILE those of equal path and class")
    names.add_argument(
        "-lm", "--layer_mapping", **file, help="layers by the class around them; without FILE equal ones"
    )
    names.add_argument("-dm", "--data_mapping", metavar="FILE", help="single rows")
    how.add_argument("--workers", type=int, metavar="N", help="processes that share the work, default one per core")
    how.add_argument("--scheduler", metavar="ADDRESS", help="a Dask cluster that does the work, as in tcp://host:8786")
    how.add_argument(
        "--first-only",
        action="store_true",
        help="write no tables, and read only ranks that may hold the first wrong call, by what `msprobe digest` wrote",
    )
    how.add_argument("--no-resume", action="store_true", help="begin anew where an interrupted comparison could go on")
    how.add_argument("-m", "--mode", metavar="auto", help="accepted from msprobe 26; what the sides hold is found out")
    add_options(parser.add_argument_group("ranks that share one model out, which are merged first"))
    report = parser.add_argument_group("where the answer goes")
    report.add_argument(
        "-o", "--output_path", metavar="DIR", nargs="?", default="./output", const="./output", help="default: ./output"
    )
    report.add_argument("--format", choices=FORMATS, help="default: xlsx")
    report.add_argument("--xlsx", action="store_true", help="the same as --format xlsx")
    report.add_argument(
        "--html", action="store_true", help="also write a page that shows all of it: compare_report_TIME.html"
    )
    report.add_argument("-s", "--stack_mode", action="store_true", help="show the column of call stacks")
    report.add_argument("-hl", "--highlight", action="store_true", help="colour whole rows by msprobe 8.1's rules too")
    report.add_argument("-c", "--compare_only", action="store_true", help="with -i: write no advisor text")
    report.add_argument(
        "-da",
        "--diff_analyze",
        action="store_true",
        help="also write which call differs first among all ranks, as JSON",
    )
    report.add_argument(
        "-tensor_log", "--is_print_compare_log", action="store_true", help="one line per pair of tensors in the log"
    )
    report.add_argument("--top", type=int, default=10, metavar="N", help="list at most N next beginnings, default 10")
    report.add_argument("--exit-zero", action="store_true", help="exit with 0 also where something differs")
    for flags, text in NOT_BUILT.items():
        parser.add_argument(*flags.split(), action=_Refused, help_text=text, nargs="?", help=argparse.SUPPRESS)
    sides.add_argument("sides", nargs="*", metavar="PATH", help="two paths: the same as -tp PATH -gp PATH; or a bundle")


def run(args: argparse.Namespace) -> int:
    """Compare, report, and say with the exit code how it went."""
    if (file := bundle_of(args.sides or [args.target_path, args.golden_path])) is None:
        return _compare(args)
    if args.input_path or args.scheduler:
        option = "-i" if args.input_path else "--scheduler"
        raise UsageError(f"{file}: a bundle is unpacked on this machine and has both sides; leave {option} out")
    from msprobe.store.bundle import unpacked

    with unpacked(file) as bundle:
        args.sides, args.target_path, args.golden_path = [], str(bundle.target), str(bundle.golden)
        bundle.fill(args)
        return _compare(args)


def _compare(args: argparse.Namespace) -> int:
    request = request_of(args)
    from .dispatch import (  # here: the help of the command is there before numpy is
        compare_paths,
        verdicts_of,
        write_report,
    )

    if request.html:
        from msprobe.report.file import check_page

        check_page()
    result = compare_paths(request)
    if request.html:
        write_report(result, request)
    for line in result.lines():
        print(visible(line))
    return verdicts_of(result).exit_code_of(request.exit_zero)


def request_of(args: argparse.Namespace) -> Request:
    """The command line as a request; UsageError where it cannot be meant."""
    _check_positional(args)
    if args.top < 0:
        raise UsageError("--top must not be negative")
    if args.xlsx and args.format not in (None, "xlsx"):
        raise UsageError(f"--xlsx and --format {args.format} contradict each other; give one")
    if args.mode not in (None, "auto"):
        raise UsageError(f"-m {args.mode}: this version compares what training left behind; leave -m out, or -m auto")
    check_workers(args.workers, args.scheduler)
    if args.first_only and (args.html or args.highlight or args.layer_mapping):
        other = "--html" if args.html else "--highlight" if args.highlight else "--layer_mapping"
        raise UsageError(f"--first-only writes no tables, and {other} is for what they show; leave one of them out")
    sides = _sides(args)
    mapping = user_mapping({option: getattr(args, option) for option in OPTIONS}, "--")
    if sides.read_as and mapping:
        raise UsageError("mapping files speak of calls; kernel dumps and npy files have none: leave them out")
    chosen = {"ranks": sides.ranks, "steps": sides.steps}
    for name, key in (("rank", "rank_id"), ("step", "step_id")):
        there, text = chosen[f"{name}s"], getattr(args, name)
        here = chosen[f"{name}s"] = there if text is None else numbers_of(f"--{name}", text)
        if there is not None and here != there:
            raise UsageError(f"--{name} and {key} of {args.input_path} contradict each other; give one")
    limits = limits_named(args.noise or "", args.calibrate, ("--noise", "--calibrate"))
    own = sides.user_limits + limits_of_arguments(args)
    if own and args.first_only:
        raise UsageError(
            f"--first-only decides by digests, which cannot tell what {own} excuses; leave one of them out"
        )
    # 8.1 shows the stack that lies beside the dump; a stack.json that is named is shown where -s asks for it.
    with_stack = None if args.input_path and sides.stack_file is None and not args.stack_mode else args.stack_mode
    return replace(
        sides,
        output=Path(args.output_path),
        format=args.format or "xlsx",
        with_stack=with_stack,
        top=args.top,
        exit_zero=args.exit_zero,
        fuzzy=args.fuzzy_match,
        highlight=args.highlight,
        advise=bool(args.input_path) and not args.compare_only,  # as 8.1 has it; 26, whose words -tp and -gp are, not
        diff_analyze=args.diff_analyze,
        log_each=args.is_print_compare_log or sides.log_each,
        ranks=chosen["ranks"],
        steps=chosen["steps"],
        mapping=mapping,
        workers=args.workers,
        scheduler=args.scheduler or "",
        resume=not args.no_resume,
        limits=limits,
        calibrate=Path(args.calibrate) if args.calibrate else None,
        html=args.html,
        tables=not args.first_only,
        first_only=args.first_only,
        layouts=layouts_of(args, has_golden=True),
        user_limits=own,
    )


def _check_positional(args: argparse.Namespace) -> None:
    """Two paths without an option are target and golden; anything else there is a mistake."""
    words = args.sides
    if not words:
        return
    if words[0].lower() in ("mindspore", "pytorch") and not (len(words) == 2 and Path(words[0]).exists()):
        raise UsageError(
            f"the framework stands before the verb: msprobe -f {words[0]} compare ...; "
            "after compare, -f means fuzzy matching"
        )
    if len(words) != 2 or args.target_path or args.golden_path or args.input_path:
        raise UsageError(f"{words[0]!r} belongs to no option; write -tp TARGET -gp GOLDEN, or TARGET GOLDEN alone")


def _sides(args: argparse.Namespace) -> Request:
    if args.input_path:
        if args.target_path or args.golden_path:
            raise UsageError("-i names both sides already; give either -i, or -tp and -gp")
        return read_compare_json(Path(args.input_path))
    if args.sides or (args.target_path and args.golden_path):
        target, golden = args.sides or (args.target_path, args.golden_path)
        return Request(Path(target), Path(golden))
    raise UsageError("two dumps are needed: -tp TARGET -gp GOLDEN, or -i compare.json")

"""Compare two dumps and find the first wrong call.

  msprobe compare TARGET GOLDEN [-o DIR]
  msprobe compare -tp TARGET -gp GOLDEN [-o DIR]
  msprobe compare -i compare.json [-o DIR]

TARGET is the dump under suspicion, GOLDEN the trusted one. Each is a dump.json or debug.json, the folder of a rank, of
a step or of a whole run, a kernel dump, or a folder of npy files. For folders, every step and rank that both sides have
is compared, by number. For two root folders written by MsProbe, configurations, key data and the dumps of all stages
are compared in the order of the flow.

Tables are written to the output folder. Standard output has the answer on one screen: the verdict and how certain it
is, the evidence, the source line, what was judged, the next command. The last line names the first wrong call, for
scripts. --json prints the answer as a document instead. Exit code: 0 all judged pairs pass, 1 something differs or
could not be judged, 2 the command was wrong or nothing could be judged.
"""

from dataclasses import replace
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.base.log import terminal_line
from msprobe.options.declaration import OUTPUT, declared
from msprobe.store.detect import bundle_of, unbundled

from .request import CompareOptions, Request, read_compare_json, with_options

Options = CompareOptions
NOT_BUILT = CompareOptions.REFUSED


def run(options: CompareOptions) -> int:
    """Compare, report, and return the exit code."""
    if (file := bundle_of(options.sides or (options.target, options.golden))) is not None:
        if options.input_path or options.scheduler:
            flag = "-i" if options.input_path else "--scheduler"
            raise UsageError(
                translated(
                    f"{file}: a bundle is unpacked on this machine and contains both sides; omit {flag}",
                    f"{file}：bundle 在本机解包，且已包含两侧；请去掉 {flag}",
                )
            )
        options = replace(options, sides=())
    with unbundled(file, options) as filled:
        return _compare(filled)


def _compare(options: CompareOptions) -> int:
    request = request_of(options)
    if options.explain:
        return _explain(request, options)
    from .dispatch import (  # here: the help of the command does not need numpy
        answer_of,
        compare_paths,
        counts_of,
        pairs_of,
        verdicts_of,
        write_report,
    )
    from .jobs.summary import RequestResult

    if request.html:
        from msprobe.report.file import check_page

        check_page()
    result = compare_paths(request)
    page = write_report(result, request) if request.html else None
    exit_code = verdicts_of(result).exit_code_of(request.exit_zero)
    tables = [outcome.table for outcome in result.outcomes if outcome.table]
    if options.json:
        from msprobe.findings.document import Document, printed

        details = {"target": str(request.target), "golden": str(request.golden)}
        files = {"tables": tables, "page": str(page or "")}
        found = answer_of(result, request)
        printed(Document("compare", found, pairs_of(result), exit_code, counts_of(result), files, details))
        return exit_code
    from msprobe.findings.text import next_step
    from msprobe.findings.text import printed as printed_lines

    shown = [*map(terminal_line, result.lines())]
    if isinstance(result, RequestResult):
        written = [*(tables if len(tables) == 1 else []), *([str(page)] if page else [])]
        step = "" if result.is_clean else next_step(answer_of(result, request))
        after = [f"  do next: {step}"] if step else []
        after += [f"  written: {', '.join(map(_as_given, written))}"] if written else []
        shown[-1:-1] = map(terminal_line, after)
    printed_lines(shown)
    return exit_code


def _explain(request: Request, options: CompareOptions) -> int:
    """Print why one call has its verdicts, and write nothing; UsageError if a file is asked for."""
    for name, each in declared(CompareOptions).items():
        if each.role == OUTPUT and each.flags and name != "json" and getattr(options, name) != each.default:
            raise UsageError(
                translated(
                    f"--explain writes no files: omit {each.long_flag}, or compare without --explain",
                    f"--explain 不写出文件：请去掉 {each.long_flag}，或不带 --explain 进行比对",
                )
            )
    from .explain.command import explained
    from .explain.text import data_of, lines_of

    chain, others = explained(request, options.explain)
    lines = [*map(terminal_line, lines_of(chain, others))]
    if options.json:
        from msprobe.base.verdicts import Verdicts
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer

        details = {"target": str(request.target), "golden": str(request.golden), "explained": data_of(chain)}
        notes = (others,) if others else ()
        printed(Document("compare", Answer("shown", lines[0], notes=notes), Verdicts(), 0, details=details))
        return 0
    from msprobe.findings.text import printed as printed_lines

    printed_lines(lines)
    return 0


def _as_given(path: str) -> str:
    """Return a path relative to the working directory if it is below that."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return path


def request_of(options: CompareOptions) -> Request:
    """Return the command line as a request; raise a UsageError if it is invalid."""
    _check_positional(options)
    if options.xlsx and options.format != "xlsx":
        raise UsageError(
            translated(
                f"--xlsx and --format {options.format} contradict each other; give only one",
                f"--xlsx 与 --format {options.format} 冲突；请只给出一个",
            )
        )
    if options.mode not in ("", "auto"):
        raise UsageError(
            translated(
                f"-m {options.mode}: this version supports only -m auto; omit -m",
                f"-m {options.mode}：本版本只比对训练产生的数据；请去掉 -m，或用 -m auto",
            )
        )
    if options.first_only and (options.html or options.highlight or options.layer_mapping):
        other = "--html" if options.html else "--highlight" if options.highlight else "--layer-mapping"
        raise UsageError(
            translated(
                f"--first-only does not write tables, and {other} applies to them; omit one of them",
                f"--first-only 不写表，而 {other} 针对表的内容；请去掉其中一个",
            )
        )
    sides = _sides(options)
    for name, key in (("rank", "rank_id"), ("step", "step_id")):
        there, here = getattr(sides, f"{name}s"), getattr(options, f"{name}s")
        if None not in (there, here) and here != there:
            raise UsageError(
                translated(
                    f"--{name}s and {key} of {options.input_path} contradict each other; give only one",
                    f"--{name}s 与 {options.input_path} 中的 {key} 冲突；请只给出一个",
                )
            )
    # 8.1 shows the stack that is next to the dump; a stack.json that is given is shown if -s asks for it.
    with_stack = (
        None if options.input_path and sides.stack_file is None and not options.stack_mode else options.stack_mode
    )
    request = replace(
        with_options(sides, options),
        with_stack=with_stack,
        advise=bool(options.input_path) and not options.compare_only,  # as in 8.1; 26, which has -tp and -gp, does not
        tables=not options.first_only,
    )
    if sides.read_as and request.mapping:
        raise UsageError(
            translated(
                "mapping files apply to calls, which kernel dumps and npy files do not have: omit them",
                "映射文件针对调用，而 kernel dump 和 npy 文件中没有调用；请去掉映射文件",
            )
        )
    if request.user_limits and options.first_only:
        raise UsageError(
            translated(
                f"--first-only compares digests, to which {request.user_limits} cannot be applied; omit one of them",
                f"--first-only 依据摘要判断，无法应用 {request.user_limits}；请去掉其中一个",
            )
        )
    return request


def _check_positional(options: CompareOptions) -> None:
    """Check that paths without an option are exactly target and golden."""
    words = options.sides
    if not words:
        return
    from msprobe.base.framework import FRAMEWORKS  # lazy: imports numpy

    if words[0].lower() in FRAMEWORKS and not (len(words) == 2 and Path(words[0]).exists()):
        raise UsageError(
            translated(
                f"give the framework before the command: msprobe -f {words[0]} compare ...; after compare, -f "
                "means fuzzy matching",
                f"框架写在命令之前：msprobe -f {words[0]} compare ...；compare 之后的 -f 表示模糊匹配",
            )
        )
    if len(words) != 2 or options.target or options.golden or options.input_path:
        raise UsageError(
            translated(
                f"{words[0]!r} does not belong to an option; write either -tp TARGET -gp GOLDEN or TARGET GOLDEN",
                f"{words[0]!r} 不属于任何选项；请写 -tp TARGET -gp GOLDEN，或只写 TARGET GOLDEN",
            )
        )


def _sides(options: CompareOptions) -> Request:
    if options.input_path:
        if options.target or options.golden:
            raise UsageError(
                translated(
                    "-i already gives both sides; give either -i, or -tp and -gp",
                    "-i 已给出两侧；请只给出 -i，或只给出 -tp 和 -gp",
                )
            )
        return read_compare_json(options.input_path)
    if options.sides:
        target, golden = options.sides
        return Request(Path(target), Path(golden))
    if options.target and options.golden:
        return Request(options.target, options.golden)
    raise UsageError(
        translated(
            "two dumps are required: give -tp TARGET -gp GOLDEN, or -i compare.json",
            "需要两份 dump：-tp TARGET -gp GOLDEN，或 -i compare.json",
        )
    )

"""Check a training against a golden file: green if only rounding changed, red with the name of the call otherwise.

  msprobe gate check --golden FILE -- python train.py
  msprobe gate check --golden FILE --target DIR

The last line on standard output is the state with the first finding. Exit code: 0 equal or rounding only, 1 a call
changed or could not be judged, 2 the command was wrong or the training failed, 3 the training did not train: no
gradients, nothing updated, a constant loss, fewer calls than the golden.
"""

from dataclasses import dataclass
from pathlib import Path

from msprobe.options.declaration import EXECUTION, OUTPUT, option
from msprobe.options.groups import JsonAnswer, output_option
from msprobe.options.kinds import FLAG, PATH, one_of, whole

from .options import LIMITS, GoldenFile, RunSource


@dataclass(frozen=True, kw_only=True)
class Options(GoldenFile, RunSource, JsonAnswer):
    """The options of the command."""

    limits: str = option(
        one_of(*LIMITS),
        "--limits",
        default="auto",
        help="what is accepted; auto: calibrated if the golden is, otherwise built-in",
        zh="接受的限值；auto：golden 已标定则用标定值，否则用内置值",
    )
    output: Path | None = output_option(help="keep the tables in this folder", zh="把各表保留在该文件夹")
    html: bool = option(
        FLAG,
        "--html",
        default=False,
        role=OUTPUT,
        help="with -o: also write a page that shows all results",
        zh="与 -o 一起使用：另外写出显示全部结果的页面",
    )
    summary: Path | None = option(
        PATH,
        "--summary",
        metavar="FILE",
        role=OUTPUT,
        help="append a summary in Markdown to this file",
        zh="把 Markdown 摘要追加到该文件",
    )
    top: int | None = option(
        whole(0), "--top", role=EXECUTION, help="list at most N more findings", zh="最多列出 N 个其余问题"
    )


def run(options: Options) -> int:
    """Check, print, and return the exit code."""
    from msprobe.base.errors import UsageError
    from msprobe.base.language import translated

    from .golden import Golden
    from .judge import judged
    from .report import append_summary, document, lines, page_of, summary, with_command

    if options.html and options.output is None:
        raise UsageError(
            translated("--html: give the folder of the page with -o", "--html：请用 -o 给出页面所在文件夹")
        )
    golden = Golden.read(options.golden)
    with options.run(golden.wanted.collection) as run:
        verdict = judged(run, golden, options.limits, options.output, html=options.html)
        verdict = with_command(verdict, golden.path, options.source)
        page = page_of(verdict, options.output)
    if options.summary is not None:
        append_summary(options.summary, summary(verdict, golden))
    if options.is_json:
        from msprobe.findings.document import printed

        written = {"tables": verdict.tables, "page": page, "summary": str(options.summary or "")}
        printed(document(verdict, "gate check", golden, written))
    else:
        from msprobe.findings.text import printed as printed_lines

        printed_lines(lines(verdict, options.top))
    return int(verdict.state)

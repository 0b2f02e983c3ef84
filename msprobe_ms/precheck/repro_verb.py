"""Write a standalone script that reproduces one recorded call.

  msprobe repro CALL --dump dump.json [-o DIR] [--reduce]

CALL is a call such as Mint.matmul.0.backward, or one of its outputs. The script needs only the framework; it has fewer
than 80 lines, and an npz file next to it with the inputs, the expected outputs in float64 and the tolerances. It prints
the wrong outputs and exits with 1 if there are any. --reduce makes shapes and values smaller as long as the call
remains wrong on the current device. Exit code: 0 written, 2 nothing was written.
"""

from dataclasses import dataclass
from pathlib import Path

from msprobe.base.log import terminal_line
from msprobe.options.declaration import option, positional
from msprobe.options.groups import JsonAnswer, output_option
from msprobe.options.kinds import FLAG, PATH, TEXT, whole


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    call: str = positional(
        TEXT,
        "CALL",
        help="the call, such as Mint.matmul.0.backward, or one of its outputs",
        zh="调用，例如 Mint.matmul.0.backward，或它的一个输出",
    )
    dump: Path = option(
        PATH,
        "--dump",
        metavar="FILE",
        required=True,
        help="dump.json, or the folder that contains it",
        zh="dump.json，或其所在的文件夹",
    )
    output: Path = output_option(default="./", help="folder for the script", zh="脚本所在的文件夹")
    reduce: bool = option(
        FLAG,
        "--reduce",
        default=False,
        help="reduce the shapes and values of the call as long as it remains wrong",
        zh="在保持出错的前提下缩小该调用",
    )
    run: bool = option(
        FLAG,
        "--run",
        default=False,
        help="execute the call here and report whether it is wrong",
        zh="在此执行该调用，并报告是否出错",
    )
    seed: int = option(
        whole(), "--seed", default=42, help="seed of inputs that were not recorded", zh="未记录的输入所用的随机种子"
    )


def run(options: Options) -> int:
    """Write the script, and print where it is."""
    from msprobe.store.reader import find, read

    from .executor import executor_of
    from .generate import place_of, write

    dump = read(find(options.dump))
    at = place_of(dump, options.call)
    is_run = options.run or options.reduce
    script, data, finding = write(
        dump,
        at,
        options.output,
        name=dump.columns.names[at],
        seeds=(options.seed if dump.task == "statistics" else None,),
        executor=executor_of(dump.framework) if is_run else None,
        is_reduced=options.reduce,
    )
    line = finding or "no wrong output was found"
    if options.is_json:
        from msprobe.base.verdicts import Verdicts
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer

        details = {"call": dump.columns.names[at], "bytes": data.stat().st_size, "is_wrong": bool(finding)}
        answer, files = Answer("shown", line), {"script": script, "data": data}
        printed(Document("repro", answer, Verdicts(), 0, files=files, details=details))
        return 0
    print(terminal_line(f"script: {script}"))
    print(terminal_line(f"data: {data} ({data.stat().st_size} bytes)"))
    print(terminal_line(line))
    return 0

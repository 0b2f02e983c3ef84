"""The command `msprobe`: a table of verbs, whose modules are imported when they are used.

    msprobe [-f FRAMEWORK] VERB ...

Exit codes: `base/verdicts`, and `_EXIT_CODES` below.
"""

import argparse
import io
import os
import re
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
from msprobe.base.language import translated
from msprobe.base.log import terminal_line
from msprobe.base.version import installed


@dataclass(frozen=True)
class Verb:
    """A verb of the command.

    module : module with the options and the function `run`.
    group : group in the help.
    summary, zh : line in the help, in English and Chinese.
    runs_script : whether the words after the first argument are arguments of a script.
    has_framework : whether the verb has an option `--framework`.
    is_older : whether the verb is accepted, but not listed.
    """

    module: str
    group: str
    summary: str
    zh: str
    runs_script: bool = False
    has_framework: bool = False
    is_older: bool = False

    def described(self) -> str:
        """Return the line in the language of the user."""
        return translated(self.summary, self.zh)


GROUPS = {
    "collect": ("collect", "采集"),
    "compare": ("compare", "比对"),
    "check": ("check one run", "检查一次运行"),
    "monitor": ("monitor", "监控"),
    "rl": ("reinforcement learning", "强化学习"),
    "convert": ("convert and repair", "转换与修复"),
    "shell": ("shells and agents", "shell 与智能体"),
}
"""The groups of verbs, in the order of the help."""

VERBS = {
    "gather": Verb(
        "msprobe.graph_save.gather.verb",
        "collect",
        "turn a kernel dump of MindSpore into a dump of this tool",
        "把 MindSpore 的 kernel dump 转成本工具的 dump",
    ),
    "verify-collection": Verb(
        "msprobe.verify_collection",
        "collect",
        "verify that collection leaves a training bitwise unchanged",
        "证明采集不改变训练（逐位一致）",
        runs_script=True,
    ),
    "compare": Verb(
        "msprobe.compare.verb",
        "compare",
        "compare two dumps and find the first wrong call",
        "比对两个 dump，找出首个错误调用",
    ),
    "report": Verb(
        "msprobe.report_verb.verb",
        "compare",
        "write one page that shows a comparison, a monitor or a dump",
        "写出展示比对、监控或 dump 的单个页面",
    ),
    "diagnose": Verb(
        "msprobe.diagnose.verb",
        "compare",
        "find where two runs diverge, and what to collect next",
        "找出两次运行从何处出现差异，以及下一步采集什么",
    ),
    "graft": Verb(
        "msprobe.graft.verb",
        "compare",
        "prove the cause of a difference: train again with golden values in place of one call's results",
        "证实差异的原因：用标杆的值替换某个调用的结果后再次训练",
    ),
    "mapping": Verb(
        "msprobe.compare.suggest.verb",
        "compare",
        "suggest name mappings between two frameworks",
        "给出两个框架之间的名称映射建议",
    ),
    "digest": Verb(
        "msprobe.compare.digest_verb",
        "compare",
        "write digests of dumps, so that comparisons can skip equal ranks",
        "写出 dump 的摘要，相同的 rank 不必再读",
    ),
    "bundle": Verb(
        "msprobe.bundle.verb",
        "compare",
        "pack two dumps and their comparison into one file, for a bug report",
        "把两个 dump 及其比对结论打包成一个文件，用于反馈问题",
    ),
    "graph-visualize": Verb(
        "msprobe.compare.graph_visualize.verb",
        "compare",
        "write the graph of a network for the TensorBoard plugin",
        "写出供 TensorBoard 插件查看的网络",
    ),
    "config-check": Verb(
        "msprobe.config_check.verb",
        "compare",
        "pack and compare configurations; compare two checkpoints",
        "打包并比对配置；比对两个 checkpoint",
    ),
    "merge-result": Verb(
        "msprobe.compare.merge.verb",
        "compare",
        "merge the comparison tables of several ranks",
        "把多个 rank 的比对表并排合并",
    ),
    "check": Verb(
        "msprobe.checks.invariants.verb",
        "check",
        "check invariants that hold in every correct training",
        "检查每个正确的训练都应满足的性质",
    ),
    "gate record": Verb(
        "msprobe.gate.record_verb",
        "check",
        "record a golden file of a training, for a regression test of its numerics",
        "录制训练的 golden 文件，用于数值回归测试",
        runs_script=True,
    ),
    "gate check": Verb(
        "msprobe.gate.check_verb",
        "check",
        "check a training against a golden file: green if only rounding changed",
        "用 golden 文件检查训练：只有舍入变化时通过",
        runs_script=True,
    ),
    "gate accept": Verb(
        "msprobe.gate.accept_verb",
        "check",
        "accept changes of a training into its golden file, with the reason",
        "把训练的变更及理由写入 golden 文件",
        runs_script=True,
    ),
    "gate show": Verb(
        "msprobe.gate.show_verb",
        "check",
        "show a golden file and the changes that were accepted",
        "显示 golden 文件及已接受的变更",
    ),
    "bisect": Verb(
        "msprobe.gate.bisect_verb",
        "check",
        "find the commit that changed what a training computes",
        "找出使训练计算结果改变的提交",
        runs_script=True,
    ),
    "overflow-check": Verb(
        "msprobe.checks.nonfinite.verb",
        "check",
        "find the first call that created NaN or infinities",
        "找出首个产生 NaN 或无穷大的调用",
    ),
    "acc-check": Verb(
        "msprobe.precheck.verb", "check", "check recorded API calls against float64", "用 float64 检验已记录的 API 调用"
    ),
    "api-precision-compare": Verb(
        "msprobe.precheck.devices_verb",
        "check",
        "compare the errors of two devices, as written by acc-check",
        "比较 acc-check 在两种设备上得到的误差",
    ),
    "repro": Verb(
        "msprobe.precheck.repro_verb",
        "check",
        "write a script that reproduces one recorded call",
        "写出复现某个已记录调用的脚本",
    ),
    "op-generate": Verb(
        "msprobe.precheck.op_generate_verb",
        "check",
        "write a script that runs one API of a dump",
        "写出运行 dump 中某个 API 的脚本",
    ),
    "code-mapping": Verb(
        "msprobe.graph_save.code_mapping.verb",
        "check",
        "add the source lines to the values of a kernel dump",
        "在 kernel dump 的数值旁写出源码行",
    ),
    "monitor compare": Verb(
        "msprobe.compare.monitor.verb",
        "monitor",
        "find where two monitored trainings diverge",
        "找出两次被监控的训练从何处出现差异",
    ),
    "monitor anomalies": Verb(
        "msprobe.monitor.anomaly_verb",
        "monitor",
        "list the earliest anomalies that the alerts of a monitor reported",
        "列出监控告警中最早的异常",
    ),
    "data2db": Verb(
        "msprobe.monitor_convert.verb",
        "monitor",
        "write the output of a monitor into a database",
        "把监控的输出写入数据库",
    ),
    "rollout-check": Verb(
        "msprobe.compare.rollout.verb",
        "rl",
        "compare log-probs of generation with those of training",
        "比对生成与训练的 log-prob",
    ),
    "convert": Verb(
        "msprobe.convert",
        "convert",
        "convert a dump between JSON, packed and columnar formats",
        "在列式、打包与 JSON 格式的 dump 之间转换",
    ),
    "doctor": Verb(
        "msprobe.doctor",
        "convert",
        "check the environment before a training; repair a dump whose process died",
        "训练前检查环境；修复进程中途退出的 dump",
        has_framework=True,
    ),
    "explain": Verb(
        "msprobe.findings.verb",
        "check",
        "explain a kind of finding: meaning, causes, how to confirm it",
        "解释一种问题：含义、原因、如何确认",
    ),
    "completion": Verb(
        "msprobe.completion",
        "shell",
        "print a script that completes commands and options",
        "打印补全命令和选项的脚本",
    ),
    "mcp": Verb(
        "msprobe.mcp_server.verb",
        "shell",
        "offer compare, diagnose, explain and dumps to a coding agent",
        "供编程智能体调用：比对、诊断、解释问题、查看 dump",
    ),
    "graph": Verb(
        "msprobe.compare.graph_visualize.older_verb",
        "compare",
        "write the graph of a network as JSON for the page of msprobe 8.1",
        "按 msprobe 8.1 的页面写出网络的 JSON",
        is_older=True,
    ),
}
OLDER = {
    "acc_check": ("acc-check", "26"),
    "run_ut": ("acc-check", "8.1"),
    "multi_acc_check": ("acc-check", "26"),
    "multi_run_ut": ("acc-check", "8.1"),
    "api_precision_compare": ("api-precision-compare", "8.1"),
    "code_mapping": ("code-mapping", "8.1"),
    "config_check": ("config-check", "8.1"),
    "graph_visualize": ("graph-visualize", "26"),
    "merge_result": ("merge-result", "8.1"),
    "nan_analyze": ("overflow-check", "8.1"),
    "overflow_check": ("overflow-check", "26"),
    "op_generate": ("op-generate", "8.1"),
    "rollout_check": ("rollout-check", "own"),
}
"""Older names that are accepted, but not listed: the canonical name, and the release of mindstudio-probe with the older
one; "own" for an earlier name of this tool. `graph` of 8.1 differs from `graph-visualize`."""

_EXIT_CODES = """exit codes of all commands:
  0  everything was judged and passed
  1  something is wrong or could not be judged; the last line has the number
  2  nothing could be judged, or the command line is invalid"""

_EXIT_CODES_ZH = """所有命令的退出码：
  0  要求的内容均已判定，没有问题
  1  有问题，或有无法判定的内容；最后一行给出个数
  2  什么都无法判定，或命令有误"""

_MORE = "`msprobe VERB -h` shows the options of a command."
_MORE_ZH = "`msprobe VERB -h` 显示该命令的选项。"

_SEE_ZH = "退出码见 `msprobe -h`；详细说明见文档。"

FRAMEWORKS = ("mindspore", "pytorch")


class _Parser(argparse.ArgumentParser):
    """Parser whose error messages have one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {terminal_line(message)} ({self.prog} -h shows the options)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: escape unencodable characters
    prog = "msprobe"
    with _interrupts() as interrupts:
        try:
            try:
                verb, rest = _split_verb(words)
                if not verb:
                    return 0
                prog = f"msprobe {verb}"
                return _run_verb(prog, VERBS[verb], rest)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # errors at exit could not be reported
        except (Exception, KeyboardInterrupt) as err:
            if interrupts or isinstance(err, KeyboardInterrupt):
                return _print_error(prog, "stopped", 130)
            if isinstance(err, MsprobeError):
                return _print_error(prog, str(err), 2)
            if isinstance(err, BrokenPipeError):
                # The reader has closed the pipe, and nothing must be written at exit either.
                _redirect_to_devnull(sys.stdout)
                return 1
            if isinstance(err, FileNotFoundError) and not _has_working_directory():
                message = "the working directory was deleted; change to an existing one, or give absolute paths"
                return _print_error(prog, message, 2)
            if isinstance(err, OSError):  # an error of the environment, such as a full disk: no traceback
                _redirect_to_devnull(sys.stdout)
                where = "standard output" if err.filename is None else os.fsdecode(err.filename)
                return _print_error(prog, f"{where}: {err.strerror or err}", 2)
            raise


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect keyboard interrupts, which may be raised as other exceptions: importing NumPy raises ImportError."""
    signals: list[int] = []

    def on_interrupt(number: int, _: object) -> NoReturn:
        signals.append(number)
        raise KeyboardInterrupt

    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield signals
        return
    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _run_verb(prog: str, verb: Verb, words: list[str]) -> int:
    module = import_module(verb.module)
    from msprobe.options.parser import parsed  # lazy: not needed for `msprobe --help`

    if not verb.runs_script:
        _check_no_empty_words(words, _may_be_empty(prog, module.Options))
    options = parsed(prog, module.Options, words, _description(module.__doc__ or "", verb))
    try:
        return int(module.run(options))
    except MsprobeError as err:
        if getattr(options, "is_json", False):
            from msprobe.findings.document import failure, text_of  # lazy: rarely needed

            print(text_of(failure(prog.removeprefix("msprobe "), str(err), 2)))
        raise


def _description(text: str, verb: Verb) -> str:
    """Return the description of a verb: its docstring; in Chinese, its summary and the commands in the docstring."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    commands = [f"  {re.split(r'   +', line)[0]}" for line in lines if line.startswith("msprobe ")]
    return translated(text, "\n\n".join(filter(None, (f"{verb.zh}。", "\n".join(commands), _SEE_ZH))))


def _may_be_empty(prog: str, options: type) -> tuple[str, ...]:
    from msprobe.options.aliases import aliases_of
    from msprobe.options.declaration import declared

    verb = prog.removeprefix("msprobe ")
    empty = [each.flags for each in declared(options).values() if each.may_be_empty]
    return tuple(flag for flags in empty for flag in (*flags, *aliases_of(verb, flags)))


def _check_no_empty_words(words: Sequence[str], may_be_empty: Collection[str]) -> None:
    """Raise UsageError for an empty word, which would mean the current folder, or an option with an empty value."""
    for at, word in enumerate(words):
        if (words[at - 1] if at and not word else word.rstrip("=")) in may_be_empty:
            continue
        if not word or (word.endswith("=") and word.startswith("--")):
            before = words[at - 1] if at and words[at - 1].startswith("-") else ""
            after, after_zh = (f" after {before}", f"（在 {before} 之后）") if before else ("", "")
            raise UsageError(
                translated(
                    f"argument {at + 1}{after} is empty, possibly an unset shell variable; give a value, or leave the "
                    "argument out",
                    f"第 {at + 1} 个参数{after_zh}为空（可能是未赋值的 shell 变量）；请给出值，或去掉该参数",
                )
            )


def _print_error(prog: str, text: str, code: int) -> int:
    """Print one line to standard error, if possible, and return the exit code."""
    try:
        print(f"{prog}: {terminal_line(' '.join(text.split()))}", file=sys.stderr)
    except OSError:
        _redirect_to_devnull(sys.stderr)
    return code


def _redirect_to_devnull(stream: TextIO | None) -> None:
    """Discard everything that is still to be written to a stream, also at exit."""
    if stream is not None:
        with suppress(OSError, ValueError):  # a stream without a file descriptor, as in a test
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _split_verb(words: list[str]) -> tuple[str, list[str]]:
    """Split a command line into its verb and the arguments of the verb; no verb if help was requested and printed."""
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
    verb = OLDER[verb][0] if verb in OLDER else verb
    if f"{verb} {rest[0] if rest else ''}" in VERBS:
        verb, rest = f"{verb} {rest[0]}", rest[1:]
    elif inner := [name for name in VERBS if name.startswith(f"{verb} ")]:
        if not {"-h", "--help"} & set(rest):
            one_of = ", ".join(inner)
            raise UsageError(
                translated(
                    f"the subcommand of {verb!r} is missing or unknown; choose from: {one_of}",
                    f"{verb!r} 之后缺少子命令，或子命令未知；可选：{one_of}",
                )
            )
        print("\n".join(f"msprobe {name}: {VERBS[name].described()}" for name in inner))
        return "", []
    if verb not in VERBS:
        raise UsageError(_unknown(verb))
    if VERBS[verb].has_framework:
        return verb, [*(["--framework", framework] if framework else []), *rest]
    return verb, rest if VERBS[verb].runs_script else _without_framework(parser, rest)


def _unknown(verb: str) -> str:
    """Return the message for an unknown command, with its replacement or a similar name."""
    from msprobe.base.checks import nearest
    from msprobe.base.unavailable import COMMANDS

    listed = tuple(name for name, each in VERBS.items() if not each.is_older)
    near = nearest(verb, (*VERBS, *OLDER, *COMMANDS))
    near = OLDER[near][0] if near in OLDER else near
    if near in COMMANDS:
        which = f"{verb!r}" if near == verb else f"{verb!r} or {near!r}"
        return f"this version has no command {which}: {COMMANDS[near]} (this version has: {', '.join(listed)})"
    every = ", ".join(listed)
    hint, hint_zh = (
        (f"did you mean {near}?", f"是否指 {near}？") if near else (f"this version has: {every}", f"可用：{every}")
    )
    return translated(f"there is no command {verb!r}; {hint}", f"没有命令 {verb!r}；{hint_zh}")


def _parser() -> _Parser:
    width = max(map(len, VERBS))
    table = "\n\n".join(
        f"{translated(*title)}:\n"
        + "\n".join(
            f"  {name:<{width}}  {verb.described()}"
            for name, verb in VERBS.items()
            if verb.group == group and not verb.is_older
        )
        for group, title in GROUPS.items()
    )
    parser = _Parser(
        prog="msprobe",
        usage="msprobe [-h] [--version] [-f FRAMEWORK] VERB ...",
        description=translated(
            "Numerical-precision debugger for training with MindSpore.", "MindSpore 训练的数值精度调试工具。"
        ),
        epilog=f"{table}\n\n{translated(_EXIT_CODES, _EXIT_CODES_ZH)}\n\n{translated(_MORE, _MORE_ZH)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    options = parser.add_argument_group(translated("options", "选项"))
    options.add_argument("-h", "--help", action="help", help=translated("show this help and exit", "显示本帮助并退出"))
    options.add_argument(
        "--version", action=_Version, nargs=0, help=translated("print the version and exit", "显示版本并退出")
    )
    options.add_argument(
        "-f",
        "--framework",
        choices=FRAMEWORKS,
        help=translated(
            "accepted from msprobe 8.1; the framework of a dump is detected",
            "为兼容 msprobe 8.1 而保留；dump 的框架自动识别",
        ),
    )
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"msprobe-ms {installed() or '(not installed)'}")
        parser.exit()


def _without_framework(parser: _Parser, rest: list[str]) -> list[str]:
    """Check and remove `--framework VALUE` in the arguments of a verb."""
    remaining: list[str] = []
    words = iter(rest)
    for word in words:
        if word == "--framework":
            parser.parse_args([word, *islice(words, 1)])
        elif word.startswith("--framework="):
            parser.parse_args([word])
        else:
            remaining.append(word)
    return remaining

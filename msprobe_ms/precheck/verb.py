"""Check the kernels: compare every recorded API call with the same function in float64, computed by PyTorch on the CPU.

  msprobe acc-check --dump dump.json [-o DIR]

For a dump of task tensor, the recorded outputs are judged, or the calls are executed again on the current device
(--run). For a dump of task statistics, random inputs that match the recorded statistics are generated, and each call is
executed. With -d, several devices share the work. The last line on standard output is the first wrong output. Exit
code: 0 nothing is wrong, 1 something is wrong or could not be judged, 2 the command was wrong or nothing could be
judged.
"""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.language import translated
from msprobe.base.log import logger, terminal_line
from msprobe.base.scope import parse_numbers
from msprobe.base.verdicts import NONE, Verdicts
from msprobe.frameworks.registry import PACKAGES, REPLACE_REFERENCE
from msprobe.options.declaration import OUTPUT, option
from msprobe.options.groups import JsonAnswer, WorkersOrZero, output_option
from msprobe.options.kinds import FLAG, PATH, SWITCH, TEXT, Kind, whole
from msprobe.report.file import check_page

if TYPE_CHECKING:
    from msprobe.store.record import Dump

    from .check import Checked
    from .run import Options as Execution

_MAX_LISTED = 10
"""Wrong outputs, and reasons for skipping, that are shown."""

_MOST_DEVICES = 4095


def _device_numbers(words: list[str]) -> tuple[int, ...]:
    if not all(word.isdecimal() for word in words):
        given = " ".join(words)
        raise SettingsError(
            translated(
                f"{given} is invalid; give the numbers of devices, for example 0 1",
                f"{given} 无效；请给出设备编号，例如 0 1",
            )
        )
    return tuple(map(int, words))


_DEVICES = Kind("N", parse_numbers, _device_numbers, "several", lambda flag, value: [flag, *map(str, value)])


@dataclass(frozen=True, kw_only=True)
class Options(WorkersOrZero, JsonAnswer):
    """The options of the command."""

    dump: Path = option(
        PATH,
        "--dump",
        metavar="FILE",
        required=True,
        help="dump.json, or the folder that contains it",
        zh="dump.json，或其所在的文件夹",
    )
    output: Path = output_option(default="./")
    result_csv_path: Path | None = option(
        PATH,
        "--resume-from",
        metavar="FILE",
        help="resume an interrupted check from its result file",
        zh="被中断的检查的结果文件，从该处继续",
    )
    save_error_data: bool = option(
        FLAG,
        "--save-error-data",
        default=False,
        help="save the tensors of wrong calls below DIR/error_data",
        zh="把出错调用的张量保存到 DIR/error_data 下",
    )
    device: tuple[int, ...] = option(
        _DEVICES,
        "-d",
        "--device",
        default=(0,),
        help="devices, one process each; default: 0",
        zh="设备，每个设备一个进程；默认：0",
    )
    config_path: str = option(
        TEXT,
        "--config",
        metavar="FILE",
        default="",
        help="config.json with white_list and black_list",
        zh="含 white_list 和 black_list 的 config.json",
    )
    white_list: str = option(
        TEXT,
        "--only",
        metavar="NAME,..",
        default="",
        help="check only these APIs or functions",
        zh="只检查这些 API 或函数",
    )
    black_list: str = option(TEXT, "--skip", metavar="NAME,..", default="", help="do not check these", zh="不检查这些")
    run: bool | None = option(
        SWITCH,
        "--run",
        help="execute the calls of a dump of task tensor again on the current device; by default the recorded outputs "
        "are judged",
        zh="在当前设备上重新执行 task 为 tensor 的 dump 中的调用；默认判定已记录的输出",
    )
    seed: int = option(whole(), "--seed", default=42, help="seed of generated inputs", zh="生成输入所用的随机种子")
    html: bool = option(
        FLAG,
        "--html",
        default=False,
        role=OUTPUT,
        help="also write *_report_*.html, a page with all results",
        zh="另外写出包含全部结果的页面 *_report_*.html",
    )


def run(options: Options) -> int:
    """Check, write the files, print, and return the exit code."""
    from msprobe.store.reader import find, read

    from .check import apis_of
    from .lists import Lists, from_configuration, split
    from .run import check_all
    from .tables import Files, verdicts_in

    devices = _devices(options.device)
    if options.html:
        check_page()
    file = find(options.dump)
    dump = read(file)
    how = _options(options, dump, devices)
    lists = from_configuration(options.config_path) if options.config_path else Lists()
    lists = Lists((*lists.white, *split(options.white_list)), (*lists.black, *split(options.black_list)))
    apis = apis_of(dump)
    if not apis:
        raise UsageError(f"{options.dump}: contains no API calls to check; collect with level L1 or mix")
    apis = lists.chosen(apis)
    earlier = NONE
    if options.result_csv_path:
        files = Files.next_to(options.result_csv_path)
        done = files.done()
        earlier = verdicts_in(files)
        apis = [api for api in apis if api.name not in done]
        logger.info("%d APIs are already checked, %d remain", len(done), len(apis))
    else:
        files = Files.new(options.output, time.strftime("%Y%m%d%H%M%S"))
    found: list[Checked] = []
    with TemporaryDirectory() if len(devices) > 1 else nullcontext("") as claims:
        for checked in check_all(dump, str(file), apis, how, options.workers or 0, claims):
            files.append(checked)
            found.append(checked)
    place = {api.name: at for at, api in enumerate(apis)}
    found.sort(key=lambda each: place[each.name])
    written = {"results": files.result, "details": files.details}
    if options.html:
        from .report import report_of  # here, as above

        written["page"] = path = files.beside_result("report", ".html")
        report_of(found, dump, str(options.dump)).write(path)
        logger.info("the report is in %s", path)
    return _conclude(found, dump, options, written, earlier)


def _devices(given: tuple[int, ...]) -> tuple[int, ...]:
    for device in given:
        if not 0 <= device <= _MOST_DEVICES:
            raise UsageError(
                translated(
                    f"-d: {device} is not a device; give numbers from 0 to {_MOST_DEVICES}",
                    f"-d：{device} 不是设备编号；请给出 0 到 {_MOST_DEVICES} 之间的数",
                )
            )
    if len(set(given)) < len(given):
        numbers_given = " ".join(map(str, given))
        raise UsageError(
            translated(
                f"-d: a device is given twice in {numbers_given}; remove one",
                f"-d：{numbers_given} 中有重复的设备；请去掉一个",
            )
        )
    return tuple(given)


def _options(options: Options, dump: "Dump", devices: tuple[int, ...]) -> "Execution":
    from .run import Options as Execution

    if dump.framework not in PACKAGES:
        raise UsageError(
            f"{options.dump}: is a dump of {dump.framework or 'an unknown framework'}, whose calls cannot be checked"
        )
    if dump.task not in ("statistics", "tensor", "acc_check"):  # the last contains the wrong calls of a training
        raise UsageError(
            f"{options.dump}: is a dump of task {dump.task}; collect task tensor or statistics, level L1 or mix"
        )
    is_drawn = dump.task == "statistics"
    if dump.framework in REPLACE_REFERENCE and (is_drawn or options.run):
        raise UsageError(
            f"{options.dump}: calls of PyTorch's API on MindSpore cannot be executed here, since this layer "
            "replaces the PyTorch that computes float64 results; collect task tensor, so that recorded outputs "
            "are judged"
        )
    if is_drawn and options.run is False:
        raise UsageError("--no-run judges recorded outputs, which a dump of task statistics does not contain; omit it")
    if options.save_error_data and not is_drawn and not options.run:
        logger.warning(
            "--save-error-data: the dump of task tensor already contains the tensors; they are not saved again"
        )
    is_saving = options.save_error_data and (is_drawn or bool(options.run))
    return Execution(
        seed=options.seed if is_drawn else None,
        is_run=is_drawn or bool(options.run),
        devices=devices,
        save=str(options.output / "error_data") if is_saving else "",
    )


def _conclude(
    found: "list[Checked]", dump: "Dump", options: Options, files: Mapping[str, Path], earlier: Verdicts
) -> int:
    """Print the answer; returns the exit code, which includes the verdicts of an `earlier` check that was resumed."""
    from .check import verdicts_of, wrong_outputs
    from .report import answer_of, counts_of, criteria, skipped_calls, summary

    verdicts = earlier + verdicts_of(found)
    answer = answer_of(found, dump, str(options.dump), verdicts)
    if options.is_json:
        from msprobe.findings.document import Document, printed

        details = {
            "apis": len(found),
            "calls": sum(len(checked.directions) for checked in found),
            "criteria": [{"criterion": name, "grade": grade, "number": n} for name, grade, n in criteria(found)],
            "skipped": [{"why": why, "number": number} for why, number in skipped_calls(found)],
        }
        printed(Document("acc-check", answer, verdicts, verdicts.exit_code, counts_of(found), files, details))
        return verdicts.exit_code
    print(summary(found))
    for criterion, grade, count in criteria(found):
        print(f"  {count:6d}  {grade:<7}  by {criterion}")
    for why, count in skipped_calls(found)[:_MAX_LISTED]:
        print(f"  {count:6d}  skipped  {why}")
    wrong = wrong_outputs(found)
    for output in wrong[:_MAX_LISTED]:
        print(terminal_line(f"error: {output.name}: {output.message}"))
    if len(wrong) > _MAX_LISTED:
        print(f"and {len(wrong) - _MAX_LISTED} more")
    print(terminal_line(f"results: {files['results']}"))
    print(terminal_line(f"details: {files['details']}"))
    print(terminal_line(answer.line))
    return verdicts.exit_code

"""Check the kernels: every recorded API call against the same function in float64, computed by PyTorch on the CPU.

  msprobe acc_check -api_info dump.json [-o DIR]

A dump of task tensor is judged by its recorded outputs, or executed again on the current device (--run). Of a dump of
task statistics inputs are drawn to the recorded statistics, and each call is executed. run_ut is the same by its older
name; multi_acc_check and multi_run_ut too, with -d for several devices. The last line on standard output names the
first wrong output. Exit code: 0 nothing is wrong, 1 something is or could not be judged, 2 the command was wrong or
nothing could be judged.
"""

import argparse
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msprobe.base.errors import UsageError
from msprobe.base.log import logger, visible
from msprobe.base.verdicts import NONE, Verdicts, last_line
from msprobe.report.file import check_page

if TYPE_CHECKING:
    from msprobe.store.record import Dump

    from .check import Checked
    from .run import Options

_SHOWN = 10
"""Wrong outputs, and reasons for skipping, that are shown."""

_MOST_DEVICES = 4095


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        *("-api_info", "--api_info_file"), metavar="FILE", required=True, help="dump.json, or the folder that holds it"
    )
    parser.add_argument("-o", "--out_path", metavar="DIR", default="./", help="folder of the results; default: ./")
    parser.add_argument(
        *("-csv_path", "--result_csv_path"), metavar="FILE", help="the result file of an interrupted check: go on there"
    )
    parser.add_argument(
        "-save_error_data", action="store_true", help="save the tensors of what is wrong below DIR/error_data"
    )
    parser.add_argument(
        *("-d", "--device"), metavar="N", type=int, nargs="+", default=[0], help="devices, one process each; default: 0"
    )
    parser.add_argument("-config", "--config_path", metavar="FILE", help="config.json with white_list and black_list")
    parser.add_argument("--white_list", metavar="NAME,..", default="", help="check only these APIs or functions")
    parser.add_argument("--black_list", metavar="NAME,..", default="", help="do not check these")
    parser.add_argument(
        "--run",
        action=argparse.BooleanOptionalAction,
        help="execute calls of a dump of task tensor again on the current device; by default its outputs are judged",
    )
    parser.add_argument("--seed", type=int, default=42, help="of drawn inputs; default: 42")
    parser.add_argument(
        "--html",
        action="store_true",
        help="also write a page that shows all of it, beside the results: *_report_*.html",
    )
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="processes; default: one for each core")


def run(args: argparse.Namespace) -> int:
    """Check, write the files, print, and say with the exit code how it went."""
    from msprobe.store.reader import find, read

    from .check import apis_of
    from .lists import Lists, from_configuration, split
    from .run import check_all
    from .tables import Files, verdicts_in

    devices = _devices(args.device)
    if args.html:
        check_page()
    if args.workers < 0:
        raise UsageError(f"--workers must be 0 (one for each core) or more, not {args.workers}")
    file = find(Path(args.api_info_file))
    dump = read(file)
    options = _options(args, dump, devices)
    lists = from_configuration(args.config_path) if args.config_path else Lists()
    lists = Lists((*lists.white, *split(args.white_list)), (*lists.black, *split(args.black_list)))
    apis = apis_of(dump)
    if not apis:
        raise UsageError(f"{args.api_info_file}: has no calls of an API to be checked; collect with level L1 or mix")
    apis = lists.chosen(apis)
    earlier = NONE
    if args.result_csv_path:
        files = Files.beside(Path(args.result_csv_path))
        done = files.done()
        earlier = verdicts_in(files)
        apis = [api for api in apis if api.name not in done]
        logger.info("%d APIs are checked already, %d are left", len(done), len(apis))
    else:
        files = Files.new(Path(args.out_path), time.strftime("%Y%m%d%H%M%S"))
    found: list[Checked] = []
    with TemporaryDirectory() if len(devices) > 1 else nullcontext("") as claims:
        for checked in check_all(dump, str(file), apis, options, args.workers, claims):
            files.append(checked)
            found.append(checked)
    place = {api.name: at for at, api in enumerate(apis)}
    found.sort(key=lambda each: place[each.name])
    if args.html:
        from .report import report_of  # here, as above

        path = files.beside_result("report", ".html")
        report_of(found, dump, args.api_info_file).write(path)
        logger.info("the report is in %s", path)
    return report(found, str(files.result), str(files.details), earlier)


def _devices(given: list[int]) -> tuple[int, ...]:
    for device in given:
        if not 0 <= device <= _MOST_DEVICES:
            raise UsageError(f"-d: {device} is no device; give numbers from 0 to {_MOST_DEVICES}")
    if len(set(given)) < len(given):
        raise UsageError(f"-d: a device is given twice in {' '.join(map(str, given))}; remove one")
    return tuple(given)


def _options(args: argparse.Namespace, dump: "Dump", devices: tuple[int, ...]) -> "Options":
    from .executor import BACKENDS
    from .run import Options

    if dump.framework not in (*BACKENDS, "mindtorch"):
        raise UsageError(
            f"{args.api_info_file}: is a dump of {dump.framework or 'no framework'}; calls of it are unknown"
        )
    if dump.task not in ("statistics", "tensor", "acc_check"):  # the last holds what a training found wrong
        raise UsageError(
            f"{args.api_info_file}: is a dump of task {dump.task}; collect task tensor or statistics, level L1 or mix"
        )
    is_drawn = dump.task == "statistics"
    if dump.framework == "mindtorch" and (is_drawn or args.run):
        raise UsageError(
            f"{args.api_info_file}: calls of PyTorch's API on MindSpore are not executed here, since that layer takes "
            "the place of the PyTorch that computes in float64; collect task tensor, and its outputs are judged"
        )
    if is_drawn and args.run is False:
        raise UsageError(
            "--no-run judges recorded outputs, which a dump of task statistics does not have; leave it out"
        )
    if args.save_error_data and not is_drawn and not args.run:
        logger.warning("-save_error_data: the tensors of a dump of task tensor are in that dump; none are saved again")
    is_saving = args.save_error_data and (is_drawn or bool(args.run))
    return Options(
        seed=args.seed if is_drawn else None,
        is_run=is_drawn or bool(args.run),
        devices=devices,
        save=str(Path(args.out_path) / "error_data") if is_saving else "",
    )


def report(found: "list[Checked]", result: str, details: str, earlier: Verdicts = NONE) -> int:
    """Print how it went; gives the exit code, with the verdicts of an `earlier` check that this one went on with."""
    from .check import verdicts_of
    from .judge import Status
    from .wording import answer, sentence, wrong_outputs

    every = [(checked, direction) for checked in found for direction in checked.directions]
    counts = Counter(direction.status for _, direction in every)
    criteria = Counter(
        (output.judgement.criterion.value, output.judgement.status) for _, d in every for output in d.outputs
    )
    print(
        f"{len(found)} APIs, {len(every)} calls: {counts[Status.PASS]} pass, {counts[Status.WARNING]} warning, "
        f"{counts[Status.ERROR]} error, {counts[Status.SKIP]} skipped"
    )
    for (criterion, status), count in sorted(criteria.items(), key=lambda item: -item[1]):
        print(f"  {count:6d}  {status.value:<7}  by {criterion}")
    skipped = Counter(d.skipped.why.value for _, d in every if d.skipped is not None)
    for why, count in skipped.most_common(_SHOWN):
        print(f"  {count:6d}  skipped  {why}")
    wrong = wrong_outputs(found)
    for output in wrong[:_SHOWN]:
        print(visible(f"error: {sentence(output)}"))
    if len(wrong) > _SHOWN:
        print(f"and {len(wrong) - _SHOWN} more")
    print(visible(f"results: {result}"))
    print(visible(f"details: {details}"))
    verdicts = earlier + verdicts_of(found)
    print(visible(last_line(answer(wrong), verdicts)))
    return verdicts.exit_code

"""Compare the errors of two devices: details of two checks of the same calls, such as on an NPU and on a GPU.

  msprobe api-precision-compare --npu DETAILS --gpu DETAILS [-o DIR]

Both files are accuracy_checking_details_TIME.csv of `msprobe acc-check`. An output is wrong if its error against
float64 is a multiple of the other device's error. The last line on standard output is the first wrong output. Exit
code: 0 no output is wrong, 1 an output is wrong or could not be judged, 2 the command was wrong or nothing could be
judged.
"""

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.log import terminal_line
from msprobe.options.declaration import option
from msprobe.options.groups import JsonAnswer, output_option
from msprobe.options.kinds import PATH


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    npu_csv_path: Path = option(
        PATH,
        "--npu",
        metavar="FILE",
        required=True,
        help="details of the device under test",
        zh="待测设备的明细",
    )
    gpu_csv_path: Path = option(
        PATH,
        "--gpu",
        metavar="FILE",
        required=True,
        help="details of the other device",
        zh="另一设备的明细",
    )
    output: Path = output_option(default="./")


def run(options: Options) -> int:
    """Compare, write the files, print, and return the exit code."""
    from msprobe.base.verdicts import Verdicts, last_line

    from .devices import Cause, compared
    from .judge import Status
    from .tables import DETAILS, read_rows, write_compared

    torn: list[int] = []
    target, golden = (read_rows(path, DETAILS, torn) for path in (options.npu_csv_path, options.gpu_csv_path))
    found = compared(target, golden)
    if not found:
        raise UsageError(f"{options.npu_csv_path}: contains no outputs; give the details file of a check")
    result = write_compared(options.output, time.strftime("%Y%m%d%H%M%S"), found)
    wrong = [each for each in found if each.status is Status.ERROR]
    skipped = sum(each.status is Status.SKIP for each in found)
    passed = len(found) - len(wrong) - skipped
    first = next((f"{each.name} ({each.exceeded or each.criterion.value})" for each in wrong), "none")
    gaps = Counter(each.cause for each in found if each.status is Status.SKIP)
    gaps[Cause.ONLY_GOLDEN] = len({row["API Name"] for row in golden} - {row["API Name"] for row in target})
    gaps[Cause.TORN] = len(torn)
    verdicts = Verdicts(passed, len(wrong), gaps)
    line = last_line(f"first wrong output: {first}", verdicts)
    if options.is_json:
        from msprobe.findings.catalogue.single_calls import OTHER_DEVICE
        from msprobe.findings.data import as_data
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer, Finding, Place

        findings = []
        for one in wrong:
            reason = f"{one.cause.value}: {one.exceeded}" if one.exceeded else one.cause.value
            findings.append(Finding(OTHER_DEVICE, Place(one.name), reason, "error", fields=as_data(one)))
        state = "differs" if wrong else "clean" if verdicts.exit_code == 0 else "unjudged"
        answer = Answer(state, line, findings[0] if findings else None, tuple(findings[1:]))
        counts = {"pass": passed, "error": len(wrong), "unjudged": skipped}
        files = {"results": result}
        printed(Document("api-precision-compare", answer, verdicts, verdicts.exit_code, counts, files))
        return verdicts.exit_code
    print(f"{len(found)} outputs: {passed} pass, {len(wrong)} error, {skipped} skipped")
    print(terminal_line(f"results: {result}"))
    print(terminal_line(line))
    return verdicts.exit_code

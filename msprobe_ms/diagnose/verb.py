"""Find where two runs diverge, why this is known, and what to collect next.

  msprobe diagnose A B [--write-config next.json]

A is under suspicion, B is trusted. Each is any input of `msprobe compare` (a dump, the folder of a rank, of a step or
of a run), the output of a monitor or of grad_probe, a checkpoint, a pack of a configuration, or a folder with any of
these. Counterparts are compared, the coarsest first: monitors give the step, dumps the call.

Standard output has one page: the answer, its evidence, what was ruled out and with which certainty, what was not
recorded, and, if the records are not sufficient, a configuration for the next collection. For the same dumps the answer
is that of `msprobe compare`. Exit code: 0 nothing differs, 1 something differs or could not be compared, 2 the command
was wrong or nothing could be read.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msprobe.base.errors import UsageError
from msprobe.base.files import creating, make_folder
from msprobe.base.language import translated
from msprobe.base.log import logger, terminal_line
from msprobe.compare.core.user_limits import UserLimitOptions
from msprobe.compare.request import Request, with_options
from msprobe.options.declaration import OUTPUT, option, positional
from msprobe.options.groups import AnswerFormat, ExitZero, Mappings, Selection, Workers, output_option
from msprobe.options.kinds import PATH
from msprobe.store.detect import bundle_of, unbundled

if TYPE_CHECKING:
    from .diagnosis import NextCollection


@dataclass(frozen=True, kw_only=True)
class Options(Selection, UserLimitOptions, Mappings, Workers, AnswerFormat, ExitZero):
    """The options of the command."""

    target: Path = positional(
        PATH,
        "A",
        help="the run under suspicion: a dump, a monitor, or a folder of these",
        zh="待定位的运行：dump、监控输出，或含它们的文件夹",
    )
    golden: Path | None = positional(
        PATH, "B", default=None, help="the trusted run, in the same form", zh="标杆运行，形式相同"
    )
    write_config: Path | None = option(
        PATH,
        "--write-config",
        metavar="FILE",
        role=OUTPUT,
        help="write the configuration of the next collection to this file, whose name ends in .json",
        zh="把下一次采集的配置写到该文件，文件名以 .json 结尾",
    )
    proof: Path | None = option(
        PATH,
        "--proof",
        metavar="FILE",
        help="quote this proof of the cause: proof.json in the folder of msprobe graft -o",
        zh="引用该原因证明：msprobe graft -o 目录中的 proof.json",
    )
    output: Path | None = output_option(
        help="keep the tables of the comparisons in this folder; default: not kept",
        zh="把各次比对的表保留在该文件夹；默认：不保留",
    )


def run(options: Options) -> int:
    """Diagnose, print the page, and return the exit code."""
    with unbundled(bundle_of((options.target, options.golden)), options) as filled:
        if filled.golden is None:
            raise UsageError(
                translated(
                    f"{options.target}: the trusted run is missing; give both: msprobe diagnose A B",
                    f"{options.target}：缺少标杆运行；请同时给出两者：msprobe diagnose A B",
                )
            )
        return _diagnose(filled, filled.golden)


def _diagnose(options: Options, golden: Path) -> int:
    config = options.write_config
    for path in (config, _golden(config)) if config is not None else ():
        # Checked before anything is compared.
        if path.suffix != ".json":
            raise UsageError(
                translated(
                    f"--write-config {path}: PrecisionDebugger reads files whose name ends in .json; rename it",
                    f"--write-config {path}：PrecisionDebugger 读取文件名以 .json 结尾的文件；请改名",
                )
            )
        if os.path.lexists(path):
            raise UsageError(
                translated(
                    f"--write-config {path}: already exists; give another file, or remove it",
                    f"--write-config {path}：文件已存在；请换一个文件，或删除它",
                )
            )
    from .page import document_of, page  # here: the help of the command does not need numpy
    from .proof import read_proof
    from .walk import diagnose

    proof = None if options.proof is None else read_proof(options.proof, options.target, golden)
    with TemporaryDirectory(prefix="msprobe-diagnose-") as temporary:
        found = diagnose(_request(options, golden, options.output or Path(temporary)))
    found = replace(found, proof=proof)
    files = _write(found.next, config) if config is not None else []
    exit_code = found.verdicts.exit_code_of(options.exit_zero)
    if options.is_json:
        from msprobe.findings.document import printed  # here, as above

        printed(document_of(found, exit_code, files))
    else:
        print("\n".join(page(found, files)))
    return exit_code


def _request(options: Options, golden: Path, output: Path) -> Request:
    request = with_options(Request(options.target, golden), options)
    is_kept = options.output is not None
    return replace(request, output=output.absolute(), format="xlsx" if is_kept else "csv", resume=is_kept)


def _golden(config: Path) -> Path:
    """Return the file of the golden's configuration, if it differs."""
    return config.with_name(f"{config.stem}_golden{config.suffix}")


def _write(found: "NextCollection | None", config: Path) -> list[str]:
    """Write the configuration of each side, and return the files."""
    if found is None:
        logger.info("%s: not written, since no further collection is needed", terminal_line(str(config)))
        return []
    from .page import shown  # here, as above

    wanted = [(config, found.of(found.sides[0]))]
    if not found.is_one:
        wanted.append((_golden(config), found.golden))
    for path, configuration in wanted:
        try:
            make_folder(path.parent)
            with creating(path) as file:
                file.write("\n".join(shown(configuration)).encode() + b"\n")
        except OSError as err:
            raise UsageError(f"--write-config {path}: cannot be written ({err.strerror}); give another file") from err
    return [str(path) for path, _ in wanted]
